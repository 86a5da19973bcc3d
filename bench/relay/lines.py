#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
lines.py BUILD_DIR [--connections N] [--rounds N] [--by-name]: what one request makes sennit-relay
touch and lock.

A request is a message of 64 bytes from a client through the relay to a backend, and one back, so
it wakes the connection's task twice. The relay runs with one processor under valgrind's lackey,
which prints each instruction and each access to memory. Only the end of that is kept.

First all connections have a request under way at the same time. From this the instructions and the
locked instructions (with `xchg` of memory and `mfence`) of a request are counted, by function.
Those of other threads are in it, the monitor's above all, which under valgrind runs far more often
for each request than otherwise: the last column of the table leaves out what sn_sysmon_* does.

Then eight connections have one request each, one after another. A line of 64 bytes counts as
private if this request touches it and the requests of the other seven do not. These lines have to
come from memory if there are more connections than fit into the caches. Lines of the task's stack
are those within 2 KiB of where its context is saved.

What differs from a run without valgrind: the clock has no vDSO there, so what only its replacement
touches is left out. A processor that has nothing to do polls on the stack of the task that waits,
below its frames; with many requests under way it does that once for all of them. What the kernel
touches is not seen.
"""
import argparse
import bisect
import collections
import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from common import our_program  # noqa: E402

LINE, PAGE = 6, 12  # bits of an address
ALONE = 8  # connections with a request each, one after another
# Bytes of lackey's output that are kept for each request. Those of the end, one after another, take
# four times as much, because the monitor looks while nothing is asked.
KEPT = 390_000
NOT_WITHOUT_VALGRIND = {"read_slowly", "get_page", "gettime_by_syscall", "ticks_slowly"}


def listener():
    made = socket.create_server(("127.0.0.1", 0), backlog=4096)
    made.settimeout(60)
    return made


class Pair:
    """A client's connection through the relay, and the backend's end of it."""

    def __init__(self, port, backend, until):
        while True:
            try:
                self.client = socket.create_connection(("127.0.0.1", port), timeout=60)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        self.ask()
        self.backend, _ = backend.accept()
        self.backend.settimeout(60)
        self.answer()
        self.receive(self.client)

    @staticmethod
    def receive(end):
        left = 64
        while left:
            got = len(end.recv(left))
            if not got:
                sys.exit("lines.py: the relay has closed a connection")
            left -= got

    def ask(self):
        self.client.sendall(b"q" * 64)

    def answer(self):
        self.receive(self.backend)
        self.backend.sendall(b"a" * 64)


def trace(relay, connections, rounds):
    """Runs the relay. Returns the end of lackey's output, as lines, and /proc/PID/maps."""
    backend, free = listener(), listener()
    port = free.getsockname()[1]
    free.close()
    kept = tempfile.TemporaryFile()
    reader, writer = os.pipe()
    size = KEPT * (connections * rounds + 4 * 2 * ALONE)
    with subprocess.Popen(["tail", "-c", str(size)], stdin=reader, stdout=kept) as tail:
        process = subprocess.Popen(
            ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-fd={writer}", relay,
             f"127.0.0.1:{port}", f"127.0.0.1:{backend.getsockname()[1]}"],
            env={**os.environ, "SENNIT_PROCS": "1"}, pass_fds=[writer],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(reader)
        os.close(writer)
        try:
            until = time.monotonic() + 120
            pairs = [Pair(port, backend, until) for _ in range(connections)]
            for _ in range(rounds):
                for pair in pairs:
                    pair.ask()
                for pair in pairs:
                    pair.answer()
                for pair in pairs:
                    pair.receive(pair.client)
            for pair in pairs[:ALONE] * 2:
                pair.ask()
                pair.receive(pair.backend)
                time.sleep(0.02)  # until the task waits again
                pair.backend.sendall(b"a" * 64)
                pair.receive(pair.client)
                time.sleep(0.02)
            with open(f"/proc/{process.pid}/maps", encoding="ascii") as file:
                maps = file.read().splitlines()
        finally:
            process.kill()
            process.wait()
    kept.seek(0)
    return kept, maps


