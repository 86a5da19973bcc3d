#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tls.py BUILD_DIR [--rounds N] [--seconds S] [--idle N] [--what NAME,..] [--only NAME,..] [--quick]:
servers on libsennit-tls (server.c) beside Go's crypto/tls (server.go), nginx and, for idle
connections, HAProxy, under the load of load.c. TLS 1.3, X25519, AES-128-GCM.

file: 8 connections that get a file of so many bytes over and over; all servers read the file each
time. stream: one side writes pieces of that size without end, over 2 connections; nginx has no such
thing. sink: the same in the other direction. new: complete handshakes, 8 at a time, with ECDSA
P-256 and RSA-2048 certificates, and resumed by tickets; beside what OpenSSL takes without sennit
(limit.c), as the barest server and in memory without a socket, and the figures of `openssl speed`
for the signature and X25519 alone. idle: resident memory of the server, without the kernel's, for
each of 10,000 connections that have had one answer and stay open; fewer connections if too few
descriptors are allowed.

Every figure is per second of the server's CPU (user and system, all of its processes), so it does
not depend on how fast the load is. The server runs on the first CPU, the load on the others. The
servers take turns in every round. The tables have the medians over the rounds, with the lowest and
highest. A peer that is missing is reported loudly. --quick only shows that everything runs.

BENCH_TLS_ROUNDS and BENCH_TLS_SECONDS in the environment are the defaults of --rounds (5) and
--seconds (1).
"""
import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from common import (TICK, Server, built, family, free_port, loudly,  # noqa: E402
                    most_descriptors, our_program, write)

SIZES = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20]
CONNECTIONS = {"file": 8, "stream": 2, "sink": 2, "new": 8}
ALL = ["file", "stream", "sink", "new", "idle"]

NGINX = """
daemon off;
pid {folder}/{name}.pid;
error_log stderr crit;
worker_processes 1;
events {{ worker_connections 18000; }}
http {{
    access_log off;
    sendfile {sendfile};
    tcp_nopush {sendfile};
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
    open_file_cache max=100;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    server {{
        listen 127.0.0.1:{port} ssl backlog=4096;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate {certificate}.pem;
        ssl_certificate_key {certificate}.key;
        default_type text/plain;
        location /file/ {{ alias {folder}/; }}
        location / {{ return 200 "hello\\n"; }}
    }}
}}
"""

HAPROXY = """
global
    maxconn {most}
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 10m
    timeout server 10m
    timeout http-keep-alive 10m
frontend front
    bind 127.0.0.1:{port} ssl crt {certificate}.both ssl-min-ver TLSv1.2
    http-request return status 200 content-type text/plain string hello
