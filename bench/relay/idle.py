#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
idle.py BUILD_DIR [--connections N] [--rounds N] [--settle S] [--only NAME,..]: memory that idle
connections take, in sennit-relay beside HAProxy and nginx, in one run.

Each relay gets N connections, 10,000 unless there are not enough descriptors, plain or with TLS
that ends at the relay. Each carries one byte to a backend and back, and then nothing. A few seconds
later the memory that the relay's processes have more than before (Pss of /proc/PID/smaps_rollup,
which counts what several of them share once) is divided by N. The relays take turns in every round;
the table has the medians, with the lowest and the highest value. The kernel's memory for sockets is
not in it: it is the same for all.

Default settings, except the number of connections and the certificate (ECDSA, P-256). A peer that
is not installed has a row that says so. Exits with 1 if a relay loses a byte or a connection.
"""
import argparse
import multiprocessing
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

import relay as bench

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from common import answer, most_descriptors, our_program  # noqa: E402

FEW = 100  # before the first measurement, so that what is made once is not counted

HAPROXY = """
global
    maxconn {most}
    {threads}
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen relay
    bind 127.0.0.1:{port} backlog 4096 {tls}
    server sink 127.0.0.1:{sink}
"""

NGINX = """
{module}
daemon off;
pid {folder}/nginx.pid;
error_log stderr crit;
worker_processes {workers};
worker_rlimit_nofile {files};
events {{ worker_connections {most}; }}
stream {{
    proxy_timeout 1h;
    {certificate}
    server {{
        listen 127.0.0.1:{port} backlog=4096 {tls};
        proxy_pass 127.0.0.1:{sink};
    }}
}}
"""

SENNIT = """
[listeners.relay]
address = "127.0.0.1:{port}"
group = "sink"
idle_timeout = "1h"
max_connections = {most}
{tls}
[groups.sink]
backends = ["127.0.0.1:{sink}"]
"""


def certificate(folder):
    """A certificate and its key, in one file as well."""
    both = [os.path.join(folder, name) for name in ("cert.pem", "key.pem", "both.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-out", both[0], "-keyout", both[1]], check=True, capture_output=True)
    with open(both[2], "wb") as into:
        for each in both[:2]:
            with open(each, "rb") as file:
                into.write(file.read())
    return both


def sennit(build, folder, port, sink, most, pem):
    tls = f'tls = {{ certificate = "{pem[2]}" }}' if pem else ""
    text = SENNIT.format(port=port, sink=sink, most=most, tls=tls)
    return [os.path.join(build, "tools/relay/sennit-relay"), "--config",
            bench.write(os.path.join(folder, "relay.toml"), text)]


def haproxy(_, folder, port, sink, most, pem, workers=None):
    tls = f"ssl crt {pem[2]}" if pem else ""
    threads = f"nbthread {workers}" if workers else ""
    text = HAPROXY.format(port=port, sink=sink, most=most, tls=tls, threads=threads)
    return [shutil.which("haproxy"), "-db", "-f",
            bench.write(os.path.join(folder, "haproxy.cfg"), text)]


def nginx(_, folder, port, sink, most, pem, workers=None):
    module = f"load_module {bench.NGINX_MODULE};" if os.path.exists(bench.NGINX_MODULE) else ""
    names = f"ssl_certificate {pem[0]}; ssl_certificate_key {pem[1]};" if pem else ""
    text = NGINX.format(module=module, folder=folder, port=port, sink=sink, most=2 * most + 100,
                        files=2 * most + 200, certificate=names, tls="ssl" if pem else "",
                        workers=workers or "auto")
    return [shutil.which("nginx"), "-p", folder, "-e", "stderr", "-c",
            bench.write(os.path.join(folder, "nginx.conf"), text)]


RELAYS = [("sennit-relay", sennit), ("HAProxy", haproxy), ("nginx stream", nginx)]
PROGRAMS = {"HAProxy": "haproxy", "nginx stream": "nginx"}


def missing(name):
    program = PROGRAMS.get(name)
    return program and not shutil.which(program) and f"NOT MEASURED: {program} is not installed"


def connect(port, tls):
    conn = socket.create_connection(("127.0.0.1", port), timeout=30)
    if tls:
        conn = tls.wrap_socket(conn)
    conn.sendall(b"x")
    if conn.recv(1) != b"x":
        sys.exit("idle.py: the byte that came back is another")
    return conn


def memory(pid):
    """KiB of a process and of its children."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        own = next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return own + sum(memory(child) for child in bench.children(pid))


