# SPDX-License-Identifier: MIT
"""
Shared by the benchmarks that use bench-load (load/load.c): a run of it, the ramps over numbers of
connections, and their tables.

A ramp measures each peer with each number of connections, in rounds. Within a round the peers take
turns, and each round begins with another one, so that other load on the machine affects all of
them. Ratios are of the same round, for the same reason.
"""
import collections
import os
import statistics
import subprocess
import sys
import threading

from common import cell, cpu_seconds, loudly, most_descriptors

CONNECTIONS = [16, 64, 256, 1000, 4000, 10000]
SPARE = 400  # descriptors for all but connections
# With many connections a measurement takes longer: a second for so many. Otherwise each connection
# would have one or two answers in it, and the quantiles would be those of the shorter ones.
IN_A_SECOND = 5000

Run = collections.namedtuple("Run", [
    "rate", "user", "kernel", "p50", "p99", "p999", "most", "load", "backend", "fifo"])
COLUMNS = [("rate", "a second"), ("user", "user us"), ("kernel", "kernel us"), ("p50", "p50 us"),
           ("p99", "p99 us"), ("p999", "p99.9 us"), ("most", "max us"),
           ("load", "load, % of a CPU")]


def give_up(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def run(command, seconds, server=None, backend=None):
    """Runs bench-load. The CPU times of the server and the backend, which are process ids, do not
    include the opening of the connections. user and kernel are microseconds for one request; load
    and backend are percent of a CPU; latencies are in microseconds."""
    load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    late = threading.Timer(seconds + 60, load.kill)
    late.start()
    watched = [server, backend]
    try:
        said = load.stdout.readline()
        if said == "open\n":
            before = [cpu_seconds(pid) if pid else [0, 0] for pid in watched]
            load.stdin.write("\n")
            load.stdin.flush()
            said = load.stdout.readline()
            after = [cpu_seconds(pid) if pid else [0, 0] for pid in watched]
        words = said.split()
        if len(words) != 10:
            load.kill()
            give_up(f"{' '.join(command)}: {said}{load.stderr.read()}")
    finally:
        late.cancel()
        load.stdin.close()
        load.wait()
        load.stdout.close()
        load.stderr.close()
    done, counted, ns, p50, p99, p999, most, cpu, took, fifo = map(int, words)
    spent = [[b - a for a, b in zip(*each)] for each in zip(before, after)]
    return Run(counted / ns * 1e9, spent[0][0] * 1e6 / done, spent[0][1] * 1e6 / done,
               p50 / 1e3, p99 / 1e3, p999 / 1e3, most / 1e3, cpu / took * 100,
               sum(spent[1]) * 1e9 / took * 100, bool(fifo))


def numbers(text):
    return [int(each) for each in text.split(",")]


def add_options(parser, names):
    parser.add_argument("build", help="a build directory, such as build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1,
                        help="of each measurement; more with many connections")
    parser.add_argument("--connections", type=numbers, default=CONNECTIONS,
                        help="how many, with commas between")
    parser.add_argument("--only", help="peers, with semicolons between, of: " + "; ".join(names))


def chosen(parser, options, names):
    """The names of --only, or all."""
    wanted = options.only.split(";") if options.only else names
    for name in wanted:
        if name not in names:
            parser.error(f"there is no {name!r}; there are: {'; '.join(names)}")
    return wanted


def possible(wanted, each):
    """The numbers of connections for which there are descriptors, if a process has `each` of them
    for a connection. What does not fit is said, and the largest number that does takes its
    place."""
    limit = most_descriptors()
    most = (limit - SPARE) // each
    if most < 1:
        give_up(f"the limit of descriptors is {limit:,} (ulimit -Hn): too few")
    left = sorted({min(number, most) for number in wanted})
    for number in wanted:
        if number > most:
            loudly(f"NOT WITH {number:,} CONNECTIONS, but with {most:,}: they need "
                   f"{number * each + SPARE:,} descriptors, and the limit is {limit:,}, which this "
                   "user cannot raise (ulimit -Hn)")
    return left


def ramp(names, connections, options, measure):
    """Returns {(connections, name): [Run, ..]}. measure(name, connections, seconds) returns a
    Run."""
    results = {}
    for turn in range(options.rounds):
        for number in connections:
            seconds = max(options.seconds, number / IN_A_SECOND)
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                results.setdefault((number, name), []).append(measure(name, number, seconds))
    return results


def ratio_cell(ours, theirs, value):
    pairs = [value(b) / value(a) for a, b in zip(ours, theirs) if value(a)]
    if not pairs or not any(pairs):
        return "-"
    return f"{statistics.median(pairs):.2f} ({min(pairs):.2f}..{max(pairs):.2f})"


RATIOS = [("a second", lambda run: run.rate), ("user", lambda run: run.user),
          ("kernel", lambda run: run.kernel), ("CPU", lambda run: run.user + run.kernel),
          ("p50", lambda run: run.p50), ("p99", lambda run: run.p99),
          ("p99.9", lambda run: run.p999), ("max", lambda run: run.most)]


def print_ramp(results, connections, names, missing, backend):
    """A table for each number of connections. `missing` has a reason for each peer without results;
    `backend` says whether the load has one."""
    columns = COLUMNS + ([("backend", "backend, % of a CPU")] if backend else [])
    for number in connections:
        here = [name for name in names if (number, name) in results]
        print(f"\n{number:,} connections\n")
        print("| | " + " | ".join(title for _, title in columns) + " |")
        print("| --- " * (len(columns) + 1) + "|")
        for name in here:
            runs = results[number, name]
            print(f"| {name} | " + " | ".join(
                cell([getattr(each, field) for each in runs]) for field, _ in columns) + " |")
        for name, reason in missing.items():
            print(f"| {name} | NOT MEASURED: {reason} " + "|" * len(columns))
        if len(here) > 1:
            ours = results[number, here[0]]
            print(f"\n| divided by {here[0]} | " + " | ".join(title for title, _ in RATIOS) + " |")
            print("| --- " * (len(RATIOS) + 1) + "|")
            for name in here[1:]:
                print(f"| {name} | " + " | ".join(
                    ratio_cell(ours, results[number, name], value) for _, value in RATIOS) + " |")
