#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The benchmarks that compare sennit only with itself or with plain threads work, each with a small
number of tasks. The test asserts no figures.
"""
import os
import subprocess
import unittest

BUILD = os.environ["SENNIT_BUILD_DIR"]


class Bench(unittest.TestCase):
    def measure(self, program, *arguments):
        done = subprocess.run([f"{BUILD}/bench/{program}", *arguments], capture_output=True,
                              text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_names_that_hang(self):
        self.assertRegex(self.measure("bench-resolve", "20", "4"), r"longest +[\d.]+ ms")

    def test_collections(self):
        self.assertRegex(self.measure("gc/bench-gc", "0", "100"), r"(?m)^ +100 +\d+ +[1-9]")

    def test_hooked_calls(self):
        self.assertRegex(self.measure("bench-hooks", "1"), r"round trip between two threads +[1-9]")


if __name__ == "__main__":
    unittest.main()