def measure(build, make, n, pem, scratch, settle):
    """Bytes for each connection."""
    folder = tempfile.mkdtemp(dir=scratch)
    port, sink = bench.free_port(), bench.free_port()
    listener = socket.create_server(("127.0.0.1", sink), backlog=4096)
    backend = multiprocessing.Process(target=answer, args=(listener,), daemon=True)
    backend.start()
    listener.close()
    tls = ssl.create_default_context(cafile=pem[0]) if pem else None
    if tls:
        tls.check_hostname = False
    with open(os.path.join(folder, "errors"), "w", encoding="utf-8") as errors:
        relay = subprocess.Popen(make(build, folder, port, sink, n + FEW + 100, pem),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=errors)
    conns = []
    try:
        until = time.monotonic() + 20
        while not bench.listens(port):
            if relay.poll() is not None or time.monotonic() > until:
                with open(errors.name, encoding="utf-8") as file:
                    sys.exit(f"idle.py: {relay.args[0]} does not start: {file.read()[-500:]}")
            time.sleep(0.02)
        conns = [connect(port, tls) for _ in range(FEW)]
        time.sleep(settle)
        before = memory(relay.pid)
        conns += [connect(port, tls) for _ in range(n)]
        time.sleep(settle)
        after = memory(relay.pid)
        for conn in conns[::97]:
            conn.sendall(b"y")
            if conn.recv(1) != b"y":
                sys.exit(f"idle.py: {relay.args[0]} has lost a connection")
        return (after - before) * 1024 / n
    finally:
        for conn in conns:
            conn.close()
        relay.terminate()
        try:
            relay.wait(20)
        except subprocess.TimeoutExpired:
            relay.kill()
            relay.wait()
        backend.kill()
        backend.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--settle", type=float, default=4, metavar="S",
                        help="seconds before the memory is read")
    parser.add_argument("--only", help="of " + ", ".join(name for name, _ in RELAYS))
    options = parser.parse_args()
    our_program(options.build, "tools/relay/sennit-relay", "build")
    wanted = options.only.split(",") if options.only else [name for name, _ in RELAYS]
    unknown = set(wanted) - {name for name, _ in RELAYS}
    if unknown:
        parser.error("unknown relay: " + ", ".join(sorted(unknown)))
    # A relay has two for each connection.
    n = min(options.connections, (most_descriptors() - FEW * 2 - 400) // 2)
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)  # nginx's workers are somebody else
        pem = certificate(scratch)
        for _ in range(options.rounds):
            for how in (None, pem):
                for name, make in RELAYS:
                    if name in wanted and not missing(name):
                        results.setdefault((name, bool(how)), []).append(
                            measure(options.build, make, n, how, scratch, options.settle))
    print(f"Bytes of memory for each of {n:,} idle connections\n")
    print("| relay | plain | with TLS |\n| --- | --- | --- |")
    for name in wanted:
        if missing(name):
            print(f"| {name} | {missing(name)} | |")
            continue
        cells = [results[name, tls] for tls in (False, True)]
        print(f"| {name} | " + " | ".join(
            f"{statistics.median(each):,.0f} ({min(each):,.0f}..{max(each):,.0f})"
            for each in cells) + " |")


if __name__ == "__main__":
    main()
