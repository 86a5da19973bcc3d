#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
ramp.py BUILD_DIR [--rounds N] [--seconds S] [--connections N,..] [--processors N] [--only NAME;..]:
sennit-relay beside nginx and HAProxy, with more and more connections.

Each connection has one request of 64 bytes under way, from a client through the relay to a backend
that sends it back. Columns: requests per second; microseconds of the relay's CPU for one request,
of the program and of the kernel apart, without the opening of the connections; quantiles of the
latency; the CPU that the client and the backend take, each one thread, in percent of one CPU. If
one of these is near 100, it and not the relay limits the rate. "none (direct)" is the client
connected to the backend, the most that they can do.

The relays have as many workers as --processors, by default one for each CPU. "N relays, one
processor each" is as many of sennit-relay's processes with SENNIT_PROCS=1, which accept from one
listening socket. Every measurement has a relay of its own, just started. The tables have the
medians over the rounds, with the lowest and the highest value. A peer that is not installed has a
row that says so.

A relay has two descriptors for each connection, so 10,000 connections need a limit of 20,400.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import idle
import relay as bench

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import loads  # noqa: E402
from common import our_program  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
DIRECT = "none (direct)"


def contestants(build, processors, most):
    """For each relay its command, or the reason why there is none, and its environment."""
    shared = f"{processors} relays, one processor each"

    def sennit(folder, port, sink):
        return idle.sennit(build, folder, port, sink, most, None)

    def several(folder, port, sink):
        return [sys.executable, os.path.join(HERE, "share.py"), str(processors), str(port),
                *sennit(folder, port, sink)]

    def peer(make):
        return lambda folder, port, sink: make(build, folder, port, sink, most, None, processors)
    found = {"sennit-relay": (sennit, {"SENNIT_PROCS": str(processors)}),
             shared: (several, {"SENNIT_PROCS": "1"}),
             "nginx stream": (peer(idle.nginx), {}),
             "HAProxy": (peer(idle.haproxy), {}),
             DIRECT: (None, {})}
    if processors == 1:
        del found[shared]
    for name, make in (("nginx stream", bench.nginx()), ("HAProxy", bench.haproxy())):
        if isinstance(make, str):
            found[name] = (make, {})
    return found


def measure(programs, contestant, name, number, seconds, scratch):
    command, environment = contestant
    relay = bench.Relay(name, command, environment, scratch)
    backend = subprocess.Popen([programs["backend"], "serve", str(relay.sink)],
                               stdin=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 20
        while not bench.listens(relay.sink):
            if backend.poll() is not None or time.monotonic() > until:
                loads.give_up("the backend does not start")
            time.sleep(0.01)
        return loads.run([programs["load"], "echo", str(number), str(seconds), str(relay.port)],
                         seconds, relay.process and relay.process.pid, backend.pid)
    finally:
        relay.stop()
        backend.kill()
        backend.wait()


def main():
    processors = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processors", type=int, default=processors)
    loads.add_options(parser, list(contestants("", processors, 0)))
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    programs = {"load": our_program(build, "bench/load/bench-load"),
                "backend": our_program(build, "bench/relay/bench-relay-load")}
    our_program(build, "tools/relay/sennit-relay", "build")
    connections = loads.possible(options.connections, 2)
    found = contestants(build, options.processors, max(connections) + 100)
    names = loads.chosen(parser, options, list(found))
    missing = {name: found[name][0] for name in names if isinstance(found[name][0], str)}
    here = [name for name in names if name not in missing]
    bench.versions(("haproxy", "nginx"))
    print(f"{options.rounds} rounds of {options.seconds} s each, in turns; {options.processors} "
          f"processors for each relay; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} "
          "before; medians, with lowest and highest", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)  # nginx's workers run as another user
        results = loads.ramp(here, connections, options,
                             lambda name, number, seconds: measure(
                                 programs, found[name], name, number, seconds, scratch))
    loads.print_ramp(results, connections, here, missing, True)


if __name__ == "__main__":
    main()
