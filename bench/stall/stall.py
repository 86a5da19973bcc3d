#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
stall.py BUILD_DIR [--rounds N] [--seconds S] [--only NAME,..] [--photon REPOSITORY] [ROW..]: what
requests wait for while two tasks of the server block their threads, or compute, without saying so;
with sennit, Go, tokio and Photon.

An echo server has 64 connections, with 5,000 requests of 64 bytes a second over them: an open loop,
in which a request's latency counts from when it was due, and a connection that stalls keeps its
requests. Beside the connections, two tasks call usleep() for 10 or 30 ms of every 100, both
together or in turns, or compute for 50 ms of every 500. One row has no such task, but a closed
loop, whose client would fill a processor. Each row says how many processors the runtime has; the
server and the load share the first two CPUs. The load has a real-time priority (SCHED_FIFO) in an open
loop, if it may, so that the figures are the server's waits and not its own.

Every measurement is a separate process of the server, and the servers take turns, each round
beginning with another. The tables have the medians over the rounds, with the lowest and the highest
value; latencies are in milliseconds. A peer that cannot be built is reported loudly.
"""
import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import loads  # noqa: E402
from common import built, cell, our_program  # noqa: E402

CONNECTIONS, RATE = 64, 5000
# For each row its title, the processors and the tasks that stall: what they do, for how many
# milliseconds of how many, and how much later the second one begins. Without them it is a closed
# loop.
ROWS = {
    "block-30": ("usleep() for 30 ms of every 100, both together", 2, ("usleep", 30, 100, 0)),
    "block-10": ("usleep() for 10 ms of every 100, both together", 2, ("usleep", 10, 100, 0)),
    "one-processor": ("usleep() for 30 ms of every 100, both together", 1, ("usleep", 30, 100, 0)),
    "in-turns": ("usleep() for 10 ms of every 100, in turns", 2, ("usleep", 10, 100, 50)),
    "closed": ("no such task, a closed loop", 2, None),
    "compute-50": ("computing for 50 ms of every 500, both together", 2, ("compute", 50, 500, 0)),
}


def contestants(build, photon):
    kept = os.path.join(build, "bench/stall/peers")
    os.makedirs(kept, exist_ok=True)
    peers = os.path.join(HERE, "peers")
    found = {"sennit": our_program(build, "bench/stall/bench-stall-server")}

    go = os.path.join(kept, "go")
    if built("Go", "go", ["go", "build", "-o", go, os.path.join(peers, "server.go")]):
        found["Go"] = go

    target = os.path.join(kept, "tokio")
    if built("tokio", "cargo", ["cargo", "build", "--release", "--quiet", "--manifest-path",
                                os.path.join(peers, "tokio/Cargo.toml"), "--target-dir", target]):
        found["tokio"] = f"{target}/release/stall"

    folder = os.path.join(kept, "photon")
    source = [f"PHOTON={photon}"] if photon else []
    if built("Photon", "g++", ["env", *source, os.path.join(peers, "photon.sh"), folder]):
        found["Photon"] = os.path.join(folder, "photon")
    return found


def measure(build, server, row, iterations, seconds):
    _, processors, stall = ROWS[row]
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    # The server ends with this program, whatever happens to it.
    placed = ["taskset", "-c", cpus]
    command = [shutil.which("setpriv"), "--pdeathsig", "KILL", *placed, server, str(processors)]
    if stall:
        command += [*map(str, stall), iterations]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            port = process.stdout.readline().strip()
            if not port:
                loads.give_up(f"{' '.join(command)} did not start")
            load = [*placed, os.path.join(build, "bench/load/bench-load"), "echo", str(CONNECTIONS),
                    str(seconds), port]
            return loads.run(load + ([str(RATE)] if stall else []), seconds, process.pid)
        finally:
            process.kill()


def print_rows(results, rows, names):
    columns = [("a second", lambda run: run.rate),
               ("p50", lambda run: run.p50 / 1e3), ("p99", lambda run: run.p99 / 1e3),
               ("p99.9", lambda run: run.p999 / 1e3), ("max", lambda run: run.most / 1e3),
               ("CPU us each", lambda run: run.user + run.kernel),
               ("load, % of a CPU", lambda run: run.load)]
    for row in rows:
        title, processors, _ = ROWS[row]
        print(f"\n{row}: {title}; {processors} processor{'s' if processors > 1 else ''}\n")
        print("| | " + " | ".join(name for name, _ in columns) + " |")
        print("| --- " * (len(columns) + 1) + "|")
        for name in names:
            print(f"| {name} | " + " | ".join(
                cell([value(run) for run in results[row, name]]) for _, value in columns) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a build directory, such as build/release")
    parser.add_argument("rows", nargs="*", help="default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
    parser.add_argument("--only", help="sennit, Go, tokio, Photon, with commas between")
    parser.add_argument("--photon", help="the repository with Photon's sources, such as a clone")
    options = parser.parse_intermixed_args()
    build = os.path.abspath(options.build)
    our_program(build, "bench/load/bench-load")
    rows = options.rows or list(ROWS)
    for row in rows:
        if row not in ROWS:
            parser.error(f"unknown row {row}; there are {', '.join(ROWS)}")
    found = contestants(build, options.photon)
    names = [name for name in found if not options.only or name in options.only.split(",")]
    if not names:
        parser.error(f"{options.only}: there are {', '.join(found)}")
    iterations = subprocess.run([found["sennit"], "calibrate"], capture_output=True, text=True,
                                check=True).stdout.strip()
    print(f"{options.rounds} rounds of {options.seconds} s each, in turns; {CONNECTIONS} "
          f"connections, {RATE:,} requests a second unless it is a closed loop; load "
          f"{os.getloadavg()[0]:.1f} before; latencies in ms; medians, with lowest and highest",
          flush=True)
    results = {}
    for turn in range(options.rounds):
        for row in rows:
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                results.setdefault((row, name), []).append(
                    measure(build, found[name], row, iterations, options.seconds))
    if not all(run.fifo for (row, _), runs in results.items() for run in runs if ROWS[row][2]):
        print("\nThe load had no real-time priority (SCHED_FIFO needs CAP_SYS_NICE): its own waits "
              "for a CPU are in these figures.")
    print_rows(results, rows, names)


if __name__ == "__main__":
    main()
