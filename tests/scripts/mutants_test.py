#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/mutants: a run that is interrupted is continued where it was, without its compilers and
test programs, for which the test stands in.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(os.environ["SENNIT_SOURCE_DIR"], "scripts/mutants")
loader = importlib.machinery.SourceFileLoader("mutants", str(SCRIPT))
mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
loader.exec_module(mutants)
mutant_log = mutants.mutant_log
UNIT = mutants.Unit("sync/mutex", "-")


class Build:
    """Line 2 does not compile; line 4 has the object code of line 3."""

    def __init__(self, path):
        self.path = path

    def changed(self):
        lines = self.path.read_text(encoding="ascii").splitlines()
        return next((i for i, line in enumerate(lines, 1) if line == "new"), 0)

    def make(self, _):
        return "an error" if self.changed() == 2 else None

    def hash_objects(self):
        return f"objects {3 if self.changed() == 4 else self.changed()}"


class Tests:
    """They notice odd lines, and are interrupted at one, once."""

    def __init__(self, build, interrupted=0):
        self.build, self.interrupted = build, interrupted
        self.kills, self.tried = mutants.collections.Counter(), []

    def kill(self, _):
        line = self.build.changed()
        self.tried.append(line)
        if line == self.interrupted:
            raise KeyboardInterrupt
        return (UNIT, "Mutex.Locks") if line % 2 else None


class Mutants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        mutants.TREE = folder.name
        self.source = self.folder / "a.c"
        self.source.write_text("old\n" * 9, encoding="ascii")
        self.candidates = [mutants.Mutant("a.c", line, "old\n", "new\n") for line in range(1, 10)]
        self.results = self.folder / "results"

    def run_with(self, log, interrupted=0, most=0):
        build = Build(self.source)
        tests = Tests(build, interrupted)
        trial = mutants.Trial(log, build, tests)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(KeyboardInterrupt):
            trial.run(self.candidates, most)
        self.assertEqual(build.changed(), 0)
        return trial, tests

    def new_log(self):
        return mutant_log.Log(self.results, ["--seed=1"], "digest")

    def test_a_run_is_continued_after_any_mutant(self):
        whole, tests = self.run_with(self.new_log())
        self.assertEqual(tests.tried, [1, 3, 5, 6, 7, 8, 9])
        self.assertEqual([each.line for each in whole.survivors], [6, 8])
        self.assertEqual((whole.count["uncompiled"], whole.count["same"]), (1, 1))
        for line in tests.tried:
            self.run_with(self.new_log(), interrupted=line)
            trial, again = self.run_with(mutant_log.resume(self.results, "digest"))
            self.assertEqual(again.tried, tests.tried[tests.tried.index(line):])
            self.assertEqual((trial.count, trial.survivors), (whole.count, whole.survivors))
            self.assertEqual(again.kills, tests.kills)

    def test_a_sample_that_is_continued_is_no_larger(self):
        self.run_with(self.new_log(), interrupted=5, most=4)
        trial, tests = self.run_with(mutant_log.resume(self.results, "digest"), most=4)
        self.assertEqual((tests.tried, trial.count["tried"]), ([5, 6], 4))

    def test_a_line_that_was_cut_off_is_not_a_result(self):
        self.run_with(self.new_log())
        text = self.results.read_text(encoding="utf-8")
        self.results.write_text(text[:-5], encoding="utf-8")
        _, tests = self.run_with(mutant_log.resume(self.results, "digest"))
        self.assertEqual(tests.tried, [9])
        self.assertEqual(self.results.read_text(encoding="utf-8"), text)

    def test_only_the_same_sources_are_continued(self):
        self.new_log()
        with self.assertRaisesRegex(mutant_log.Broken, "have changed"):
            mutant_log.resume(self.results, "another")
        digest = mutant_log.digest_of([self.folder])
        self.assertEqual(mutant_log.digest_of([self.folder]), digest)
        self.source.write_text("new", encoding="ascii")
        self.assertNotEqual(mutant_log.digest_of([self.folder]), digest)

    def test_what_is_no_log_is_said(self):
        for text in None, "", "{}\n", "[1]\n", "no JSON\n":
            if text is not None:
                self.results.write_text(text, encoding="ascii")
            with self.assertRaisesRegex(mutant_log.Broken, "no run to continue"):
                mutant_log.options_of(self.results)

    def test_the_options_are_those_of_the_run(self):
        options = ["--layer", "src/sched", "--seed=7"]
        mutant_log.Log(self.results, options, "digest")
        self.assertEqual(mutant_log.options_of(self.results), options)
        self.assertEqual(mutants.parse(options).seed, 7)
        self.assertEqual(json.loads(self.results.read_text(encoding="utf-8"))["sources"], "digest")


if __name__ == "__main__":
    unittest.main()
