#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
copy.py BUILD_DIR [--rounds N] [--seconds S] [--chunks K,K]: TCP to TCP copies, by the sender's
chunk.

One connection from a sender through a relay to a sink, all on this machine's loopback, as in Go's
BenchmarkTCPReadFrom: for sennit's sn_copy() with its defaults and confined to userspace, Go's
io.Copy with splice and with splice defeated, and a bare single-thread epoll loop with splice (the
bound) and with copying. They take turns in every round, so that other load on the machine affects
all of them. Prints medians with the slowest and fastest run, the relay's own CPU seconds per GiB,
and sennit's throughput relative to the others. Exits with 1 if something fails; a missing Go is
reported loudly.
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

CHUNKS = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]
GIB = 1 << 30


def cpu_seconds(pid):
    """User and system time of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Relay:
    """A relay that runs on its own port, with its results by chunk."""

    def __init__(self, name, command, port, environment=None):
        self.name, self.port = name, port
        self.command = command + [str(port), str(port + 1)]
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        if self.process.stdout.readline() != "ready\n":
            sys.exit(f"copy.py: {' '.join(self.command)} does not start")
        self.results = {}

    def measure(self, ends, chunk, seconds):
        before = cpu_seconds(self.process.pid)
        output = subprocess.run([ends, str(chunk), str(seconds), str(self.port), str(self.port + 1)],
                                capture_output=True, text=True, timeout=seconds + 60, check=False)
        if output.returncode != 0 or self.process.poll() is not None:
            sys.exit(f"copy.py: {self.name}: {output.stderr}")
        size, ns = map(int, output.stdout.split())
        cpu = cpu_seconds(self.process.pid) - before
        self.results.setdefault(chunk, []).append((size / ns * 1000, cpu * GIB / size))

    def median(self, chunk, column):
        return statistics.median(r[column] for r in self.results[chunk])

    def stop(self):
        self.process.kill()
        self.process.wait()


def label(chunk):
    return f"{chunk >> 20} MiB" if chunk >= 1 << 20 else f"{chunk >> 10} KiB"


def table(title, relays, chunks, column, form):
    print(f"\n{title}: median (slowest to fastest run)\n")
    print("| relay | " + " | ".join(label(c) for c in chunks) + " |")
    print("| --- " * (len(chunks) + 1) + "|")
    for relay in relays:
        cells = []
        for chunk in chunks:
            values = [r[column] for r in relay.results[chunk]]
            low, high = min(values), max(values)
            cells.append(f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})")
        print(f"| {relay.name} | " + " | ".join(cells) + " |")


def verdicts(relays, chunks):
    by_name = {relay.name: relay for relay in relays}
    ours, hand = by_name["sennit"], by_name["sennit, userspace"]
    bound = by_name["epoll loop, splice"]
    peers = [r for r in relays if not r.name.startswith(("sennit", "epoll"))]
    print("\n| sennit's throughput against | " + " | ".join(label(c) for c in chunks) + " |")
    print("| --- " * (len(chunks) + 1) + "|")
    rows = [("its own userspace path", hand.median), ("the bound (epoll loop, splice)", bound.median)]
    if peers:
        rows.append(("the best of Go", lambda c, k: max(p.median(c, k) for p in peers)))
    for name, other in rows:
        print(f"| {name} | " + " | ".join(f"{ours.median(c, 0) / other(c, 0):.2f}" for c in chunks)
              + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", help="a build directory, such as build/release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--chunks", help="KiB, with commas between")
    parser.add_argument("--port", type=int, default=17100, help="the first of 20 that are free")
    parser.add_argument("--only", help="relays whose name has this in it")
    arguments = parser.parse_args()
    chunks = [int(c) << 10 for c in arguments.chunks.split(",")] if arguments.chunks else CHUNKS
    sennit = our_program(arguments.build, "bench/copy/bench-copy-sennit")
    loop = our_program(arguments.build, "bench/copy/bench-copy-loop")
    ends = our_program(arguments.build, "bench/copy/bench-copy-ends")
    with tempfile.TemporaryDirectory() as scratch:
        wanted = [("sennit", [sennit], None),
                  ("sennit, userspace", [sennit], {"SENNIT_PIPES": "0"}),
                  ("epoll loop, splice", [loop, "splice"], None),
                  ("epoll loop, copy", [loop, "copy"], None)]
        go = os.path.join(scratch, "relay")
        if built("Go", "go", ["go", "build", "-o", go, os.path.join(HERE, "relay.go")]):
            wanted += [("Go io.Copy, splice", [go, "splice"], None),
                       ("Go io.Copy, splice defeated", [go, "copy"], None)]
            print(subprocess.run(["go", "version"], capture_output=True, text=True,
                                 check=True).stdout.strip())
        if arguments.only:
            wanted = [w for w in wanted if arguments.only in w[0]]
        relays = []
        try:
            for i, (name, command, environment) in enumerate(wanted):
                relays.append(Relay(name, command, arguments.port + 2 * i, environment))
            print(f"{arguments.rounds} rounds of {arguments.seconds} s, in turn; "
                  f"{os.cpu_count()} CPUs", flush=True)
            for _ in range(arguments.rounds):
                for chunk in chunks:
                    for relay in relays:
                        relay.measure(ends, chunk, arguments.seconds)
        finally:
            for relay in relays:
                relay.stop()
    table("MB/s", relays, chunks, 0, ".0f")
    table("CPU seconds of the relay per GiB", relays, chunks, 1, ".2f")
    if not arguments.only:
        verdicts(relays, chunks)


if __name__ == "__main__":
    main()
