#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/settings.md lists every environment variable that the source reads, and no other. Where the
source gives the range as numbers, the row has the same range. run.h lists those that a run reads.
"""
import os
import re
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
# The shell's own variables, by which programs are found and started.
OTHERS = {"PATH", "LD_PRELOAD"}


def sources():
    for folder in ("src", "tools/relay", "tools/trace", "tools/lock-check", "tools/clock-preload",
                   "tools/run"):
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cc", ".hpp"):
                # Macros and constants that stand for a name or a number are replaced below.
                yield path.read_text(encoding="utf-8")


def read_by_the_source():
    found = set()
    for text in sources():
        found |= set(re.findall(r'getenv\("(\w+)"\)', text))
        found |= set(re.findall(r'\bsn_environment_\w+\("(\w+)"', text))
        found |= set(re.findall(r'\bfrom_environment\("(\w+)"', text))
        found |= set(re.findall(r'_variable = "(\w+)"', text))
        # Read by a helper, such as take_variable("LISTEN_FDS").
        found |= set(re.findall(r'"(SENNIT_[A-Z_]+|LISTEN_[A-Z]+|NOTIFY_SOCKET)"', text))
    return found - OTHERS


def rows():
    """Name to values, default and effect."""
    text = (SOURCE / "docs/settings.md").read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.fullmatch(r"`([A-Z_]+)`", cells[0])
        if line.startswith("|") and name:
            found[name[1]] = cells[1:]
    return found


class Settings(unittest.TestCase):
    def test_each_has_a_row(self):
        found = read_by_the_source()
        self.assertGreater(len(found), 30)
        self.assertEqual(sorted(rows()), sorted(found))

    def test_the_ranges_are_those_of_the_source(self):
        table, compared = rows(), 0
        for text in sources():
            numbers = dict(re.findall(r"#define (\w+) (\d+)\b", text))
            for name, low, high, default in re.findall(
                    r'sn_environment_number\("(\w+)", (\w+), (\w+), (\w+)\)', text):
                values = table[name]
                low, high, default = (int(numbers.get(word, word)) if (word.isdigit()
                                      or word in numbers) else None
                                      for word in (low, high, default))
                if low is not None and high is not None:
                    compared += 1
                    self.assertEqual(values[0], "0 or 1" if high == 1 else f"{low:,} to {high:,}",
                                     name)
                if default is not None and name != "SENNIT_PROCS":
                    self.assertEqual(values[1], f"{default:,}", name)
        self.assertGreater(compared, 8)

    def test_those_of_a_run_are_in_its_header(self):
        header = (SOURCE / "include/sennit/run.h").read_text(encoding="utf-8")
        named = set(re.findall(r"\bSENNIT_[A-Z_]+\b", header))
        text = (SOURCE / "docs/settings.md").read_text(encoding="utf-8")
        runs = set(re.findall(r"`(SENNIT_\w+)`", text[:text.index("## Copying and hooks")]))
        self.assertEqual(sorted(runs - named), [])


if __name__ == "__main__":
    unittest.main()
