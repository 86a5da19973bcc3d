#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs that `make bench-udp` measures with work: each answers datagrams of both sizes, of one
peer and of a thousand. The test asserts no figures.
"""
import os
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]


class Bench(unittest.TestCase):
    def test_measures_each_server(self):
        done = subprocess.run([sys.executable, f"{SOURCE}/bench/udp/udp.py", BUILD, "--quick"],
                              capture_output=True, text=True, timeout=280, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        names = ["sennit ", "loop ", "sennit, batches ", "loop, batches "]
        if "NOT COMPARED WITH Go" not in done.stdout:
            names.append("Go ")
        lines = done.stdout.split("\n")
        for name in names:
            rows = [line for line in lines if line.startswith(name)]
            self.assertEqual(len(rows), 2, f"{name}: {done.stdout}")
            for row in rows:
                self.assertEqual(row.count(" to "), 4, row)


if __name__ == "__main__":
    unittest.main()
