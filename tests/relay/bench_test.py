#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The benchmarks of `make bench-relay` and `make bench-relay-idle` work: the first measures
sennit-relay, two bare loops and a direct connection for a moment each, the second a few connections
of sennit-relay. The test asserts no figures. The programs themselves check that bytes and answers
arrive.
"""
import os
import shutil
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
RELAYS = ["none (direct)", "sennit-relay", "c-splice", "c-copy"]


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
