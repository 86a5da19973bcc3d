#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs that `make bench-wait` measures with work: the server under both policies, and in Go
where that is installed, alone and together with a second copy, for a moment each. The test asserts
no figures. The programs themselves check that each answer is right.
"""
import os
import re
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
SHORT = ["--runs=1", "--seconds=0.1", "--no-benchstat"]


def bench(*arguments, environment=None):
    return subprocess.run([sys.executable, f"{SOURCE}/bench/wait/wait.py", BUILD, *arguments],
                          capture_output=True, text=True, timeout=100, check=False,
                          env=environment or os.environ)


class Bench(unittest.TestCase):
    def test_measures_each_program_at_each_level(self):
        # If the machine stalls for a tenth of a second, there is nothing to measure, so each try is
        # longer.
        for seconds in "0.1", "0.5", "2":
            done = bench(*SHORT, "--seconds=" + seconds, "--levels=none,copy")
            self.assertEqual(done.returncode, 0, done.stderr)
            head = re.search(r"\| level \| latency \|.*", done.stdout).group()
            # Beside spinning and the policy there may be Go. Each has a rate at each level.
            cells = 2 * (3 if "Go" in head else 2)
            if len(re.findall(r"\| [1-9][0-9,]* requests/s", done.stdout)) == cells:
                break
        self.assertEqual("Go, GOGC=10" in head, "NOT COMPARED WITH Go" not in done.stdout, done.stdout)
        for level in ("none", "copy"):
            for quantile in ("50", "95", "99", "99.9"):
                row = re.search(rf"^\| {level} \| Latency-{quantile} \|(.*)$", done.stdout, re.M)
                self.assertTrue(row, done.stdout)
                self.assertEqual(row.group(1).count("|"), head.count("|") - 3, done.stdout)
            self.assertRegex(done.stdout, rf"\| {level} \| [1-9][0-9,]* requests/s .* collections/s")
        for name in ("policy", "spin"):
            with open(f"{BUILD}/bench/wait/{name}.txt", encoding="utf-8") as file:
                self.assertRegex(file.read(), r"\ABenchmarkHTTP/level=none [1-9].* p999-ns .*\n"
                                              r"BenchmarkHTTP/level=copy [1-9].* p999-ns .*\n\Z")

    def test_prints_the_histograms(self):
        done = bench("--seconds=0.2", "--levels=none", "--histograms")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| none, spinning | none, policy |", done.stdout)
        for site in ("scan", "scan owner", "lease"):
            cell = r" (none|[1-9][0-9]*: .*, longest .*, [0-9]+ slept) \|"
            self.assertRegex(done.stdout, rf"(?m)^\| {site} \|{cell}{cell}$")

    def test_rejects_an_unknown_level(self):
        done = bench("--levels=none,nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown level nonsense", done.stderr)

    def test_reports_that_go_is_missing(self):
        folder = os.path.join(BUILD, "tests/wait/no-peers")
        os.makedirs(folder, exist_ok=True)
        done = bench(*SHORT, "--levels=none", environment={**os.environ, "PATH": folder})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("NOT COMPARED WITH Go: there is no go", done.stdout)


if __name__ == "__main__":
    unittest.main()
