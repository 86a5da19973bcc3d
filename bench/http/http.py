#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
http.py BUILD_DIR [--rounds N] [--seconds S] [--processors N] [--what NAME,..] [--quick]:
examples/http-server beside Go's net/http, hyper on tokio, and nginx, under the load of wrk.

hello 64, hello 1000: keep-alive requests for a short text, over so many connections. new: a
connection for each request, 64 at a time. db: a query to PostgreSQL for each, 64 connections over
16 to the database. tls 64, tls new: as hello 64 and new, with TLS 1.3 and an ECDSA certificate; hyper
has rustls, sennit and nginx have the system's OpenSSL. wrk resumes sessions: all but the first 64 of
the new connections are resumed, where the server gives tickets. Columns: requests per second;
microseconds of the server's CPU for each (user and system, all of its processes, but not
PostgreSQL's); the median and the 99th percentile of the latencies that wrk sees, in microseconds.

The server runs on the first --processors CPUs (1), the load and PostgreSQL on the others. Look at
the CPU time first: the rate also depends on how fast the load is. The servers take turns in every
round, so that other load on the machine affects all of them. The tables have the medians over the
rounds, with the lowest and highest. nginx answers with "return 200", and has no database. A peer
that is missing is reported loudly. --quick only shows that everything runs.

BENCH_HTTP_ROUNDS and BENCH_HTTP_SECONDS in the environment are the defaults of --rounds (5) and
--seconds (2). Both are whole numbers, because wrk takes no other durations.
"""
import argparse
import glob
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import common  # noqa: E402
from common import built, free_port, loudly, our_program  # noqa: E402

ROWS = {"hello 64": ("/", 64), "hello 1000": ("/", 1000), "new": ("/", 64), "db": ("/db?n=7", 64),
        "tls 64": ("/", 64), "tls new": ("/", 64)}
POOL = 16
# PostgreSQL does not run as root.
USER = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr crit;
worker_processes {processors};
events {{ worker_connections 32768; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    server {{
        listen 127.0.0.1:{port} backlog=4096{tls};
        default_type text/plain;
        location / {{ return 200 "hello, world\\n"; }}
    }}
}}
"""


