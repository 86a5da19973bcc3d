#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
run.py BUILD_DIR [--connections N] [--few N] [--rounds N] [--seconds S] [--only NAME,..]: programs
of the distribution that create a thread for each connection, under sennit-run and by themselves.

Each program gets N connections, 10,000 unless there are not enough descriptors, each of which
carries one message to a server and back, through a proxy that has two descriptors and a thread (or
task) for each. Then they are idle, and the program's threads and memory are read: its own
(Pss), its page tables, and the kernel's stacks, which are those of the whole machine, less what
there was before. Then messages of 64 bytes go back and forth for a while on a few of the
connections, and after that on all of them, as many at a time as there are connections. The CPU time
is the proxy's. The two ways take turns in every round. The tables have the medians, with the lowest
and the highest value.

A program that is not installed has a row that says so. Exits with 1 if a byte is lost.
"""
import argparse
import multiprocessing
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from common import (answer, cell, cpu_seconds, most_descriptors, our_program,  # noqa: E402
                    reserve_port)

PATIENCE = 120
MESSAGE = 64
WAYS = ["sennit-run", "threads"]
TINYPROXY = """Port {port}
Listen 127.0.0.1
MaxClients {most}
Timeout 3600
LogLevel Critical
"""


def fail(text):
    sys.exit(f"run.py: {text}")


def read_exactly(conn, size):
    data = b""
    while len(data) < size:
        more = conn.recv(size - len(data))
        if not more:
            fail(f"a connection ended after {data!r}")
        data += more
    return data


# ---- the programs ----

def microsocks(_, port, __):
    return ["microsocks", "-i", "127.0.0.1", "-p", str(port)]


def ask_microsocks(conn, port):
    conn.sendall(b"\5\1\0")
    read_exactly(conn, 2)
    conn.sendall(b"\5\1\0\1" + socket.inet_aton("127.0.0.1") + struct.pack(">H", port))
    if read_exactly(conn, 10)[1] != 0:
        fail("microsocks does not connect")


def tinyproxy(folder, port, most):
    path = os.path.join(folder, "tinyproxy.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(TINYPROXY.format(port=port, most=most))
    return ["tinyproxy", "-d", "-c", path]


def ask_tinyproxy(conn, port):
    conn.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.0\r\n\r\n" % port)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += read_exactly(conn, 1)
    if b" 200 " not in answer:
        fail(f"tinyproxy answers {answer[:60]!r}")


PROGRAMS = {"microsocks": (microsocks, ask_microsocks), "tinyproxy": (tinyproxy, ask_tinyproxy)}


# ---- the client ----

def exchange(conns, seconds):
    """Keeps one message under way on each connection. Returns how many came back."""
    epoll, by_fd, message, done = select.epoll(), {}, b"m" * MESSAGE, 0
    for conn in conns:
        by_fd[conn.fileno()] = [conn, MESSAGE]
        epoll.register(conn, select.EPOLLIN)
        conn.sendall(message)
    until, waiting = time.monotonic() + seconds, len(conns)
    while waiting:
        found = epoll.poll(PATIENCE)
        if not found:
            fail("no message came back")
        more = time.monotonic() < until
        for fd, _ in found:
            each = by_fd[fd]
            got = len(each[0].recv(each[1]))
            if got == 0:
                fail("a connection was lost")
            each[1] -= got
            if each[1]:
                continue
            done += 1
            each[1] = MESSAGE
            if more:
                each[0].sendall(message)
            else:
                waiting -= 1
    epoll.close()
    return done


# ---- measuring ----

def kernel_stacks():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("KernelStack:"))


def memory(pid):
    """KiB of the process, with its page tables."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        own = next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return own + next(int(line.split()[1]) for line in file if line.startswith("VmPTE:"))


def connect(proxy, port):
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except ConnectionRefusedError:
            if proxy.poll() is not None or time.monotonic() > until:
                fail(f"{proxy.args} does not start")
            time.sleep(0.02)


def per_cpu(proxy, conns, seconds):
    """Messages for each CPU second of the proxy."""
    before = sum(cpu_seconds(proxy.pid))
    done = exchange(conns, seconds)
    return done / max(sum(cpu_seconds(proxy.pid)) - before, 0.01)


def measure(build, name, way, folder, options):
    make, ask = PROGRAMS[name]
    n = options.connections
    reserved, listener = reserve_port(), socket.create_server(("127.0.0.1", 0), backlog=4096)
    port = reserved.getsockname()[1]
    target = listener.getsockname()[1]
    server = multiprocessing.Process(target=answer, args=(listener,), daemon=True)
    server.start()
    listener.close()
    stacks = kernel_stacks()
    launcher = [os.path.join(build, "tools/run/sennit-run")] if way == WAYS[0] else []
    proxy = subprocess.Popen([*launcher, *make(folder, port, n + 100)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    conns = []
    try:
        for _ in range(n):
            conns.append(connect(proxy, port))
            ask(conns[-1], target)
        exchange(conns, 0)
        opening = sum(cpu_seconds(proxy.pid)) / n * 1e6
        threads = len(os.listdir(f"/proc/{proxy.pid}/task"))
        size = memory(proxy.pid) + max(kernel_stacks() - stacks, 0)
        return {"opening": opening, "threads": threads, "memory": size / 1024,
                "few": per_cpu(proxy, conns[:options.few], options.seconds),
                "all": per_cpu(proxy, conns, options.seconds)}
    finally:
        for conn in conns:
            conn.close()
        proxy.kill()
        proxy.wait()
        server.kill()
        server.join()
        reserved.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--few", type=int, default=100, help="that are busy among idle ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", help="of " + ", ".join(PROGRAMS))
    options = parser.parse_args()
    our_program(options.build, "tools/run/sennit-run", "build")
    wanted = options.only.split(",") if options.only else list(PROGRAMS)
    unknown = set(wanted) - set(PROGRAMS)
    if unknown:
        parser.error("unknown program: " + ", ".join(sorted(unknown)))
    # A proxy has two for each connection.
    options.connections = min(options.connections, (most_descriptors() - 200) // 2)
    options.few = min(options.few, options.connections)
    print(f"{options.connections:,} connections\n")
    print("| program | | threads | memory, MiB | CPU to open one, us | messages per CPU second, "
          f"{options.few} busy | all busy |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in wanted:
        if not shutil.which(name):
            print(f"| {name} | NOT MEASURED: it is not installed | | | | | |")
            continue
        found = {way: [] for way in WAYS}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.rounds):
                for way in WAYS:
                    found[way].append(measure(options.build, name, way, folder, options))
        for way in WAYS:
            cells = [cell([each[what] for each in found[way]])
                     for what in ("threads", "memory", "opening", "few", "all")]
            print(f"| {name} | {way} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
