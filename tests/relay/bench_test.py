#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The benchmarks of `make bench-relay`, `make bench-ramp` and `make bench-relay-idle` work: the first
measures sennit-relay, two bare loops and a direct connection for a moment each, the second a relay
and two that share a listening socket, the third a few connections of sennit-relay. The test asserts
no times. The programs themselves check that bytes and answers arrive. The figures of `make
bench-lines` are counts, which may not grow much: a change that needs more changes docs/scale.md.
"""
import os
import re
import resource
import shutil
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
RELAYS = ["none (direct)", "sennit-relay", "c-splice", "c-copy"]


def ramp(*arguments, **settings):
    return subprocess.run([sys.executable, f"{SOURCE}/bench/relay/ramp.py", BUILD, "--rounds=1",
                           "--seconds=0.1", "--processors=2", *arguments],
                          capture_output=True, text=True, timeout=100, check=False, **settings)


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))


def bench(*arguments):
    return subprocess.run([sys.executable, f"{SOURCE}/bench/relay/relay.py", BUILD, *arguments],
                          capture_output=True, text=True, timeout=100, check=False)


class Bench(unittest.TestCase):
    def test_it_measures_every_relay(self):
        done = bench("--rounds=1", "--seconds=0.1", "--chunks=1,64", "--only=" + ",".join(RELAYS))
        self.assertEqual(done.returncode, 0, done.stderr)
        for relay in RELAYS:
            rows = [line for line in done.stdout.splitlines() if line.startswith(f"| {relay} |")]
            # Five tables. The table of CPU time for bulk data has no row for "none".
            self.assertEqual(len(rows), 4 if relay == RELAYS[0] else 5, done.stdout)
            self.assertNotIn(" - ", "".join(rows))

    def test_an_unknown_relay_is_an_error(self):
        done = bench("--only=sennit-relay,nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown relay: nonsense", done.stderr)

    def test_a_missing_peer_is_reported(self):
        folder = os.path.join(BUILD, "tests/relay/no-peers")
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run(
            [sys.executable, f"{SOURCE}/bench/relay/relay.py", BUILD, "--rounds=1", "--seconds=0.1",
             "--what=short", "--only=sennit-relay,socat"], env={**os.environ, "PATH": folder},
            capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| socat | NOT MEASURED: socat is not installed |", done.stdout)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_a_request_touches_few_lines_and_has_few_locked_instructions(self):
        done = subprocess.run([sys.executable, f"{SOURCE}/bench/relay/lines.py", BUILD,
                               "--connections=8", "--rounds=4"],
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        private = int(re.search(r"^private +(\d+)", done.stdout, re.M)[1])
        locked = float(re.search(r"without the monitor's ([\d.]+)", done.stdout)[1])
        self.assertLessEqual(private, 40, done.stdout)
        self.assertLessEqual(locked, 40, done.stdout)

    def test_a_ramp_has_each_relay_with_each_number_of_connections(self):
        relays = ["sennit-relay", "2 relays, one processor each", "none (direct)"]
        done = ramp("--connections=4,300", "--only=" + ";".join(relays))
        self.assertEqual(done.returncode, 0, done.stderr)
        for number in ("4", "300"):
            table = done.stdout.partition(f"\n{number} connections\n")[2]
            self.assertTrue(table, done.stdout)
            for relay in relays:
                row = next(line for line in table.splitlines() if line.startswith(f"| {relay} |"))
                self.assertEqual(row.count(".."), 9, row)
            ratios = table.partition("| divided by sennit-relay |")[2].splitlines()
            self.assertTrue(ratios[2].startswith(f"| {relays[1]} |"), table)
            # So short a run may show no tick in user mode, and then there is no ratio of that.
            self.assertGreaterEqual(ratios[2].count(".."), 6, table)

    def test_a_ramp_says_for_how_many_connections_it_has_no_descriptors(self):
        done = ramp("--connections=4,101", "--only=none (direct)", preexec_fn=few_descriptors)
        self.assertEqual(done.returncode, 0, done.stderr)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        if "NOT WITH" not in done.stdout:
            self.skipTest(f"this user can raise the limit: {limit}")
        self.assertIn("NOT WITH 101 CONNECTIONS, but with 100: they need 602 descriptors, and the "
                      "limit is 600", done.stdout)
        self.assertIn("\n100 connections\n", done.stdout)

    def test_a_ramp_refuses_an_unknown_relay(self):
        done = ramp("--only=sennit-relay;nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no 'nonsense'", done.stderr)

    def test_idle_connections_are_measured(self):
        folder = os.path.join(BUILD, "tests/relay/no-haproxy")
        os.makedirs(folder, exist_ok=True)
        if not os.path.exists(f"{folder}/openssl"):
            os.symlink(shutil.which("openssl"), f"{folder}/openssl")
        done = subprocess.run(
            [sys.executable, f"{SOURCE}/bench/relay/idle.py", BUILD, "--connections=100",
             "--rounds=1", "--settle=0.1", "--only=sennit-relay,HAProxy"],
            env={**os.environ, "PATH": folder}, capture_output=True, text=True, timeout=100,
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\| sennit-relay \| [\d,]+ \([\d,.]+\) \| [\d,]+ ")
        self.assertIn("| HAProxy | NOT MEASURED: haproxy is not installed |", done.stdout)


if __name__ == "__main__":
    unittest.main()
