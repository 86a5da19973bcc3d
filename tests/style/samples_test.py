#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every C and C++ sample of README.md and docs/*.md compiles, and the README's programs work.

A sample is a fenced block, ```c or ```cpp. One with an #include is compiled as it is. Any other is
a part of a program: an HTML comment right above it, <!-- with: ... -->, may declare what it uses,
and a sample without a function of its own is compiled as the body of one. With SENNIT_TEST_SHORT,
samples in C++ need not compile alone, but may use what another of them includes.
"""
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_port  # noqa: E402

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
BUILD = Path(os.environ["SENNIT_BUILD_DIR"])
FLAGS = shlex.split(os.environ.get("CFLAGS", ""))
LAUNCHER = shlex.split(os.environ.get("SENNIT_LAUNCHER", ""))
COMPILE = {
    "c": [os.environ["CC"], "-std=gnu11"],
    "cpp": [os.environ["CXX"], "-std=c++20"],
}
SHORT = "SENNIT_TEST_SHORT" in os.environ
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
# Parts of programs may leave variables unused.
PART_WARNINGS = ["-Wno-unused-function", "-Wno-unused-variable", "-Wno-unused-parameter",
                 "-Wno-unused-but-set-variable"]

PRELUDE = {
    "c": """
#include <errno.h>
#include <pthread.h>
#include <sennit/sennit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
""",
    "cpp": """
#include <csignal>
#include <cstdio>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <string>
#include <thread>
#include <vector>
using namespace std::chrono_literals;
""",
}

SAMPLE = re.compile(
    r"(?:^<!-- with:(?P<context>(?:(?!-->).)*)-->\n\n?)?"
    r"^(?P<indent> *)```(?P<language>c|cpp)\n(?P<code>.*?)^(?P=indent)```$",
    re.M | re.S,
)
INCLUDE = re.compile(r"^#include .*$", re.M)
# A function has its opening brace in the first column.
FUNCTION = re.compile(r"^[a-z][^;\n]*\)[^;\n]*\n\{", re.M)


def samples(path):
    """Each sample of a document: its line, its language, and what to compile."""
    text = path.read_text(encoding="utf-8")
    for match in SAMPLE.finditer(text):
        language, code = match["language"], match["code"]
        code = re.sub("^" + match["indent"], "", code, flags=re.M)
        line = text.count("\n", 0, match.start("code")) + 1
        whole = "#include" in code
        if not whole:
            placed = f'#line {line} "{path}"\n{code}'
            if not FUNCTION.search(code):
                placed = f"int sample(void *arg)\n{{\n{placed}\nreturn 0;\n}}\n"
            code = (match["context"] or "") + "\n" + placed
        yield line, language, code, whole


class Samples(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)

    def compile(self, name, language, code, *flags):
        source = self.scratch / f"{name}.{language}"
        source.write_text(code, encoding="utf-8")
        return subprocess.run(
            [*COMPILE[language], *FLAGS, *WARNINGS, f"-I{SOURCE}/include", str(source), *flags],
            capture_output=True, text=True, check=False,
        )

    def program(self, language, code):
        result = self.compile("program", language, code, f"{BUILD}/src/libsennit.a", "-pthread",
                              "-o", str(self.scratch / "program"))
        self.assertEqual(result.returncode, 0, result.stderr)
        return [*LAUNCHER, str(self.scratch / "program")]

    def has(self, header):
        return self.compile("has", "c", f"#include {header}\n", "-fsyntax-only").returncode == 0

    def readme(self, language):
        return [code for _, found, code, _ in samples(SOURCE / "README.md") if found == language]

    def test_all_compile(self):
        found = [
            (path, *sample)
            for path in [SOURCE / "README.md", *sorted(SOURCE.glob("docs/*.md"))]
            for sample in samples(path)
        ]
        self.assertGreater(len(found), 2)

        def try_one(numbered):
            number, (path, line, language, code, whole) = numbered
            if "<gc/gc.h>" in code and not self.has("<gc/gc.h>"):
                return None
            result = self.compile(f"sample{number}", language,
                                  code if whole else PRELUDE[language] + code, "-fsyntax-only",
                                  *([] if whole else PART_WARNINGS))
            return result.returncode and f"{path}:{line}: does not compile\n{result.stderr}"

        # Reading the headers of C++ takes a second for each sample. The parts in C++ are therefore
        # compiled together first, in a namespace each, and alone only if that fails.
        parts = [each for each in found if each[2] == "cpp" and (SHORT or not each[4])]
        includes = "".join(line + "\n" for each in parts for line in INCLUDE.findall(each[3]))
        together = self.compile("parts", "cpp", PRELUDE["cpp"] + includes + "".join(
            f"namespace part{number}\n{{\n{INCLUDE.sub('', code)}\n}}\n"
            for number, (_, _, _, code, _) in enumerate(parts)), "-fsyntax-only", *PART_WARNINGS)
        if together.returncode == 0:
            found = [each for each in found if each not in parts]

        with ThreadPoolExecutor(2) as pool:
            bad = [each for each in pool.map(try_one, enumerate(found)) if each]
        self.assertFalse(bad, "\n".join(map(str, bad)))

    def test_the_program_in_c_counts(self):
        (code,) = self.readme("c")
        result = subprocess.run(self.program("c", code), capture_output=True, text=True, timeout=120,
                                check=True)
        lines = result.stdout.splitlines()
        for name in ("first", "other"):
            self.assertEqual([each for each in lines if each.startswith(name)],
                             [f"{name} {i}" for i in (1, 2, 3)])
        self.assertEqual(len(lines), 6)

    def test_the_program_in_cpp_echoes(self):
        (code,) = self.readme("cpp")
        self.assertIn("127.0.0.1:7000", code)
        # A free port, because another test may use the sample's.
        port = free_port()
        program = self.program("cpp", code.replace("127.0.0.1:7000", f"127.0.0.1:{port}"))
        with subprocess.Popen(program) as server:
            try:
                while True:
                    self.assertIsNone(server.poll(), "the server has ended")
                    try:
                        peer = socket.create_connection(("127.0.0.1", port), 60)
                        break
                    except ConnectionRefusedError:
                        time.sleep(0.02)  # tried again until the test's time limit
                with peer:
                    peer.sendall(b"hello")
                    peer.shutdown(socket.SHUT_WR)
                    said = b""
                    while piece := peer.recv(100):
                        said += piece
                    self.assertEqual(said, b"hello")
            finally:
                server.kill()


if __name__ == "__main__":
    sys.exit(unittest.main())
