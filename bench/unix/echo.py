#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
echo.py BUILD_DIR [--rounds N] [--seconds S] [--quick]: round trips over Unix sockets, beside TCP
and beside Go.

Clients and the tasks that answer are one process (echo.c, echo.go), with a message of 64 bytes or
of 16 KiB under way on each connection. The four take turns in every round, so that other load on
the machine affects all of them. Prints medians of thousands of round trips a second, with the
slowest and the fastest run, and sennit's relative to the others. --quick only shows that everything
runs. Exits with 1 if something fails; a missing Go is reported loudly.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from common import built, our_program  # noqa: E402

LOADS = [(1, 64), (100, 64), (100, 16384)]


def label(load):
    connections, size = load
    return f"{connections} x {size} B" if size < 1024 else f"{connections} x {size >> 10} KiB"


def measure(command, load, seconds):
    done = subprocess.run([*command, *map(str, load), str(seconds)], capture_output=True, text=True,
                          timeout=seconds + 60, check=False)
    if done.returncode != 0:
        sys.exit(f"echo.py: {' '.join(command)}: {done.stderr}")
    trips, ns = map(int, done.stdout.split())
    if trips == 0:
        sys.exit(f"echo.py: {' '.join(command)} made no round trip")
    return trips / ns * 1e6


def table(results):
    print("\nThousands of round trips a second: median (slowest to fastest run)\n")
    print("| | " + " | ".join(map(label, LOADS)) + " |")
    print("| --- " * (len(LOADS) + 1) + "|")
    for name, by_load in results.items():
        cells = [f"{statistics.median(v):.1f} ({min(v):.1f} to {max(v):.1f})"
                 for v in (by_load[load] for load in LOADS)]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("\n| sennit, Unix, against | " + " | ".join(map(label, LOADS)) + " |")
    print("| --- " * (len(LOADS) + 1) + "|")
    for name, by_load in results.items():
        if name != "sennit, Unix":
            cells = [f"{statistics.median(results['sennit, Unix'][load]) / statistics.median(v):.2f}"
                     for load, v in by_load.items()]
            print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", help="a build directory, such as build/release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--quick", action="store_true", help="one round of 50 ms")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 0.05
    program = our_program(arguments.build, "bench/bench-unix")
    with tempfile.TemporaryDirectory() as scratch:
        wanted = {"sennit, Unix": [program, "unix"], "sennit, TCP": [program, "tcp"]}
        go = os.path.join(scratch, "echo")
        if built("Go", "go", ["go", "build", "-o", go, os.path.join(HERE, "echo.go")]):
            wanted.update({"Go, Unix": [go, "unix"], "Go, TCP": [go, "tcp"]})
            print(subprocess.run(["go", "version"], capture_output=True, text=True,
                                 check=True).stdout.strip())
        print(f"{arguments.rounds} rounds of {arguments.seconds} s, in turn; {os.cpu_count()} CPUs",
              flush=True)
        results = {name: {load: [] for load in LOADS} for name in wanted}
        for _ in range(arguments.rounds):
            for load in LOADS:
                for name, command in wanted.items():
                    results[name][load].append(measure(command, load, arguments.seconds))
    table(results)


if __name__ == "__main__":
    main()
