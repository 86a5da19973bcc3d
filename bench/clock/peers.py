#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
peers.py BUILD_DIR [--rounds N]: the monotonic clocks of Rust and of Go programs beside sennit's.

Runs bench-clock --counter and the programs in peers/ in turn, N times, and prints the smallest time
of each clock and its ratio to sn_ticks_now's. A program that cannot be built is reported loudly;
without any of them the table has only sennit's clocks and libc's.

The clocks' guarantees differ: fastant and quanta read the counter without ordering it after earlier
loads, so a time may be earlier than one that another thread has passed on, or they clamp it to hide
that; sn_ticks_now, sn_now, libc and Go order it.
"""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from common import built, our_program  # noqa: E402



def build_rust(kept):
    command = ["cargo", "build", "--release", "--quiet", "--manifest-path",
               os.path.join(HERE, "peers/Cargo.toml"), "--target-dir", f"{kept}/rust"]
    return f"{kept}/rust/release/clock-peers", command


def build_go(kept):
    return f"{kept}/go-clock", ["go", "build", "-o", f"{kept}/go-clock",
                                os.path.join(HERE, "peers/clock.go")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", help="a build directory, such as build/release")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    kept = os.path.abspath(f"{arguments.build}/bench-clock-peers")
    os.makedirs(kept, exist_ok=True)
    commands = [[our_program(arguments.build, "bench/bench-clock"), "--counter"]]
    for name, tool, make in (("Rust's fastant and quanta", "cargo", build_rust),
                             ("Go", "go", build_go)):
        program, command = make(kept)
        if built(name, tool, command):
            commands.append([program])

    best = {}
    for _ in range(arguments.rounds):
        for command in commands:
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(f"peers.py: {' '.join(command)} exited with {result.returncode}")
            for line in result.stdout.splitlines():
                if line.startswith("#"):
                    if line not in best:
                        print(line[2:])
                    best[line] = None
                    continue
                name, ns = line.split("\t")
                best[name] = min(float(ns), best.get(name, float("inf")))
    print("\nMonotonic clocks and the counter, ns a call, and how many times sn_ticks_now that is")
    for name, ns in best.items():
        if ns is not None:
            print(f"{name:<28}{ns:9.1f}{ns / best['sn_ticks_now']:9.2f}x")


if __name__ == "__main__":
    main()
