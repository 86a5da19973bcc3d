#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The files and pages to which README.md, CONTRIBUTING.md and docs/ refer exist.

The glossary is in order, and each decision has the four parts.
"""
import os
import re
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
PAGES = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").rglob("*.md"))]
# A path in code, in which * stands for several.
PATH = re.compile(r"`((?:src|include|tests|models|bench|tools|docs|scripts|cmake|packaging)/[\w./*-]+)`")

# Programs below build/release, and Go's sources.
ELSEWHERE = re.compile(r"bench/bench-[\w-]+|tests/\w+/[\w-]+-test|src/runtime")


class Pages(unittest.TestCase):
    def test_paths_exist(self):
        seen = 0
        for page in PAGES:
            for path in PATH.findall(page.read_text(encoding="utf-8")):
                if ELSEWHERE.fullmatch(path):
                    continue
                seen += 1
                with self.subTest(page.name, path=path):
                    self.assertTrue(any(SOURCE.glob(path.rstrip("/"))), f"{page}: {path}")
        self.assertGreater(seen, 200)

    def test_links_between_pages_exist(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^):#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
                with self.subTest(page.name, target=target):
                    self.assertTrue((page.parent / target).exists(), f"{page}: {target}")

    def test_the_glossary_is_in_order(self):
        text = (SOURCE / "docs/glossary.md").read_text(encoding="utf-8")
        words = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][2:]
        self.assertGreater(len(words), 40)
        self.assertEqual(words, sorted(words, key=str.lower))

    def test_a_decision_has_its_parts(self):
        for page in sorted((SOURCE / "docs/design").glob("*.md")):
            with self.subTest(page.name):
                parts = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.M)
                self.assertEqual(parts, ["Context", "Decision", "Rejected", "Cost"])


if __name__ == "__main__":
    unittest.main()
