#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs that `make bench-http`, `make bench-ramp` and `make bench-http-idle` measure with work:
each row has the server, and each peer that could be built or is installed. The test asserts no
figures.
"""
import os
import shutil
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
ROWS = ["hello 64", "hello 1000", "db", "new", "tls new", "tls 64"]


class Bench(unittest.TestCase):
    def test_measures_each_server(self):
        # Each takes a second for each server; the others differ in numbers and flags of wrk.
        rows = ROWS[::2] if "SENNIT_TEST_SHORT" in os.environ else ROWS
        done = subprocess.run([sys.executable, f"{SOURCE}/bench/http/http.py", BUILD, "--quick",
                               "--what=" + ",".join(rows)],
                              capture_output=True, text=True, timeout=280, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        names = ["sennit"] + [name for name in ("Go", "hyper", "nginx")
                              if f"NOT COMPARED WITH {name}" not in done.stdout]
        lines = done.stdout.split("\n")
        for row in rows:
            self.assertIn(row, lines)
            for name in names:
                if (row, name) != ("db", "nginx"):
                    table = lines[lines.index(row):]
                    cells = [line for line in table[:2 + len(names)] if line.startswith(name + " ")]
                    self.assertEqual(cells[0].count(" to "), 4, done.stdout)

    def test_measures_a_ramp_of_connections(self):
        done = subprocess.run([sys.executable, f"{SOURCE}/bench/http/ramp.py", BUILD, "--rounds=1",
                               "--seconds=0.1", "--connections=4,300"],
                              capture_output=True, text=True, timeout=280, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        names = ["sennit"] + [name for name in ("Go", "hyper", "nginx")
                              if f"NOT COMPARED WITH {name}" not in done.stdout]
        for number in ("4", "300"):
            table = done.stdout.partition(f"\n{number} connections\n")[2]
            for name in names:
                row = next(line for line in table.splitlines() if line.startswith(f"| {name} |"))
                self.assertEqual(row.count(".."), 8, row)

    def test_measures_connections_at_rest(self):
        done = subprocess.run([sys.executable, f"{SOURCE}/bench/http/idle.py", BUILD, "--connections",
                               "20,30", "--rest", "0.1"],
                              capture_output=True, text=True, timeout=280, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [line.split()[:2] for line in done.stdout.splitlines()]
        self.assertIn(["sennit", "20"], rows)
        self.assertIn(["sennit", "30"], rows)


if __name__ == "__main__":
    if (not os.path.exists(os.path.join(BUILD, "examples/example-http-server")) or not shutil.which("wrk")
            or os.environ["SENNIT_SANITIZE"]):
        print("skipped: it needs wrk and example-http-server, without a sanitizer")
        sys.exit(77)
    unittest.main()
