#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every name that a Python script uses is defined in it, imported or built in. Nothing else finds a
mistake in a line that runs only in a measurement of hours, or when something fails.

The scripts are those of the tree with the suffix .py or with python3 in the first line.
"""
import builtins
import os
import symtable
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
FOLDERS = ("bench", "docs", "fuzz", "models", "packaging", "scripts", "tests", "tools")
# Without an assignment.
ALWAYS = {*dir(builtins), "__file__", "__name__", "__doc__"}


def scripts():
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.suffix not in ("", ".py") or not path.is_file():
                continue
            with path.open("rb") as file:
                if path.suffix == ".py" or b"python3" in file.readline(100):
                    yield path


def tables(table):
    yield table
    for child in table.get_children():
        yield from tables(child)


def undefined(text, name):
    """The names that the script uses and does not define, each once."""
    every = list(tables(symtable.symtable(text, name, "exec")))
    # A function may assign what it has declared global.
    known = ALWAYS | {symbol.get_name() for table in every for symbol in table.get_symbols()
                      if (table.get_type() == "module" or symbol.is_declared_global())
                      and (symbol.is_assigned() or symbol.is_imported())}
    return sorted({symbol.get_name() for table in every for symbol in table.get_symbols()
                   if symbol.is_referenced() and symbol.get_name() not in known
                   and (symbol.is_global() or table.get_type() == "module")})


class Names(unittest.TestCase):
    def test_scripts_use_only_names_that_there_are(self):
        seen = 0
        for path in scripts():
            seen += 1
            with self.subTest(path.relative_to(SOURCE)):
                self.assertEqual(undefined(path.read_text(encoding="utf-8"), str(path)), [])
        self.assertGreater(seen, 100)

    def test_a_missing_name_is_found(self):
        text = "import os\n\ndef f(a):\n    b = [a for c in os.environ]\n    return b, {}\n"
        self.assertEqual(undefined(text.format("len"), "x"), [])
        self.assertEqual(undefined(text.format("d"), "x"), ["d"])
        self.assertEqual(undefined(text.format("f, c"), "x"), ["c"])
        self.assertEqual(undefined("print(e)\n", "x"), ["e"])


if __name__ == "__main__":
    unittest.main()
