#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
shared.py [--procs 1,2,16,64] [--by-name] [--json] BUILD [OPERATION...]: what each operation does to
memory that processors share, as a table: see shared.c for how it is counted.

    RMW      atomic read-modify-writes, those of locks included
    fences   sequentially consistent fences and stores
    locks    of the runtime's own (wait/lock.h) that are taken
    shared   writes, RMWs included, to lines that tasks on other processors touch
    watched  the same for lines that only the monitor and searching threads touch; these depend on
    how long those threads ran
    calls    system calls

--by-name lists each access with the function and the line of its source.
"""
import argparse
import collections
import json
import os
import subprocess
import sys

COLUMNS = ("rmw", "fences", "locks", "shared", "watched", "calls")


def run(program, operation, procs):
    done = subprocess.run([program, operation], capture_output=True, text=True, timeout=300,
                          check=True, env={**os.environ, "SENNIT_PROCS": str(procs)})
    head, *lines = done.stdout.splitlines()
    _, equal, _, of, _, threads = head.split()
    return int(equal), int(of), int(threads), [line.split() for line in lines]


class Names:
    """Functions of addresses, inlined ones first, and symbols of data."""

    def __init__(self, program):
        self.program, self.known = program, {}
        self.data = []
        for line in subprocess.run(["nm", "-S", program], capture_output=True, text=True,
                                   check=True).stdout.splitlines():
            part = line.split()
            if len(part) == 4 and part[2] in "bBdD":
                self.data.append((int(part[0], 16), int(part[1], 16), part[3]))

    def learn(self, addresses):
        new = sorted(set(addresses) - set(self.known))
        if not new:
            return
        # A return address follows the call.
        out = subprocess.run(
            ["addr2line", "-a", "-i", "-f", "-e", self.program] +
            [hex(int(each, 16) - 1) for each in new],
            capture_output=True, text=True, check=True).stdout.splitlines()
        by_value = {int(each, 16) - 1: each for each in new}
        frames = None
        at = 0
        while at < len(out):
            if out[at].startswith("0x"):
                frames = self.known[by_value[int(out[at], 16)]] = []
                at += 1
                continue
            place = out[at + 1].split(" ")[0]
            frames.append((out[at], "/".join(place.split("/")[-2:])))
            at += 2

    def datum(self, text):
        if not text.startswith("0x"):
            return text
        address = int(text, 16)
        for start, size, name in self.data:
            if start <= address < start + size:
                return f"{name}+{address - start}"
        return "memory"


def is_own(frames):
    """Whether the access is the benchmark's own, and not the runtime's."""
    return frames[0][1].startswith("shared/operations.c")


def count(names, events):
    names.learn([event[1] for event in events if event[0] != "syscall"])
    total, named = collections.Counter(), collections.Counter()
    for kind, where, *rest in events:
        if kind == "syscall":
            total["calls"] += 1
            named[("system call", where, "", "")] += 1
            continue
        frames = names.known[where]
        state, data = rest
        if is_own(frames):
            continue
        total["rmw"] += kind == "rmw"
        total["fences"] += kind in ("fence", "store-fenced")
        total["locks"] += kind == "rmw" and frames[0][0] == "sn_lock"
        if kind != "fence" and state in ("shared", "watched"):
            total[state] += 1
        # The callers are shown too, because the innermost function may only take a lock or count.
        chain = " < ".join(name for name, _ in frames[:3])
        named[(kind, chain, frames[0][1], f"{names.datum(data)} ({state})")] += 1
    return total, named


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--procs", default="1,2,16,64")
    parser.add_argument("--by-name", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("build")
    parser.add_argument("operations", nargs="*")
    args = parser.parse_intermixed_args()
    program = f"{args.build}/bench/bench-shared"
    if not os.path.exists(program):
        sys.exit(f"{program} is missing: it is built with GCC for x86_64, in the release preset")
    operations = args.operations or subprocess.run(
        [program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    names = Names(program)
    result = []
    if not args.json:
        print("| operation | processors | RMW | fences | locks | shared | watched | calls | alike |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for operation in operations:
        for procs in args.procs.split(","):
            equal, of, threads, events = run(program, operation, procs)
            total, named = count(names, events)
            row = {"operation": operation, "procs": int(procs), "threads": threads,
                   "alike": equal / of, **{each: total[each] for each in COLUMNS}}
            result.append(row)
            if args.json:
                continue
            print(f"| {operation} | {procs} | " +
                  " | ".join(str(total[each]) for each in COLUMNS) +
                  f" | {100 * equal // of} % |", flush=True)
            if args.by_name:
                for (kind, chain, place, data), n in sorted(named.items(), key=str):
                    print(f"    {n} {kind:<12} {chain}  {place}  {data}")
    if args.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
