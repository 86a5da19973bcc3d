#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
libraries.py BUILD_DIR [--rounds N] [--count N]: what libraries with blocking calls cost in hooked
tasks, beside threads and beside their own asynchronous interfaces.

    libcurl   --count transfers of 200 ms at once: easy, and curl_multi
    OpenSSL   --count connections that wait 200 ms for an answer: SSL_set_fd, and non-blocking
    libpq     --count queries of 0.1 s over 100 connections: PQexec, and PQsendQuery with poll()

The three ways take turns in every round, each in a process of its own. Prints the medians of the
time, the processor's time, the most threads, and the most memory. The other libraries of the tests
(tests/hooks/libraries) have a second table, beside threads only, with as many tasks as their tests
have and the usual number of threads instead of the most. A library that is not installed is left
out, and reported. Exits with 1 if something fails.
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
OTHERS = {"MariaDB": "mariadb", "hiredis": "hiredis", "libssh2": "libssh2", "c-ares": "c_ares",
          "SQLite": "sqlite"}


def measure(program, way, where, count):
    """Seconds, threads, seconds of the processor, KiB."""
    done = subprocess.run([program, way, str(count), where], capture_output=True, text=True,
                          timeout=servers.PATIENCE, check=False)
    if done.returncode:
        servers.fail(f"{program} {way}: {done.stderr[:2000]}")
    return [float(word) for word in done.stdout.split()]


def compare(name, program, where, options):
    runs = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way, measured in runs.items():
            measured.append(measure(program, way, where, options.count))
    for way, measured in runs.items():
        time, threads, cpu, memory = (statistics.median(column) for column in zip(*measured))
        print(f"| {name} | {WAYS[way]} | {time:.2f} s | {cpu:.2f} s | {threads:.0f} "
              f"| {memory / 1024:.0f} MiB |", flush=True)


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


def compare_with_threads(name, test, options):
    """Runs the library's test, which starts the server."""
    runs = {way: [] for way in ("tasks", "threads")}
    for _ in range(options.rounds):
        status, out, err = run_test(test, options)
        if status == 77:
            print(f"{name} is left out: {out.strip()}")
            return
        found = re.findall(r"(\d+) done, (\d+) threads,.* ([\d.]+) s, ([\d.]+) s of .* (\d+) MiB",
                           out)
        if status or len(found) != 2:
            servers.fail(f"{test}: {out}{err[:2000]}")
        for way, row in zip(runs, found):
            runs[way].append([float(each) for each in row])
    for way, measured in runs.items():
        tasks, threads, time, cpu, memory = (statistics.median(each) for each in zip(*measured))
        print(f"| {name} | {WAYS[way]} | {tasks:.0f} | {tasks / time:.0f} | {time:.2f} s "
              f"| {cpu:.2f} s | {threads:.0f} | {memory:.0f} MiB |", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--limit", type=int, default=4 * servers.PATIENCE,
                        help="of one run of a library's test, in seconds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    if not os.path.isdir(os.path.join(options.build, "bench/libraries")):
        sys.exit(f"libraries.py: there are no benchmarks in {options.build}; make benches builds them")

    def program(stem):
        path = os.path.join(options.build, "bench/libraries/bench-library-" + stem)
        if os.path.exists(path):
            return path
        print(f"{stem} is left out: it was not installed when the benchmarks were built")
        return None

    print("| | | time | of the processors | threads | memory |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    if program("openssl"):
        with subprocess.Popen([program("openssl"), "serve"], stdout=subprocess.PIPE,
                              text=True) as server:
            plain, tls = server.stdout.readline().split()
            if program("curl"):
                compare("libcurl", program("curl"), f"http://127.0.0.1:{plain}/", options)
            compare("OpenSSL", program("openssl"), tls, options)
            server.terminate()
    if program("libpq"):
        with servers.postgresql(120) as port:
            compare("libpq", program("libpq"), f"host=127.0.0.1 port={port} user=postgres",
                    options)
    print("\n| | | tasks | a second | time | of the processors | threads | memory |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name, test in OTHERS.items():
        compare_with_threads(name, test, options)


if __name__ == "__main__":
    main()
