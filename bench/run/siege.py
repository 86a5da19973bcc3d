#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
siege.py BUILD_DIR [--connections N] [--requests N] [--paced N] [--delay S] [--rounds N]: the
distribution's siege, which has a thread for each of its users, under sennit-run and by itself.

Each of N users, 1,000 at most, opens a connection to a server of this script. siege 4.0.7 cannot
have more: where a descriptor is 1,024 or more, it polls the next one instead of it, and takes what
is not there yet for an error. The first answers come when all users have asked, and the threads and
the memory have been read, as by run.py. Then each makes requests on its connection: --requests of
them as fast as it can, and in another run --paced, with a pause between them that is random, and
--delay seconds at most. The CPU time is that of siege from its beginning to its end. The 99th
percentile of the times, without those of the first answers, is from what siege itself prints, in
steps of 10 ms. Without pauses it is mostly the time for which the other users' requests are served.
The two ways take turns in every round. The tables have the medians, with the lowest and the highest
value.

sennit-run needs --force, because siege calls pthread_cancel(); it does so only when it is
interrupted, or ends after a time. Without siege a line says so. Exits with 1 if a request fails.
"""
import argparse
import multiprocessing
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from common import cell, most_descriptors, our_program  # noqa: E402
from run import PATIENCE, WAYS, kernel_stacks, memory  # noqa: E402

HEADER = (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n"
          b"Connection: keep-alive\r\nKeep-Alive: timeout=3600, max=1000000\r\n\r\n")
MOST = 1000
# siege prints how long the text is.
FIRST, ANSWER = HEADER % 3 + b"all", HEADER % 2 + b"ok"
SETTINGS = """verbose = true
color = off
quiet = false
json_output = false
show-logfile = false
logging = false
protocol = HTTP/1.1
connection = keep-alive
parser = false
timeout = {patience}
failures = 1
limit = {users}
"""


def fail(text):
    sys.exit(f"siege.py: {text}")


# ---- the server ----

def accept(listener, epoll, by_fd):
    try:
        conn, _ = listener.accept()
    except OSError:
        return
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    by_fd[conn.fileno()] = [conn, b"", False]
    epoll.register(conn, select.EPOLLIN)


def serve(listener, asked, all_are_there):
    """Answers requests: the first ones when the event is set. Writes how many have asked."""
    epoll, by_fd, held = select.epoll(), {}, []
    listener.setblocking(False)
    epoll.register(listener, select.EPOLLIN)
    while True:
        for fd, _ in epoll.poll(0.01 if held else -1):
            if fd == listener.fileno():
                accept(listener, epoll, by_fd)
                continue
            each = by_fd[fd]
            try:
                data = each[0].recv(4096)
            except OSError:
                data = b""
            if not data:
                by_fd.pop(fd)[0].close()
                continue
            each[1] += data
            if not each[1].endswith(b"\r\n\r\n"):
                continue
            each[1] = b""
            if each[2]:
                each[0].sendall(ANSWER)
            else:
                each[2] = True
                held.append(each[0])
                asked.value += 1
        if held and all_are_there.is_set():
            for conn in held:
                conn.sendall(FIRST)
            held = []


# ---- measuring ----

def start(build, way, folder, words):
    launcher = [os.path.join(build, "tools/run/sennit-run"), "--force"] if way == WAYS[0] else []
    # The times are on stdout; a line of another writer would come in the middle of theirs.
    with (open(os.path.join(folder, "output"), "wb") as output,
          open(os.path.join(folder, "errors"), "wb") as errors):
        return subprocess.Popen([*launcher, "siege", "-R", os.path.join(folder, "siegerc"), *words],
                                stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                env={**os.environ, "HOME": folder})


def await_users(siege, asked, n):
    until = time.monotonic() + PATIENCE
    while asked.value < n:
        if siege.poll() is not None or time.monotonic() > until:
            fail(f"only {asked.value} of {n} users have asked")
        time.sleep(0.02)


def read_times(folder, wanted):
    """The times of the requests in seconds, in order, without the first ones."""
    with open(os.path.join(folder, "output"), encoding="utf-8", errors="replace") as file:
        text = file.read()
    found = sorted(float(each) for each in re.findall(r"HTTP/1\.1 200 +([0-9.]+) secs: +2 ", text))
    if len(found) != wanted:
        fail(f"{len(found)} of {wanted} requests were answered: {text[-1000:]}")
    return found


def measure(build, way, n, requests, delay):
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    port, asked = listener.getsockname()[1], multiprocessing.Value("i", 0)
    all_are_there = multiprocessing.Event()
    server = multiprocessing.Process(target=serve, args=(listener, asked, all_are_there),
                                     daemon=True)
    server.start()
    listener.close()
    stacks = kernel_stacks()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "siegerc"), "w", encoding="ascii") as file:
            file.write(SETTINGS.format(patience=PATIENCE, users=n))
        pace = ["-d", str(delay)] if delay else ["-b"]
        siege = start(build, way, folder, ["-c", str(n), "-r", str(requests + 1), *pace,
                                           f"http://127.0.0.1:{port}/"])
        try:
            await_users(siege, asked, n)
            threads = len(os.listdir(f"/proc/{siege.pid}/task"))
            size = memory(siege.pid) + max(kernel_stacks() - stacks, 0)
            all_are_there.set()
            _, status, usage = os.wait4(siege.pid, 0)
            siege.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if siege.returncode is None:
                siege.kill()
                siege.wait()
            server.kill()
            server.join()
        if siege.returncode:
            fail(f"siege ended with status {siege.returncode}")
        times = read_times(folder, n * requests)
        if asked.value != n:
            fail(f"{asked.value} connections were opened by {n} users")
    return {"threads": threads, "memory": size / 1024,
            "per_cpu": n * (requests + 1) / (usage.ru_utime + usage.ru_stime),
            "p99": times[len(times) * 99 // 100] * 1000}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--connections", type=int, default=MOST)
    parser.add_argument("--requests", type=int, default=20, help="of each user, without pauses")
    parser.add_argument("--delay", type=int, default=10, help="longest pause, in seconds")
    parser.add_argument("--paced", type=int, default=4, help="requests of each user, with pauses")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    our_program(options.build, "tools/run/sennit-run", "build")
    if not shutil.which("siege"):
        print("NOT MEASURED: siege is not installed")
        return
    n = min(options.connections, MOST, most_descriptors() - 200)
    paces = {"without pauses": (options.requests, 0),
             f"pauses up to {options.delay} s": (options.paced, options.delay)}
    print(f"siege with {n:,} users\n")
    print("| | | threads | memory, MiB | requests per CPU second | p99, ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    for pace, (requests, delay) in paces.items():
        found = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way in WAYS:
                found[way].append(measure(options.build, way, n, requests, delay))
        for way in WAYS:
            cells = [cell([each[what] for each in found[way]])
                     for what in ("threads", "memory", "per_cpu", "p99")]
            print(f"| {pace} | {way} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
