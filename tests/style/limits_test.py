#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/limits.md: both tables have the same limits, and each test that it names exists.

Nothing uses inotify, as it says.
"""
import os
import re
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
PAGE = (SOURCE / "docs/limits.md").read_text(encoding="utf-8")
CELLS = 6
# folder/stem, or folder/stem/Suite.Case
TEST = re.compile(r"`([a-z]+)/(\w+)(?:/(\w+)\.(\w+))?`")
INOTIFY = re.compile(r"\binotify_(?:init1?|add_watch)\s*\(|SYS_inotify")


def table(part):
    """The rows of the table in this part of the page, without its head."""
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


WHAT, SHOWS = map(table, re.split(r"^## .*$", PAGE, flags=re.M)[1:])


class Limits(unittest.TestCase):
    def test_the_tables_have_the_same_limits(self):
        self.assertGreater(len(WHAT), 15)
        self.assertEqual([row[0] for row in WHAT], [row[0] for row in SHOWS])

    def test_each_row_is_complete(self):
        for row in WHAT + SHOWS:
            with self.subTest(row[0]):
                self.assertEqual(len(row), CELLS)
        for row in SHOWS:
            with self.subTest(row[0]):
                self.assertTrue(all(row), "a cell without a test says so")

    def test_the_tests_exist(self):
        seen = 0
        for row in SHOWS:
            for folder, stem, suite, case in TEST.findall(" ".join(row[1:])):
                seen += 1
                name = f"{folder}/{stem}/{suite}.{case}" if suite else f"{folder}/{stem}"
                with self.subTest(name):
                    files = list((SOURCE / "tests" / folder).glob(f"{stem}_test.*"))
                    self.assertEqual(len(files), 1, name)
                    if suite:
                        self.assertRegex(files[0].read_text(encoding="utf-8"),
                                         rf"TEST(?:_F|_P)?\({suite}, {case}[,)]")
        self.assertGreater(seen, 40)

    def test_nothing_uses_inotify(self):
        for folder in "src", "include", "tools/relay":
            for file in sorted((SOURCE / folder).rglob("*.[ch]*")):
                with self.subTest(str(file.relative_to(SOURCE))):
                    self.assertIsNone(INOTIFY.search(file.read_text(encoding="utf-8")))


if __name__ == "__main__":
    unittest.main()
