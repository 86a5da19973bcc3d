#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
files.py BUILD_DIR [--rounds N] [--seconds S] [--workers N] [--directory D] [--quick]: operations on
files in sennit's tasks, beside threads and beside a bare io_uring (files.c).

The three take turns in every round, so that other load on the machine affects all of them. Prints
medians of thousands of operations a second and of microseconds of CPU time for each, with the
lowest and the highest run, and the most threads there were. --quick only shows that everything
runs. Exits with 1 if something fails; a system that does not allow io_uring is reported.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

VARIANTS = {"tasks": "sennit, tasks", "threads": "threads", "ring": "io_uring, bare"}
WORKS = {"cached": "cached read", "direct": "direct read", "sync": "write and fdatasync"}


def measure(program, variant, work, options, directory):
    """(operations a second, CPU seconds for each, threads), or None if it is not allowed."""
    command = [program, variant, work, str(options.workers), str(options.seconds), directory]
    done = subprocess.run(command, capture_output=True, text=True,
                          timeout=options.seconds + 300, check=False)
    if done.returncode == 77:
        return None
    if done.returncode != 0:
        sys.exit(f"files.py: {' '.join(command)}: {done.stderr}")
    operations, ns, cpu, threads = map(int, done.stdout.split())
    if operations == 0:
        sys.exit(f"files.py: {' '.join(command)} did nothing")
    return operations / ns * 1e9, cpu / 1e9 / operations, threads


def cell(values, scale):
    values = [value * scale for value in values]
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--directory", default="/var/tmp")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.05
    program = os.path.join(options.build, "bench/bench-files")
    if not os.path.exists(program):
        sys.exit(f"files.py: there is no {program}; make benches builds it")
    results = {(work, variant): [] for work in WORKS for variant in VARIANTS}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for number in range(options.rounds):
            for work in WORKS:
                names = list(VARIANTS)
                for variant in names[number % 3:] + names[:number % 3]:
                    results[work, variant].append(
                        measure(program, variant, work, options, directory))
    print(f"\n{options.workers} workers, {options.rounds} rounds of {options.seconds} s: medians "
          "(lowest to highest)\n")
    print("| operation | by | thousands a second | CPU us for each | threads |\n" + "| --- " * 5 + "|")
    for (work, variant), runs in results.items():
        head = f"| {WORKS[work]} | {VARIANTS[variant]} |"
        if None in runs:
            print(f"{head} the system does not allow it | | |")
            continue
        rate, cpu, threads = zip(*runs)
        print(f"{head} {cell(rate, 1e-3)} | {cell(cpu, 1e6)} | {max(threads)} |")


main()
