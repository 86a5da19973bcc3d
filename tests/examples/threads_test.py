#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
threads_test.py [--most]: how many threads the examples have while hundreds of their tasks wait, in
one table: UDP, PostgreSQL, Unix sockets, programs that they have started, and libcurl. Each may
have five more threads than processors.

Fails when a load has more threads than that while all of its tasks wait. With --most it also fails
if there were more at any moment: on a loaded machine, tasks that are slow to begin cost threads,
which end later.
"""
import contextlib
import os
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from servers import (PATIENCE, PROCESSORS, THREADS, children_of, connections_to,  # noqa
                     example, fail, follow, nginx, postgres, start, stop, watch)

CLIENTS, QUERIES, CONNECTIONS, PROGRAMS, TRANSFERS = 200, 150, 500, 150, 500
SECONDS = 1.5  # for how long the servers are used


def end_of(client, seen):
    follow(client, seen, PATIENCE)
    said = client.communicate(timeout=PATIENCE)[0]
    if client.returncode:
        fail(f"{client.args[0]}: exited with {client.returncode}, {said[-300:]}")


def udp(_):
    """One task for each client, besides those that receive and send."""
    server = start(example("udp-fan-out"), "127.0.0.1:0")
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    with contextlib.ExitStack() as sockets:
        clients = [sockets.enter_context(socket.socket(type=socket.SOCK_DGRAM))
                   for _ in range(CLIENTS)]

        def ask_all():
            for i, each in enumerate(clients):
                each.settimeout(PATIENCE)
                each.sendto(b"conn%04dhello" % i, ("127.0.0.1", port))
            return sum(each.recv(100).startswith(b"conn%04d" % i)
                       for i, each in enumerate(clients))

        seen = watch(server, CLIENTS, ask_all)
        follow(server, seen, SECONDS)
    stop(server)
    return seen


def libpq(root):
    with postgres(root, QUERIES) as port:
        client = start(example("postgres"), f"host=127.0.0.1 port={port} user=postgres",
                       "select pg_sleep(8)", str(QUERIES))
        seen = watch(client, QUERIES, lambda: connections_to(port))
        end_of(client, seen)
    return seen


def unix(root):
    path = f"{root}/socket"
    server = start(example("line-server"), f"unix:{path}")
    server.stdout.readline()
    with contextlib.ExitStack() as sockets:
        clients = [sockets.enter_context(socket.socket(socket.AF_UNIX))
                   for _ in range(CONNECTIONS)]
        for each in clients:
            each.settimeout(PATIENCE)
            each.connect(path)

        def ask_all():
            for each in clients:
                each.send(b"echo hello\n")
            return sum(each.recv(100) == b"hello\n" for each in clients)

        seen = watch(server, CONNECTIONS, ask_all)
        follow(server, seen, SECONDS)
    stop(server)
    return seen


def programs(_):
    runner = start(example("run-all"), str(PROGRAMS), *["exec sleep 5"] * PROGRAMS)
    seen = watch(runner, PROGRAMS, lambda: children_of(runner.pid))
    end_of(runner, seen)
    return seen


def curl(root):
    # 100,000 bytes at 20,000 a second: the transfers overlap on the slowest machine.
    with open(f"{root}/slow", "wb") as file:
        file.write(b"x" * 100000)
    with nginx(root) as port:
        client = start(example("curl-multi"), "-n", str(TRANSFERS), f"http://127.0.0.1:{port}/slow")
        seen = watch(client, TRANSFERS, lambda: connections_to(port))
        end_of(client, seen)
    return seen


LOADS = [
    ("UDP server, clients", CLIENTS, udp, "udp-fan-out"),
    ("asynchronous libpq, queries", QUERIES, libpq, "postgres"),
    ("Unix sockets, connections", CONNECTIONS, unix, "line-server"),
    ("programs that were started", PROGRAMS, programs, "run-all"),
    ("curl's multi interface, transfers", TRANSFERS, curl, "curl-multi"),
]


def main():
    wrong, missing = [], []
    print(f"{PROCESSORS} processors; at most {THREADS} threads each\n")
    print("| load | at once | threads while all wait | the most at any moment |")
    print("| --- | --- | --- | --- |", flush=True)
    for name, wanted, load, program in LOADS:
        if not os.path.exists(example(program)):
            missing.append(name)
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
            seen = load(root)
        print(f"| {name} | {seen.at_once} | {seen.threads} | {seen.most} |", flush=True)
        threads = seen.most if "--most" in sys.argv else seen.threads
        # A transfer may end before the last one has begun.
        if threads > THREADS or seen.at_once < wanted * 9 // 10:
            wrong.append(name)
    for name in missing:
        print(f"\n*** NOT RUN: {name}: the library's headers are not installed ***")
    if wrong:
        fail(", ".join(wrong))
    if missing == [name for name, *_ in LOADS]:
        sys.exit(77)


if __name__ == "__main__":
    main()
