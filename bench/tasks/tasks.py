#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tasks.py BUILD_DIR [--rounds N] [--processors 1,2] [ROW...]: the cost of tasks, channels and locks,
beside Go, tokio, Boost.Fiber and Java's virtual threads (peers/), each in its own idiom.

Every measurement runs in a separate process. The contestants take turns in every round, so that
other load on the machine affects all of them. The table has the medians over the rounds with their
range, in ns unless stated otherwise, and the ratio of Go to sennit. A peer that is missing is
reported loudly; "-" stands for what a peer does not have.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from common import built, loudly, our_program  # noqa: E402


ROWS = {
    "spawn-all": "spawn 1M, join each",
    "spawn-group": "spawn 1M, wait for all together",
    "spawn-join": "spawn and join, one at a time",
    "yield": "yield between two tasks",
    "ping-pong": "unbuffered ping-pong, round trip",
    "buffered-1": "buffered (128) 1:1, an item",
    "buffered-4": "buffered (128) 4:4, an item",
    "mutex-8": "mutex, 8 tasks",
    "select-4": "select of 4, a receive",
    "skynet": "skynet, 1M leaves (ms)",
    "sleeps": "1M sleeps, CPU each",
    "idle-task": "bytes of an idle task",
}


def newest_java():
    """The newest Java, if it has virtual threads (Java 21). Several may be installed."""
    homes = [os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("java"))))] if shutil.which(
        "java") else []
    folder = "/usr/lib/jvm"
    if os.path.isdir(folder):
        homes += [os.path.join(folder, each) for each in os.listdir(folder)]
    best = (0, None)
    for home in homes:
        release = os.path.join(home, "release")
        if not os.path.exists(release):
            continue
        for line in open(release, encoding="utf-8"):
            if line.startswith("JAVA_VERSION="):
                version = int(line.split('"')[1].split(".")[0])
                best = max(best, (version, home))
    return best[1] if best[0] >= 21 else None


def contestants(build):
    kept = os.path.join(build, "bench/tasks/peers")
    os.makedirs(kept, exist_ok=True)
    peers = os.path.join(HERE, "peers")
    ours = our_program(build, "bench/bench-tasks")
    found = {"sennit": lambda row, procs: [ours, "--repeats=1", f"--procs={procs}", row]}

    go = os.path.join(kept, "go")
    if built("Go", "go", ["go", "build", "-o", go, os.path.join(peers, "tasks.go")]):
        found["Go"] = lambda row, procs: [go, row, str(procs)]

    target = os.path.join(kept, "tokio")
    if built("tokio", "cargo", ["cargo", "build", "--release", "--quiet", "--manifest-path",
                                os.path.join(peers, "tokio/Cargo.toml"), "--target-dir", target]):
        found["tokio"] = lambda row, procs: [f"{target}/release/tasks", row, str(procs)]

    fiber = os.path.join(kept, "fiber")
    if built("Boost.Fiber", "g++", ["g++", "-O2", "-std=c++17", "-o", fiber,
                                    os.path.join(peers, "fiber.cc"), "-lboost_fiber",
                                    "-lboost_context", "-lpthread"]):
        found["Boost.Fiber"] = lambda row, procs: [fiber, row, str(procs)]

    java = newest_java()
    if not java:
        loudly("NOT COMPARED WITH Java's virtual threads: there is no Java from 21 on")
    elif built("Java's virtual threads", os.path.join(java, "bin/javac"),
               [os.path.join(java, "bin/javac"), "-d", kept, os.path.join(peers, "Tasks.java")]):
        found["Java"] = lambda row, procs: [
            os.path.join(java, "bin/java"), "-Xmx12g", f"-XX:ActiveProcessorCount={max(2, procs)}",
            f"-Djdk.virtualThreadScheduler.parallelism={procs}",
            f"-Djdk.virtualThreadScheduler.maxPoolSize={procs}", "-cp", kept, "Tasks", row]
    return found


def measure(command, row, procs):
    """A number, or None if the peer does not have the row or fails."""
    try:
        result = subprocess.run(command(row, procs), capture_output=True, text=True, timeout=300,
                                check=False)
    except subprocess.TimeoutExpired:
        return None
    words = result.stdout.split()
    if result.returncode != 0 or not words:
        return None
    # sennit's program prints "name processors value unit", the others the value in ns.
    if len(words) >= 4:
        return float(words[2])
    return float(words[0]) / (1e6 if row == "skynet" else 1)


def number(value):
    return f"{value:,.1f}" if value < 20 else f"{value:,.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("rows", nargs="*", help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processors", default="1,2")
    options = parser.parse_intermixed_args()
    rows = options.rows or list(ROWS)
    for row in rows:
        if row not in ROWS:
            parser.error(f"unknown row {row}; there are {', '.join(ROWS)}")
    processors = [int(each) for each in options.processors.split(",")]
    found = contestants(os.path.abspath(options.build))

    values = {}
    for _ in range(options.rounds):
        for row in rows:
            for procs in processors:
                for name, command in found.items():
                    value = measure(command, row, procs)
                    if value is not None:
                        values.setdefault((row, procs, name), []).append(value)

    print(f"medians of {options.rounds} rounds, lowest and highest in brackets; ns unless said")
    for procs in processors:
        print(f"\n{procs} processor{'s' if procs > 1 else ''}")
        head = ["", *found, "Go/sennit"]
        table = []
        for row in rows:
            line = [ROWS[row]]
            for name in found:
                taken = values.get((row, procs, name))
                line.append("-" if not taken else f"{number(statistics.median(taken))} "
                            f"({number(min(taken))} to {number(max(taken))})")
            ours, go = values.get((row, procs, "sennit")), values.get((row, procs, "Go"))
            line.append(f"{statistics.median(go) / statistics.median(ours):.1f}" if ours and go else "-")
            table.append(line)
        widths = [max(len(line[i]) for line in [head, *table]) for i in range(len(head))]
        for line in [head, *table]:
            print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                            for i, (cell, width) in enumerate(zip(line, widths))))
    return 0 if any(key[2] == "sennit" for key in values) else 1


if __name__ == "__main__":
    sys.exit(main())
