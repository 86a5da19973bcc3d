#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
udp.py BUILD_DIR [--rounds N] [--seconds S] [--processors N] [--quick]: datagrams that a server
echoes, per second, and its CPU time for each: sennit, one at a time and in batches, beside bare
epoll loops that do the same, Go and tokio.

A row is a size of datagrams and a number of peers. Every measurement runs in a separate process,
against the same load (load.c). The contestants take turns in every round, so that other load on the
machine affects all of them. The tables have the medians over the rounds, with their lowest and
highest. Look at the CPU time first: packets per second also measure how the kernel divides the CPUs
between server and load. A peer that is missing is reported loudly. --quick only shows that
everything runs: one round of 0.2 s. BENCH_UDP_ROUNDS and BENCH_UDP_SECONDS in the environment are
the defaults of --rounds (5) and --seconds (1).
"""
import argparse
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from common import built, our_program  # noqa: E402

ROWS = [(size, peers) for size in (64, 1200) for peers in (1, 1000)]


def contestants(build, processors):
    """The command of each server, and its environment."""
    kept = os.path.join(build, "bench/udp/peers")
    os.makedirs(kept, exist_ok=True)
    sennit = our_program(build, "bench/udp/bench-udp-sennit")
    loop = our_program(build, "bench/udp/bench-udp-loop")
    settings = {"SENNIT_PROCS": str(processors)}
    found = {
        "sennit": ([sennit, "one"], settings),
        "loop": ([loop, "one"], {}),
        "sennit, batches": ([sennit, "batch"], settings),
        "loop, batches": ([loop, "batch"], {}),
    }
    go = os.path.join(kept, "go")
    if built("Go", "go", ["go", "build", "-o", go, os.path.join(HERE, "udp.go")]):
        found["Go"] = ([go], {"GOMAXPROCS": str(processors)})
    target = os.path.join(kept, "tokio")
    if built("tokio", "cargo", ["cargo", "build", "--release", "--quiet", "--manifest-path",
                                os.path.join(HERE, "tokio/Cargo.toml"), "--target-dir", target]):
        found["tokio"] = ([f"{target}/release/udp", str(processors)], {})
    return found


def measure(build, contestant, size, peers, seconds):
    """Runs the load. Returns datagrams per second, and ns of the server's CPU for each."""
    command, environment = contestant
    load = os.path.join(build, "bench/udp/bench-udp-load")
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **environment})
    port = server.stdout.readline().strip()
    done = subprocess.run([load, port, str(size), str(peers), str(seconds)], capture_output=True,
                          text=True, timeout=seconds + 60, check=False)
    server.stdin.close()
    _, status, usage = os.wait4(server.pid, 0)
    server.returncode = os.waitstatus_to_exitcode(status)
    server.stdout.close()
    if done.returncode != 0 or server.returncode != 0:
        sys.exit(f"udp.py: {command}: status {server.returncode}, load {done.returncode}: "
                 f"{done.stderr}")
    answers, took, lost = (int(word) for word in done.stdout.split())
    if answers == 0:
        sys.exit(f"udp.py: {command} answered nothing, {lost} datagrams were lost")
    return answers * 1e9 / took, (usage.ru_utime + usage.ru_stime) * 1e9 / answers


def table(title, found, values, which, form):
    print(f"\n{title}")
    head = [""] + [f"{size} B, {peers} peer{'s' if peers > 1 else ''}" for size, peers in ROWS]
    lines = [head]
    for name in found:
        line = [name]
        for row in ROWS:
            taken = [value[which] for value in values[row, name]]
            line.append(f"{form(statistics.median(taken))} ({form(min(taken))} to {form(max(taken))})")
        lines.append(line)
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(line, widths))))


def ratios(found, values):
    """Medians of the ratios within a round, which other load on the machine changes less."""
    pairs = [("CPU, sennit / loop, batches", "sennit, batches", "loop, batches", 1),
             ("CPU, sennit / loop", "sennit", "loop", 1)]
    for peer in ("Go", "tokio"):
        if peer in found:
            pairs += [(f"CPU, {peer} / sennit", peer, "sennit", 1),
                      (f"rate, sennit / {peer}", "sennit", peer, 0)]
    print("\nratios, of the same round")
    for title, above, below, which in pairs:
        cells = []
        for row in ROWS:
            each = [a[which] / b[which] for a, b in zip(values[row, above], values[row, below])]
            cells.append(f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})")
        print("  ".join([title.ljust(28), *(cell.rjust(20) for cell in cells)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("BENCH_UDP_ROUNDS", 5)))
    parser.add_argument("--seconds", type=float,
                        default=float(os.environ.get("BENCH_UDP_SECONDS", 1)))
    parser.add_argument("--processors", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.2
    build = os.path.abspath(options.build)
    found = contestants(build, options.processors)
    values = {(row, name): [] for row in ROWS for name in found}
    for _ in range(options.rounds):
        for row in ROWS:
            for name, contestant in found.items():
                values[row, name].append(measure(build, contestant, *row, options.seconds))
    print(f"medians of {options.rounds} rounds of {options.seconds} s, lowest and highest in brackets; "
          f"{options.processors} processor{'s' if options.processors > 1 else ''} for the runtimes")
    table("datagrams per second, in thousands", found, values, 0, lambda n: f"{n / 1000:.0f}")
    table("ns of the server's CPU for each", found, values, 1, lambda n: f"{n:.0f}")
    ratios(found, values)
    return 0


if __name__ == "__main__":
    sys.exit(main())