"""


def resident(pid):
    """Bytes of anonymous memory."""
    total = 0
    for each in family(pid):
        with open(f"/proc/{each}/status", encoding="ascii") as file:
            total += int(re.search(r"RssAnon:\s+(\d+) kB", file.read())[1]) << 10
    return total


class Alone:
    """OpenSSL without a server, in memory: only the CPU time of the server's calls counts."""

    name = "OpenSSL alone"

    def __init__(self, program, files, cpus):
        self.program, self.files, self.cpus = program, files, cpus

    def handshakes(self, kind, seconds):
        """How many there are per second of CPU time."""
        done = subprocess.run(["taskset", "-c", ",".join(map(str, self.cpus)), self.program, kind,
                               *self.files, str(seconds)],
                              capture_output=True, text=True, timeout=seconds + 60, check=True)
        n, ns = map(int, done.stdout.split())
        return n / max(ns, 1) * 1e9

    def stop(self):
        """As a server's; nothing runs."""


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        cpus = sorted(os.sched_getaffinity(0))
        self.ours, self.theirs = cpus[:1], cpus[1:] or cpus
        self.load_program = os.path.join(options.build, "bench/tls/bench-tls-load")
        self.go = None
        self.nginx, self.haproxy = shutil.which("nginx"), shutil.which("haproxy")
        for size in SIZES:
            with open(os.path.join(folder, str(size)), "wb") as file:
                file.write(os.urandom(size))
        for name, key in (("ecdsa", ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]), ("rsa", ["rsa:2048"])):
            path = os.path.join(folder, name)
            subprocess.run(["openssl", "req", "-x509", "-newkey", *key, "-nodes", "-days", "30", "-subj",
                            "/CN=localhost", "-keyout", path + ".key", "-out", path + ".pem"],
                           check=True, capture_output=True)
            os.chmod(path + ".key", 0o644)
            with open(path + ".pem", encoding="ascii") as pem, open(path + ".key", encoding="ascii") as key:
                write(path + ".both", pem.read() + key.read())

    def build_peers(self):
        kept = os.path.join(self.options.build, "bench/tls/peers")
        os.makedirs(kept, exist_ok=True)
        program = os.path.join(kept, "go")
        if built("Go", "go", ["go", "build", "-o", program, os.path.join(HERE, "server.go")]):
            self.go = program
        for name in ("nginx", "haproxy"):
            if not shutil.which(name):
                loudly(f"NOT COMPARED WITH {name}: it is not installed")

    def start_nginx(self, name, certificate, sendfile):
        port = free_port()
        path = write(os.path.join(self.folder, f"nginx-{port}.conf"),
                     NGINX.format(folder=self.folder, name=f"nginx-{port}", port=port, sendfile=sendfile,
                                  certificate=certificate))
        return Server(name, [self.nginx, "-p", self.folder, "-e", "stderr", "-c", path], self.ours, port)

    def start(self, name, certificate):
        """The server of this name, or None."""
        path = os.path.join(self.folder, certificate)
        arguments = [path + ".pem", path + ".key", self.folder]
        if name == "sennit":
            program = os.path.join(self.options.build, "bench/tls/bench-tls-server")
            return Server(name, [program, *arguments], self.ours)
        if "OpenSSL" in name:
            program = os.path.join(self.options.build, "bench/tls/bench-tls-limit")
            if name == Alone.name:
                return Alone(program, arguments[:2], self.ours)
            return Server(name, [program, "serve", *arguments[:2]], self.ours)
        if name == "Go" and self.go:
            return Server(name, [self.go, *arguments], self.ours)
        if name in ("nginx", "nginx with sendfile") and self.nginx:
            return self.start_nginx(name, path, "on" if "sendfile" in name else "off")
        if name == "HAProxy" and self.haproxy:
            port = free_port()
            config = write(os.path.join(self.folder, "haproxy.cfg"),
                           HAPROXY.format(port=port, certificate=path, most=self.most()))
            return Server(name, [self.haproxy, "-db", "-f", config], self.ours, port)
        return None

    @staticmethod
    def most():
        """The number of connections for HAProxy, which needs two descriptors for each, and some
        more."""
        return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 60, 18000)

    def load(self, server, *arguments):
        """Runs the load. Returns the work that was done per second of the server's CPU."""
        if isinstance(server, Alone):
            return server.handshakes(arguments[0], self.options.seconds)
        before = server.cpu_seconds()
        done = subprocess.run(
            ["taskset", "-c", ",".join(map(str, self.theirs)), self.load_program, arguments[0],
             str(server.port), *map(str, arguments[1:])],
            capture_output=True, text=True, timeout=self.options.seconds + 60, check=False)
        took = server.cpu_seconds() - before
        if done.returncode != 0:
            sys.exit(f"tls.py: {server.name}, {arguments}: {done.stdout}{done.stderr}")
        return int(done.stdout.split()[0]) / max(took, 1 / TICK)

    def rows(self, what, rows, servers, unit):
        """rows: a title and the arguments of the load for each. servers: for each title."""
        for title, arguments in rows:
            results = {}
            for _ in range(self.options.rounds):
                for server in servers[title]:
                    results.setdefault(server.name, []).append(
                        self.load(server, *arguments, CONNECTIONS[what], self.options.seconds) / unit)
            report(title, results)

    def several(self, names, certificate):
        names = [each for each in names if not self.options.only or each in self.options.only.split(",")]
        return [each for each in (self.start(name, certificate) for name in names) if each]

    def bulk(self, what, names):
        servers = self.several(names, "ecdsa")
        try:
            print(f"\n{what}: MB per second of the server's CPU, {CONNECTIONS[what]} connections")
            self.rows(what, [(f"{size >> 10} KiB", (what, size)) for size in SIZES],
                      {f"{size >> 10} KiB": servers for size in SIZES}, 1e6)
        finally:
            for server in servers:
                server.stop()

    def handshakes(self):
        names = ["sennit", "Go", "nginx", "bare OpenSSL", Alone.name]
        ecdsa, rsa = self.several(names, "ecdsa"), self.several(names, "rsa")
        try:
            print("\nnew: handshakes per second of the server's CPU")
            limits()
            self.rows("new", [("ECDSA P-256", ("new", 0)), ("RSA-2048", ("new", 0)),
                              ("resumed", ("resumed", 0))],
                      {"ECDSA P-256": ecdsa, "RSA-2048": rsa, "resumed": ecdsa}, 1)
        finally:
            for server in ecdsa + rsa:
                server.stop()

    def idle(self):
        results, n = {}, min(self.options.idle, self.most() - 10)
        print(f"\nidle: bytes of resident memory for each of {n} connections", flush=True)
        for each in range(self.options.idle_rounds):
            for i, name in enumerate(["sennit", "Go", "nginx", "HAProxy"]):
                found = self.several([name], "ecdsa")
                if found:
                    try:
                        source = f"127.0.{each + 1}.{i + 1}"
                        results.setdefault(name, []).append(self.idle_memory(found[0], n, source))
                    finally:
                        found[0].stop()
        report("memory", results)

    def idle_memory(self, server, n, source):
        # Memory that the first connection makes the server allocate is not counted.
        self.load(server, "new", 0, 1, 0.05)
        before = resident(server.process.pid)
        with subprocess.Popen(["taskset", "-c", ",".join(map(str, self.theirs)), self.load_program, "idle",
                               str(server.port), "0", str(n), source], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as client:
            if not client.stdout.readline():
                sys.exit(f"tls.py: {server.name}: the idle connections could not be made")
            time.sleep(self.options.settle)
            taken = resident(server.process.pid) - before
            client.stdin.close()
            client.wait(60)
        return taken / n


def cell(values):
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def report(title, results):
    ours = results.get("sennit")
    for name, values in results.items():
        line = f"{title:12} {name:16} {cell(values):>32}"
        if ours and name != "sennit":
            # The ratios are of the same round, because other load on the machine changes these
            # less.
            ratios = [a / b for a, b in zip(ours, values)]
            line += f"   sennit / {name}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(line, flush=True)


def limits():
    """Prints how many handshakes the signature and the key agreement alone would allow. X25519
    counts twice, for the key and for the secret; openssl speed measures the second."""
    done = subprocess.run(["openssl", "speed", "-seconds", "1", "-mr", "ecdsap256", "rsa2048", "ecdhx25519"],
                          capture_output=True, text=True, check=False).stdout
    # +F2:number:bits:seconds for a signature and +F4, +F5 for the others; or operations per second.
    found = {}
    for line in done.splitlines():
        fields = line.split(":")
        if fields[0] in ("+F2", "+F4", "+F5"):
            found[fields[0]] = float(fields[3])
    if len(found) != 3:
        return loudly(f"no limits: openssl speed said {done}")
    seconds = {name: value if value < 1 else 1 / value for name, value in found.items()}
    for title, which in (("ECDSA P-256", "+F4"), ("RSA-2048", "+F2")):
        print(f"{title:12} {'openssl speed':16} {1 / (seconds[which] + 2 * seconds['+F5']):>8.0f} "
              f"(with X25519 once: {1 / (seconds[which] + seconds['+F5']):.0f})", flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("BENCH_TLS_ROUNDS", 5)))
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("BENCH_TLS_SECONDS", 1)))
    parser.add_argument("--idle", type=int, default=10000, help="connections")
    parser.add_argument("--idle-rounds", type=int, help="default: as --rounds, at most 3")
    parser.add_argument("--settle", type=float, default=15, help="seconds until idle memory is looked at")
    parser.add_argument("--what", default=",".join(ALL), help="with commas between")
    parser.add_argument("--only", help="servers, with commas between")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    if options.idle_rounds is None:
        options.idle_rounds = min(options.rounds, 3)
    if options.quick:
        options.rounds, options.seconds, options.idle = 1, 0.1, 100
        options.idle_rounds, options.settle = 1, 0.1
    what = options.what.split(",")
    if not set(what) <= set(ALL):
        parser.error(f"there are {', '.join(ALL)}")
    for program in ("load", "server", "limit"):
        our_program(options.build, f"bench/tls/bench-tls-{program}")
    most_descriptors()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        bench = Bench(options, folder)
        bench.build_peers()
        print(f"{options.rounds} rounds of {options.seconds} s each, in turn; servers on CPU "
              f"{bench.ours[0]}, the load on {', '.join(map(str, bench.theirs))}; load "
              f"{os.getloadavg()[0]:.1f} before; medians, lowest and highest in brackets", flush=True)
        for each in what:
            if each == "file":
                bench.bulk(each, ["sennit", "Go", "nginx", "nginx with sendfile"])
            elif each in ("stream", "sink"):
                bench.bulk(each, ["sennit", "Go"])
            elif each == "new":
                bench.handshakes()
            else:
                bench.idle()


if __name__ == "__main__":
    main()
