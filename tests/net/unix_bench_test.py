#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs of `make bench-unix` work: each runs over each transport for a moment, Go only where it
is installed. The test asserts no figures.
"""
import os
import re
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]


class Bench(unittest.TestCase):
    def test_measures_each_program(self):
        done = subprocess.run([sys.executable, f"{SOURCE}/bench/unix/echo.py", BUILD, "--quick"],
                              capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        names = ["sennit, Unix", "sennit, TCP"]
        if "NOT COMPARED WITH Go" not in done.stdout:
            names += ["Go, Unix", "Go, TCP"]
        for name in names:
            row = re.search(rf"^\| {name} \| [0-9.]+ \(.*$", done.stdout, re.M)
            self.assertTrue(row, done.stdout)
            self.assertEqual(row.group(0).count("|"), 5)

    def test_fails_without_the_program(self):
        done = subprocess.run([sys.executable, f"{SOURCE}/bench/unix/echo.py", "/nowhere"],
                              capture_output=True, text=True, timeout=200, check=False)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
