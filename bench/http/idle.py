#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
idle.py BUILD_DIR [--connections N,..] [--rest SECONDS] [--tls] [--program FILE]: what idle open
connections cost a server, beside the peers of http.py.

Each of N connections has had one request and its answer, and rests. Columns: the growth of the
server's anonymous memory and of its page tables since before the first connection, in bytes for
each connection; and the server's CPU time (user and system) in milliseconds for each second of
rest. Memory does not depend on other load of the machine. The kernel's memory for sockets is not
included. --program is another build of the example, which takes part too.
"""
import argparse
import os
import resource
import socket
import ssl
import sys
import tempfile
import time

from http import Server, build_peers, contestants, make_certificate

from common import family, our_program

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
BODY = b"hello, world\n"


def memory(pid):
    """Bytes of anonymous memory and of page tables, of a process and its children."""
    sums = [0, 0]
    for each in family(pid):
        for file, name, index in (("smaps_rollup", "Anonymous:", 0), ("status", "VmPTE:", 1)):
            with open(f"/proc/{each}/{file}", encoding="ascii") as lines:
                sums[index] += sum(int(line.split()[1]) * 1024 for line in lines
                                   if line.startswith(name))
    return sums


def ask(client):
    client.sendall(REQUEST)
    got = b""
    while not got.endswith(BODY):
        piece = client.recv(4096)
        if not piece:
            sys.exit("idle.py: a server has closed a connection")
        got += piece


def connect(server, context):
    client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    if context:
        client = context.wrap_socket(client)
    ask(client)
    return client


def measure(server, number, rest, context):
    """Bytes for each connection, of memory and of page tables, and CPU at rest in ms a second."""
    connect(server, context).close()
    time.sleep(rest)
    pid = server.process.pid
    before = memory(pid)
    clients = [connect(server, context) for _ in range(number)]
    time.sleep(rest)
    spent = server.cpu_seconds()
    time.sleep(rest)
    spent = server.cpu_seconds() - spent
    after = memory(pid)
    for client in clients:
        ask(client)  # it is still served
        client.close()
    return [(b - a) / number for a, b in zip(before, after)] + [1000 * spent / rest]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--connections", default="1000,4000,16000",
                        help="how many, with commas between")
    parser.add_argument("--rest", type=float, default=4)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--program", help="another build of the example")
    options = parser.parse_args()
    numbers = [int(each) for each in options.connections.split(",")]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and max(numbers) > most - 100:
        parser.error(f"no more than {most - 100} connections: ulimit -Hn is {most}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    build, cpus = os.path.abspath(options.build), sorted(os.sched_getaffinity(0))[:1]
    context = None
    if options.tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    our_program(build, "examples/example-http-server", "build")
    programs = build_peers(os.path.join(build, "bench/http/peers"))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        certificate = make_certificate(folder) if options.tls else None
        if options.tls and not certificate:
            sys.exit(1)
        print(f"{'':10} {'connections':>11} {'bytes each':>11} {'page tables':>11} {'CPU ms/s':>9}")
        # Each number gets new servers, because memory that one has freed would not be counted for
        # the next.
        for number in numbers:
            servers = contestants(build, programs, folder, cpus, certificate=certificate)
            try:
                if options.program:
                    command = [options.program, "--listen", "127.0.0.1:0", "--connections",
                               "100000"]
                    if certificate:
                        command += ["--tls-cert", certificate[0], "--tls-key", certificate[1]]
                    servers.append(Server("other", command, cpus, certificate=certificate))
                for server in servers:
                    each, tables, spent = measure(server, number, options.rest, context)
                    print(f"{server.name:10} {number:11} {each:11.0f} {tables:11.0f} {spent:9.1f}",
                          flush=True)
            finally:
                for server in servers:
                    server.stop()


if __name__ == "__main__":
    main()