def whole(name, default):
    """A whole number in the environment."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or int(text) == 0:
        sys.exit(f"http.py: {name}={text}: it must be a whole number, because wrk takes no other")
    return int(text)


class Server(common.Server):
    def __init__(self, name, command, cpus, port=None, certificate=None):
        self.results = {}
        self.scheme = "https" if certificate else "http"
        # The servers of this directory read these variables.
        environment = {"HTTP_CERTIFICATE": certificate[0], "HTTP_KEY": certificate[1]} if certificate else {}
        super().__init__(name, command, cpus, port, environment)


class Postgres:
    """A database for this run. If there is none, `missing` has the reason."""

    def __init__(self, folder, cpus):
        self.process, self.missing = None, None
        tools = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres")) or [shutil.which("postgres")]
        if not tools[-1]:
            self.missing = "PostgreSQL is not installed"
            return
        bin_ = os.path.dirname(tools[-1])
        data = os.path.join(folder, "data")
        os.mkdir(data, 0o700)
        if USER:
            shutil.chown(data, "postgres")
        subprocess.run([f"{bin_}/initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "--locale=C"],
                       cwd="/", check=True, stdout=subprocess.DEVNULL, **USER)
        self.port = free_port()
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cpus)), f"{bin_}/postgres", "-D", data, "-p",
             str(self.port), "-h", "127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
            **USER)
        until = time.monotonic() + 60
        ready = [f"{bin_}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit("http.py: PostgreSQL does not start")
            time.sleep(0.1)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()


def make_certificate(folder):
    """Makes the files of a certificate and its key; returns nothing if there is no openssl."""
    names = (os.path.join(folder, "certificate.pem"), os.path.join(folder, "key.pem"))
    if not shutil.which("openssl"):
        loudly("NO TLS: there is no openssl to make a certificate")
        return None
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=localhost", "-out", names[0], "-keyout",
                    names[1]], check=True, capture_output=True)
    for name in names:
        os.chmod(name, 0o644)  # nginx's workers are another user's
    return names


def build_peers(kept):
    """The programs of the peers that can be built, by their names."""
    os.makedirs(kept, exist_ok=True)
    programs = {}
    go, target = os.path.join(kept, "go"), os.path.join(kept, "hyper")
    if built("Go", "go", ["go", "build", "-o", go, "."], os.path.join(HERE, "go")):
        programs["Go"] = go
    if built("hyper", "cargo", ["cargo", "build", "--release", "--quiet", "--target-dir", target],
             os.path.join(HERE, "hyper")):
        programs["hyper"] = f"{target}/release/http"
    if shutil.which("nginx"):
        programs["nginx"] = shutil.which("nginx")
    else:
        loudly("NOT COMPARED WITH nginx: it is not installed")
    return programs


def contestants(build, programs, folder, cpus, database=None, certificate=None):
    """Starts all servers that there are, with a database or with TLS."""
    where = [] if not database or database.missing else [
        f"host=127.0.0.1 port={database.port} user=postgres dbname=postgres sslmode=disable"]
    pool = [str(POOL)] if where else []
    ours = [os.path.join(build, "examples/example-http-server"), "--listen", "127.0.0.1:0",
            "--connections", "100000"]
    if where:
        ours += ["--db", *where, "--db-connections", *pool]
    if certificate:
        ours += ["--tls-cert", certificate[0], "--tls-key", certificate[1]]
    servers = [Server("sennit", ours, cpus, certificate=certificate)]
    if "Go" in programs:
        servers.append(Server("Go", [programs["Go"], *where, *pool], cpus, certificate=certificate))
    if "hyper" in programs:
        servers.append(Server("hyper", [programs["hyper"], str(len(cpus)), *where, *pool], cpus,
                              certificate=certificate))
    if "nginx" in programs:
        port = free_port()
        path = os.path.join(folder, f"nginx.{port}.conf")
        tls = "" if not certificate else (f" ssl; ssl_protocols TLSv1.3; "
                                          f"ssl_certificate {certificate[0]}; "
                                          f"ssl_certificate_key {certificate[1]}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(NGINX.format(folder=folder, port=port, processors=len(cpus), tls=tls)
                       .replace("nginx.pid", f"nginx.{port}.pid"))
        servers.append(Server("nginx", [programs["nginx"], "-p", folder, "-e", "stderr", "-c", path],
                              cpus, port, certificate))
    return servers


def measure(server, row, cpus, seconds):
    """Requests per second, us of CPU for each, and the two latencies."""
    path, connections = ROWS[row]
    header = ["-H", "Connection: close"] if row.endswith("new") else []
    before = server.cpu_seconds()
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, cpus)), "wrk", "-t", str(len(cpus)), "-c",
         str(connections), "-d", f"{seconds}s", "-s", os.path.join(HERE, "report.lua"), *header,
         f"{server.scheme}://127.0.0.1:{server.port}{path}"],
        capture_output=True, text=True, timeout=seconds + 60, check=False)
    cpu = server.cpu_seconds() - before
    result = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or not result:
        sys.exit(f"http.py: {server.name}, {row}: {done.stdout}{done.stderr}")
    requests, took, errors, p50, p99 = map(int, result[0].split()[1:])
    if requests == 0 or errors > requests / 100:
        sys.exit(f"http.py: {server.name}, {row}: {requests} requests, {errors} errors")
    return requests * 1e6 / took, cpu * 1e6 / requests, p50, p99


def cell(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def tables(servers, rows):
    for row in rows:
        print(f"\n{row}")
        lines = [["", "a second", "CPU us each", "p50 us", "p99 us"]]
        for server in servers:
            if row in server.results:
                columns = list(zip(*server.results[row]))
                lines.append([server.name] + [cell(c, 1 if i == 1 else 0) for i, c in enumerate(columns)])
        widths = [max(len(line[i]) for line in lines) for i in range(5)]
        for line in lines:
            print("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                            for i, (text, width) in enumerate(zip(line, widths))))
        ours, *others = [each for each in servers if row in each.results]
        ours = ours.results[row]
        for server in others:
            # The ratios are of the same round, because other load on the machine changes these
            # less.
            pairs = list(zip(ours, server.results[row]))
            print(f"{server.name} / sennit: CPU {cell([b[1] / a[1] for a, b in pairs], 2)}, "
                  f"p99 {cell([b[3] / a[3] for a, b in pairs], 2)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=whole("BENCH_HTTP_ROUNDS", 5))
    parser.add_argument("--seconds", type=int, default=whole("BENCH_HTTP_SECONDS", 2))
    parser.add_argument("--processors", type=int, default=1)
    parser.add_argument("--what", default=",".join(ROWS), help="rows, with commas between")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 1
    if not shutil.which("wrk"):
        sys.exit("http.py: there is no wrk")
    rows = options.what.split(",")
    if not set(rows) <= set(ROWS):
        parser.error(f"there are {', '.join(ROWS)}")
    our_program(options.build, "examples/example-http-server", "build")
    cpus = sorted(os.sched_getaffinity(0))
    ours, theirs = cpus[:options.processors], cpus[options.processors:] or cpus
    servers = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        database = Postgres(folder, theirs)
        try:
            build = os.path.abspath(options.build)
            programs = build_peers(os.path.join(build, "bench/http/peers"))
            servers = contestants(build, programs, folder, ours, database=database)
            certificate = make_certificate(folder)
            with_tls = contestants(build, programs, folder, ours, certificate=certificate) if certificate else []
            servers += with_tls
            print(f"{options.rounds} rounds of {options.seconds} s each, in turn; servers on CPU "
                  f"{', '.join(map(str, ours))}, the load on {', '.join(map(str, theirs))}; load "
                  f"{os.getloadavg()[0]:.1f} before; medians, lowest and highest in brackets", flush=True)
            for row in rows:
                if row == "db" and database.missing:
                    loudly(f"NO DATABASE: {database.missing}")
                    continue
                for _ in range(options.rounds):
                    for server in servers:
                        if (server in with_tls) != row.startswith("tls"):
                            continue
                        if row != "db" or server.name != "nginx":
                            server.results.setdefault(row, []).append(
                                measure(server, row, theirs, options.seconds))
        finally:
            for server in servers:
                server.stop()
            database.stop()
    tables(servers, [row for row in rows if any(row in each.results for each in servers)])


if __name__ == "__main__":
    main()
