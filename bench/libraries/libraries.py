#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
libraries.py BUILD_DIR [--rounds N] [--count N] [--only NAME,...]: what libraries with blocking calls
cost in hooked tasks, beside threads and beside their own asynchronous interfaces.

    libcurl   --count transfers of 200 ms at once: easy, and curl_multi_socket_action
    OpenSSL   --count connections that wait 200 ms for an answer: SSL_set_fd, and non-blocking
    libpq     --count queries of 0.1 s over 100 connections: PQexec, and PQsendQuery

The others are those of the tests (tests/hooks/libraries), with as many tasks as the tests have. The
asynchronous interfaces of all run in the same loop around epoll_wait(), on one thread. The
libraries for which only two ways are printed have none.

The ways take turns in every round, each in a process of its own. Prints the medians of the requests
in a second, the time, the processor's time, the most threads, and the most memory. A library that
is not installed is left out, and reported. Exits with 1 if something fails.
"""
import argparse
import os
import re
import signal
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/hooks"))
import servers  # pylint: disable=wrong-import-position

WAYS = {"tasks": "hooked tasks", "threads": "threads", "async": "its asynchronous interface"}
WITHOUT = {"SQLite", "libzmq", "libmodbus", "libcups", "APR"}  # no asynchronous interface
# The test of each library, and how many requests a task of it makes.
OTHERS = {"MariaDB": ("mariadb", 3), "hiredis": ("hiredis", 6), "libssh2": ("libssh2", 2),
          "c-ares": ("c_ares", 5), "SQLite": ("sqlite", 60), "libzmq": ("zmq", 3),
          "libmodbus": ("modbus", 9), "libcups": ("cups", 6), "APR": ("apr", 10)}


def measure(program, way, where, count):
    """Seconds, threads, seconds of the processor, KiB."""
    done = subprocess.run([program, way, str(count), where], capture_output=True, text=True,
                          timeout=servers.PATIENCE, check=False)
    if done.returncode:
        servers.fail(f"{program} {way}: {done.stderr[:2000]}")
    return [float(word) for word in done.stdout.split()]


def print_rows(name, at_once, requests, runs):
    """runs: by way, what each round has measured, as from measure()."""
    for way, measured in runs.items():
        time, threads, cpu, memory = (statistics.median(column) for column in zip(*measured))
        print(f"| {name} | {WAYS[way]} | {at_once} | {requests / time:.0f} | {time:.2f} s "
              f"| {cpu:.2f} s | {threads:.0f} | {memory / 1024:.0f} MiB |", flush=True)


def compare(name, program, where, options, at_once=None):
    runs = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way, measured in runs.items():
            measured.append(measure(program, way, where, options.count))
    print_rows(name, at_once or options.count, options.count, runs)


def run_test(test, options):
    """Runs the library's test. If it ends too late, or this program is ended, its servers are ended,
    too."""
    with subprocess.Popen(
            [sys.executable, os.path.join(servers.HERE, test + "_test.py")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "SENNIT_BUILD_DIR": os.path.abspath(options.build),
                 "SENNIT_TEST_BESIDE": "1"}) as process:
        try:
            out, err = process.communicate(timeout=options.limit)
        except subprocess.TimeoutExpired:
            servers.fail(f"{test} takes more than {options.limit} s")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err


def compare_in_test(name, test, requests, options):
    """Runs the library's test, which starts the server."""
    runs = {way: [] for way in WAYS if way != "async" or name not in WITHOUT}
    for _ in range(options.rounds):
        status, out, err = run_test(test, options)
        if status == 77:
            print(f"{name} is left out: {out.strip()}")
            return
        found = re.findall(r"(\d+) done, .*, (\d+) at most,.* ([\d.]+) s, ([\d.]+) s of .* (\d+) MiB",
                           out)
        if status or len(found) != len(runs):
            servers.fail(f"{test}: {out}{err[:2000]}")
        for measured, (tasks, threads, time, cpu, memory) in zip(runs.values(), found):
            # One of the threads counts them, every other millisecond.
            measured.append([float(time), max(1, int(threads) - 1), float(cpu), int(memory) * 1024])
    print_rows(name, tasks, int(tasks) * requests, runs)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--limit", type=int, default=4 * servers.PATIENCE,
                        help="of one run of a library's test, in seconds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", help="libraries, with commas between")
    options = parser.parse_args()
    if not os.path.isdir(os.path.join(options.build, "bench/libraries")):
        sys.exit(f"libraries.py: there are no benchmarks in {options.build}; make benches builds them")

    def is_wanted(name):
        return not options.only or name in options.only.split(",")

    def program(name, stem):
        path = os.path.join(options.build, "bench/libraries/bench-library-" + stem)
        if os.path.exists(path):
            return path if is_wanted(name) else None
        print(f"{name} is left out: it was not installed when the benchmarks were built")
        return None

    print("| | | at a time | requests a second | time | of the processors | threads | memory |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    curl, openssl = program("libcurl", "curl"), program("OpenSSL", "openssl")
    libpq = program("libpq", "libpq")
    serve = os.path.join(options.build, "bench/libraries/bench-library-openssl")
    if curl and not os.path.exists(serve):
        print("libcurl is left out: its server is that of OpenSSL")
    elif curl or openssl:
        with subprocess.Popen([serve, "serve"], stdout=subprocess.PIPE, text=True) as server:
            plain, tls = server.stdout.readline().split()
            if curl:
                compare("libcurl", curl, f"http://127.0.0.1:{plain}/", options)
            if openssl:
                compare("OpenSSL", openssl, tls, options)
            server.terminate()
    if libpq:
        with servers.postgresql(120) as port:
            compare("libpq", libpq, f"host=127.0.0.1 port={port} user=postgres", options,
                    min(100, options.count))
    for name, (test, requests) in OTHERS.items():
        if is_wanted(name):
            compare_in_test(name, test, requests, options)


if __name__ == "__main__":
    main()
