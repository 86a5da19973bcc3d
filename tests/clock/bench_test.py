#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs of `make bench-clock` work: each clock is measured for a moment, beside the peers that
can be built. The test asserts no figures.
"""
import os
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def peers(build):
    return run(sys.executable, f"{SOURCE}/bench/clock/peers.py", build, "--rounds=1")


class Bench(unittest.TestCase):
    def test_measures_each_clock(self):
        for program, *arguments in ["bench-clock", "--plain"], ["bench-clock-shared", "--time"]:
            with self.subTest(program=program):
                done = run(f"{BUILD}/bench/{program}", *arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout, r"(?m)^time .* \d+\.\d")

    def test_compares_each_clock(self):
        done = peers(BUILD)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ["sn_ticks_now", "sn_now"]:
            self.assertRegex(done.stdout, rf"(?m)^{name} +[\d.]+ +[\d.]+x$")

    def test_fails_without_the_program(self):
        done = peers("/nowhere")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("make benches builds it", done.stderr)


if __name__ == "__main__":
    unittest.main()
