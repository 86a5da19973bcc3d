#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
server.py BUILD_DIR [--rounds N] [--seconds S] [--connections N]: a server in which one request of
twenty blocks its thread for 5 ms, with sennit, Go and tokio, under the same load.

The servers (server/) are started on two processors each, in turn, in every round; the table has the
medians over the rounds, and the range of the throughput. "plain": the call is made without a
bracket; "bracket": between sn_enter_blocking() and sn_exit_blocking(). A peer that cannot be built
is reported loudly.
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

PROCESSORS = "2"


def build_go(scratch):
    program = os.path.join(scratch, "go-server")
    return program, ["go", "build", "-o", program, os.path.join(HERE, "server/server.go")]


def build_tokio(kept):
    target = os.path.join(kept, "tokio")
    return f"{target}/release/blocking-server", [
        "cargo", "build", "--release", "--quiet", "--manifest-path",
        os.path.join(HERE, "server/tokio/Cargo.toml"), "--target-dir", target]


def contestants(build, scratch, kept):
    sennit = our_program(build, "bench/blocking/bench-blocking-server")
    found = {"sennit, plain": [sennit, "plain"], "sennit, bracket": [sennit, "bracket"]}
    for name, tool, make, modes in (
            ("Go", "go", lambda: build_go(scratch), {"Go": []}),
            ("tokio", "cargo", lambda: build_tokio(kept),
             {"tokio, spawn_blocking": ["spawn_blocking"], "tokio, inline": ["inline"]})):
        program, command = make()
        if built(name, tool, command):
            found |= {title: [program, *arguments] for title, arguments in modes.items()}
    return found


def measure(command, load):
    environment = dict(os.environ, SENNIT_PROCS=PROCESSORS, GOMAXPROCS=PROCESSORS,
                       TOKIO_WORKERS=PROCESSORS)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        port = server.stdout.readline().strip()
        if not port:
            sys.exit(f"server.py: {' '.join(command)} did not start")
        result = subprocess.run([load[0], port, *load[1:]], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"server.py: under {' '.join(command)} the load failed: {result.stderr}")
        return [float(field) for field in result.stdout.split()]
    finally:
        server.kill()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", help="a build directory, such as build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--connections", type=int, default=64)
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    kept = os.path.join(build, "bench-blocking")
    load = [os.path.join(build, "bench/blocking/bench-blocking-load"), str(arguments.connections),
            str(arguments.seconds)]
    os.makedirs(kept, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        found = contestants(build, scratch, kept)
        results = {name: [] for name in found}
        for _ in range(arguments.rounds):
            for name, command in found.items():
                results[name].append(measure(command, load))
    print(f"{arguments.connections} connections, 1 request of 20 blocks for 5 ms, {PROCESSORS} "
          f"processors, {arguments.rounds} rounds of {arguments.seconds} s; latencies in us")
    print(f"{'server':<22} {'requests/s':>10} {'(range)':>17} {'fast p50':>9} {'fast p99':>9} "
          f"{'fast p99.9':>10} {'all p99':>9}")
    for name, rows in results.items():
        rate, p50, p99, p999, _, everything = (statistics.median(column) for column in zip(*rows))
        rates = [row[0] for row in rows]
        print(f"{name:<22} {rate:>10.0f} {f'({min(rates):.0f}-{max(rates):.0f})':>17} {p50:>9.0f} "
              f"{p99:>9.0f} {p999:>10.0f} {everything:>9.0f}")


if __name__ == "__main__":
    main()
