#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make test-of finds the tests of a file: tests/coverage.txt names files and tests that exist.

When a file moves, it has to be renamed there, too. A new file is missing until scripts/test-of
--make.
"""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])


def ask(*words, path=os.environ["PATH"]):
    return subprocess.run([SOURCE / "scripts/test-of", *words], cwd=SOURCE, capture_output=True,
                          text=True, check=False, env=dict(os.environ, PATH=path))


def table():
    lines = (SOURCE / "tests/coverage.txt").read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


class TestOf(unittest.TestCase):
    def test_what_it_names_exists(self):
        self.assertGreater(len(table()), 200)
        for file, share, *programs in table():
            self.assertTrue((SOURCE / file).exists(), f"{file} is gone: tests/coverage.txt")
            self.assertRegex(share, r"^\d+%$")
            for program in programs:
                name, _, part = program.partition(":")
                self.assertTrue(part.isdigit(), program)
                # Some folders list the sources of their programs in CMakeLists.txt.
                self.assertTrue((SOURCE / f"tests/{name}_test.cc").exists()
                                or (SOURCE / f"tests/{name}.cc").exists()
                                or name.split("/")[1] in
                                (SOURCE / f"tests/{name.split('/')[0]}/CMakeLists.txt").read_text(
                                    encoding="utf-8"), f"{file}: {name}")

    def test_most_files_have_a_test(self):
        lines = [line for line in table() if line[0].endswith(".c")]
        self.assertGreater(sum(len(line) > 2 for line in lines), 0.9 * len(lines))

    def test_it_lists_the_tests_of_a_file(self):
        done = ask("--list", "src/sched/wake.c")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^src/sched/wake.c: \d+% of its lines are run by tests\n")
        self.assertRegex(done.stdout, r"\n +\d+%  \w+/\w+\n")

    def test_it_prefers_programs_of_the_files_layer(self):
        self.assertIn("stack/stack", ask("--list", "src/stack/stack_cool.c").stdout)

    def test_it_names_scripts_where_programs_run_few_lines(self):
        for file, expected in (("src/clock/clock.c", True), ("src/wait/site.c", False)):
            done = ask("--list", file)
            self.assertEqual("scripts/run-tests run test-of release --match '^clock/'\n"
                             in done.stdout, expected, done.stdout)

    def test_it_says_what_is_wrong(self):
        for words, why in (((), "no file"), (("src/nothing.c",), "scripts/test-of --make")):
            done = ask(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_it_says_that_the_build_has_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder) / "cmake"
            broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
            broken.chmod(0o755)
            done = ask("src/sched/wake.c", path=f"{folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "test-of: src/sched/wake.c: the build of its tests has "
                                      "failed (see above): none has run\n")


if __name__ == "__main__":
    unittest.main()
