#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The C++ headers add nothing to the global namespace, except for sn.hpp, which adds `sn`.

Outside of all braces, a header has only `namespace sennit` and specializations of templates of std.
Its macros begin with SENNIT_.
"""
import os
import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

INCLUDE = Path(os.environ["SENNIT_SOURCE_DIR"]) / "include"
HEADERS = sorted((INCLUDE / "sennit").glob("*.hpp"))
COMPILE = [os.environ["CXX"], *shlex.split(os.environ.get("CFLAGS", "")), "-std=c++20",
           f"-I{INCLUDE}", "-xc++"]

MARKER = re.compile(r'# \d+ "([^"]*)"')
ALLOWED = re.compile(r"namespace sennit(::\w+)*|template <[^{}]*> ?struct std::.*|;?")


def compiler(code, *flags):
    return subprocess.run([*COMPILE, *flags, "-"], input=code, text=True, check=False,
                          capture_output=True)


def outermost(text):
    """The text outside of all braces, in pieces, each of which ends with a block or a semicolon."""
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    depth, piece, pieces = 0, "", []
    for char in text:
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif depth == 0:
            piece += char
        if depth == 0 and char in ";}":
            pieces.append(" ".join(piece.split()))
            piece = ""
    return [each for each in pieces if each]


def own_texts():
    """For each header, its own preprocessed lines, and the macros that it defines."""
    result = compiler("".join(f"#include <sennit/{each.name}>\n" for each in HEADERS), "-E", "-dD")
    assert result.returncode == 0, result.stderr
    lines = {str(header): [] for header in HEADERS}
    macros = {str(header): [] for header in HEADERS}
    file = None
    for line in result.stdout.splitlines():
        if marker := MARKER.match(line):
            file = marker[1]
        elif file in lines and line.startswith("#define "):
            macros[file].append(re.match(r"#define (\w+)", line)[1])
        elif file in lines and not line.startswith("#"):
            lines[file].append(line)
    return [(header.name, "\n".join(lines[str(header)]), macros[str(header)])
            for header in HEADERS]


class Namespace(unittest.TestCase):
    def test_headers_declare_their_names_in_sennit(self):
        self.assertGreater(len(HEADERS), 10)
        for name, text, macros in own_texts():
            with self.subTest(name):
                bad = [each for each in outermost(text) if not ALLOWED.fullmatch(each)]
                self.assertEqual(bad, ["namespace sn = sennit;"] if name == "sn.hpp" else [])
                self.assertTrue(text or name == "sennit.hpp", "the search has found nothing")
                self.assertEqual([m for m in macros if not m.startswith("SENNIT_")], [])

    def test_sn_is_the_programs_own_name(self):
        every = "".join(f"#include <sennit/{each.name}>\n" for each in HEADERS
                        if each.name != "sn.hpp")
        result = compiler(every + "int sn;\nint stream, result, task, channel;\n", "-fsyntax-only")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_sn_is_sennit_on_request(self):
        code = "#include <sennit/clock.hpp>\n#include <sennit/sn.hpp>\nsn::clock::time_point now;\n"
        result = compiler(code, "-fsyntax-only")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
