#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs that `make bench-stall` measures with work: each row has sennit and each peer that
could be built, and a peer that could not is reported. The test asserts no figures. bench-load
compares each answer with its request.
"""
import os
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
ROWS = ["block-30", "block-10", "one-processor", "in-turns", "closed", "compute-50"]
PEERS = ["Go", "tokio", "Photon"]


def stall(*arguments, **settings):
    return subprocess.run([sys.executable, f"{SOURCE}/bench/stall/stall.py", BUILD, "--rounds=1",
                           "--seconds=0.5", *arguments], capture_output=True, text=True,
                          timeout=280, check=False, env={**os.environ, **settings})


class Bench(unittest.TestCase):
    def test_measures_each_server_in_each_row(self):
        done = stall()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        names = ["sennit"] + [name for name in PEERS
                              if f"NOT COMPARED WITH {name}" not in done.stdout]
        for row in ROWS:
            table = done.stdout.partition(f"\n{row}: ")[2]
            self.assertTrue(table, done.stdout)
            for name in names:
                line = next(line for line in table.splitlines() if line.startswith(f"| {name} |"))
                self.assertEqual(line.count(".."), 7, line)

    def test_a_peer_that_cannot_be_built_is_reported(self):
        done = stall("closed", SENNIT_BENCH_PEERS="none")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in PEERS:
            self.assertIn(f"NOT COMPARED WITH {name}: ", done.stdout)

    def test_an_unknown_row_is_an_error(self):
        done = stall("nonsense", SENNIT_BENCH_PEERS="none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown row nonsense", done.stderr)


if __name__ == "__main__":
    unittest.main()