class Code:
    """The functions and the locked instructions of what is mapped."""

    def __init__(self, maps):
        bases = {}
        for line in maps:
            part = line.split()
            if len(part) > 5 and ("/sennit" in part[5] or "/libc.so" in part[5]):
                low = int(part[0].split("-")[0], 16) - int(part[2], 16)
                bases[part[5]] = min(low, bases.get(part[5], low))
        self.starts, self.locked, self.known = [], set(), {}
        for path, base in bases.items():
            for dynamic in [], ["-D"]:
                for line in self.output("nm", "-C", *dynamic, path):
                    part = line.split(None, 2)
                    if len(part) == 3 and part[1] in "tTwWi":
                        name = part[2].split("(")[0].split("@")[0]
                        self.starts.append((int(part[0], 16) + base, name))
            for line in self.output("objdump", "-d", "--no-show-raw-insn", path):
                part = line.split("\t")
                if len(part) > 1 and (part[1].startswith(("lock ", "mfence")) or
                                      (part[1].startswith("xchg") and "(" in part[1])):
                    self.locked.add(int(part[0].strip(" :"), 16) + base)
        self.starts.sort()
        self.addresses = [each[0] for each in self.starts]

    @staticmethod
    def output(*command):
        return subprocess.run(command, capture_output=True, text=True,
                              check=False).stdout.splitlines()

    def function(self, address):
        if address not in self.known:
            at = bisect.bisect(self.addresses, address) - 1
            self.known[address] = self.starts[at][1] if at >= 0 else "?"
        return self.known[address]

    def entries(self, name):
        return {address for address, each in self.starts if each == name}


def events(lines):
    """(kind, address, size) of each access; kind is I, L, S or M."""
    for line in lines:
        kind = line[:2].strip()
        if kind in (b"I", b"L", b"S", b"M"):
            try:
                address, size = line[3:].split(b",")
                yield kind, int(address, 16), int(size)
            except ValueError:
                pass  # the first line that was kept, or one of the monitor's in between


def touched(code, part):
    """For each line of data the functions that touch it and how often; and the lines of code."""
    data, instructions, function = {}, set(), "?"
    for kind, address, size in part:
        if kind == b"I":
            function = code.function(address)
            instructions.add(address >> LINE)
        elif function not in NOT_WITHOUT_VALGRIND:
            for line in {address >> LINE, (address + size - 1) >> LINE}:
                data.setdefault(line, collections.Counter())[function] += 1
    return data, instructions


def alone(code, all_events, marks, by_name):
    """The last ALONE requests: what each of them touches that the others do not."""
    marks = marks[-2 * ALONE::2] + [len(all_events)]
    parts = [touched(code, all_events[a:b]) for a, b in zip(marks, marks[1:])]
    rows = []
    for i, (data, instructions) in enumerate(parts[:-1]):
        others = set().union(*(each for k, (each, _) in enumerate(parts) if k != i))
        mine = sorted(set(data) - others)
        saved = max(mine, key=lambda line: data[line]["sn_arch_switch"])
        stack = [line for line in mine if abs(line - saved) << LINE < 2048]
        rows.append((len(mine), len(stack), len({line >> (PAGE - LINE) for line in mine}),
                     len(data), len(instructions)))
    middle = sorted(rows)[len(rows) // 2]
    print("of a request           lines")
    for name, value in zip(("private", "  of these, of the stack", "  pages of the private ones",
                            "data", "code"), middle):
        print(f"{name:28}{value:6}")
    if by_name:
        data = parts[rows.index(middle)][0]
        others = set().union(*(each for k, (each, _) in enumerate(parts)
                               if k != rows.index(middle)))
        for line in sorted(set(data) - others):
            print(f"{line << LINE:#x}", ", ".join(f"{name} {count}" for name, count in
                                                  data[line].most_common(6)))


def together(code, all_events, marks, requests, by_name):
    part = all_events[marks[-2 * requests - 1]:marks[-1]]
    locked, every = collections.Counter(), collections.Counter()
    for kind, address, _ in part:
        if kind == b"I":
            every[code.function(address)] += 1
            if address in code.locked:
                locked[code.function(address)] += 1
    own = sum(count for name, count in locked.items() if not name.startswith("sn_sysmon"))
    print(f"instructions {sum(every.values()) / requests:.0f}, locked "
          f"{sum(locked.values()) / requests:.1f}, without the monitor's {own / requests:.1f}")
    for name, count in locked.most_common(None if by_name else 12):
        print(f"{count / requests:8.2f} {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--by-name", action="store_true")
    args = parser.parse_args()
    if args.connections < ALONE or args.rounds < 3:
        parser.error(f"at least {ALONE} connections and 3 rounds")
    relay = our_program(args.build, "tools/relay/sennit-relay", "build")
    lines, maps = trace(relay, args.connections, args.rounds)
    code, all_events = Code(maps), list(events(lines))
    entries = code.entries("sn_fds_event")  # one for each wake-up
    marks = [i for i, (kind, address, _) in enumerate(all_events)
             if kind == b"I" and address in entries]
    requests = (args.rounds - 2) * args.connections
    if len(marks) < 2 * requests + 4 * ALONE + 1:
        sys.exit(f"lines.py: only {len(marks)} events were kept; fewer rounds or connections")
    alone(code, all_events, marks, args.by_name)
    together(code, all_events, marks[:-4 * ALONE], requests, args.by_name)


if __name__ == "__main__":
    main()
