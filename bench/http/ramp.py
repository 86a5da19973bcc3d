#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
ramp.py BUILD_DIR [--rounds N] [--seconds S] [--connections N,..] [--processors N] [--only NAME;..]:
examples/http-server beside the peers of http.py, with more and more connections.

Each connection has one request for a short text under way. Columns: requests per second;
microseconds of the server's CPU for one request, of the program and of the kernel apart, without
the opening of the connections; quantiles of the latency; the CPU that the load takes, which is one
thread, in percent of one CPU. If that is near 100, it and not the server limits the rate: then
compare CPU times only.

The server runs on the first --processors CPUs (1), the load on the others. The tables have the
medians over the rounds, with the lowest and the highest value. A peer that is missing is reported
loudly. A server has one descriptor for each connection.
"""
import argparse
import os
import sys
import tempfile

from http import build_peers, contestants

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import loads  # noqa: E402
from common import our_program  # noqa: E402

NAMES = ["sennit", "nginx", "Go", "hyper"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processors", type=int, default=1)
    loads.add_options(parser, NAMES)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    load = our_program(build, "bench/load/bench-load")
    our_program(build, "examples/example-http-server", "build")
    names = loads.chosen(parser, options, NAMES)
    connections = loads.possible(options.connections, 1)
    cpus = sorted(os.sched_getaffinity(0))
    ours, theirs = cpus[:options.processors], cpus[options.processors:] or cpus
    on_theirs = ["taskset", "-c", ",".join(map(str, theirs))]
    programs = build_peers(os.path.join(build, "bench/http/peers"))
    programs = {name: program for name, program in programs.items() if name in names}
    servers = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # nginx's workers run as another user
        try:
            servers = {each.name: each for each in contestants(build, programs, folder, ours)}
            here = [name for name in names if name in servers]
            print(f"{options.rounds} rounds of {options.seconds} s each, in turns; servers on CPU "
                  f"{', '.join(map(str, ours))}, the load on {', '.join(map(str, theirs))}; load "
                  f"{os.getloadavg()[0]:.1f} before; medians, with lowest and highest", flush=True)
            results = loads.ramp(
                here, connections, options,
                lambda name, number, seconds: loads.run(
                    [*on_theirs, load, "http", str(number), str(seconds),
                     str(servers[name].port)], seconds, servers[name].process.pid))
        finally:
            for server in servers.values():
                server.stop()
    loads.print_ramp(results, connections, here, {}, False)


if __name__ == "__main__":
    main()
