#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/kernels.md has a row for each feature that sn_kernel_report() prints, and no other.

`sennit-relay --version --verbose` prints the report. A row names the version of the kernel and the
mechanisms that the source has for the feature. Without the vDSO, the report says so.
"""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
BUILD = Path(os.environ["SENNIT_BUILD_DIR"])
LAUNCHER = os.environ.get("SENNIT_LAUNCHER", "").split()
RELAY = BUILD / "tools/relay/sennit-relay"


def features():
    """Name to (version or "", mechanisms), from the table in the source."""
    text = (SOURCE / "src/debug/kernel.c").read_text(encoding="utf-8")
    table = text[text.index("features[] = {"):]
    found = {}
    for name, since, ways in re.findall(r'\{"([^"]+)",\s*(NULL|"[^"]+"),\s*\{([^}]+)\}', table):
        first, ways = since.strip('"'), re.findall(r'"([^"]+)"', ways)
        found.setdefault(name, ("" if since == "NULL" else first, ways))
    return found


def rows():
    """Name to the row's other cells, from the first table of the document."""
    text = (SOURCE / "docs/kernels.md").read_text(encoding="utf-8")
    table = text[text.index("| feature |"):].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {line[0]: line[1:] for line in cells}


class Kernels(unittest.TestCase):
    def report(self, *launcher):
        return subprocess.run([*launcher, RELAY, "--version", "--verbose"], capture_output=True,
                              text=True, check=True).stdout

    def test_each_feature_has_a_row_with_its_ways(self):
        table, source = rows(), features()
        self.assertGreater(len(source), 10)
        self.assertEqual(list(table), list(source))
        for name, (since, ways) in source.items():
            self.assertEqual(table[name][0], since or "any", name)
            cells = " ".join(table[name])
            for way in ways:
                self.assertIn(way, cells.replace("`", ""), name)

    def test_the_command_prints_each_feature(self):
        if not RELAY.exists():
            self.skipTest("there is no relay in this build")
        lines = self.report(*LAUNCHER).splitlines()
        self.assertRegex(lines[0], r"^sennit-relay \d")
        self.assertRegex(lines[1], r"^kernel: Linux ")
        printed = [line.split(": ")[0] for line in lines[2:]]
        # Only the checked build checks calls.
        self.assertEqual([name for name in features() if name != "calls that may wait"],
                         [name for name in printed if name != "calls that may wait"])

    def test_verbose_is_only_for_the_version(self):
        if not RELAY.exists():
            self.skipTest("there is no relay in this build")
        result = subprocess.run([*LAUNCHER, RELAY, "--verbose"], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--verbose", result.stderr)
        self.assertEqual(self.report_without_verbose().count("\n"), 1)

    def report_without_verbose(self):
        return subprocess.run([*LAUNCHER, RELAY, "--version"], capture_output=True, text=True,
                              check=True).stdout

    def test_a_hidden_vdso_is_reported(self):
        without_vdso = BUILD / "tests/clock/without-vdso"
        if not RELAY.exists() or not without_vdso.exists() or os.environ.get("SENNIT_SANITIZE"):
            self.skipTest("needs the relay, and a program that traces it")
        text = self.report(without_vdso)
        self.assertIn("\nclocks: system calls instead of vDSO (Linux 2.6)\n", text)
        self.assertIn("\nticks: system calls instead of counter (Linux 4.14)\n", text)
        self.assertIn("\nrandom bytes: getrandom() instead of vDSO (Linux 6.11)\n", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
