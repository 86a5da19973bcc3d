#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: gate
"""
scripts/run-tests with planted tests: in a folder of their own, whose build is one GoogleTest program
and some shell commands.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SOURCES = pathlib.Path(os.environ["SENNIT_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["SENNIT_BUILD_DIR"])
SECONDS = 3  # seconds that a planted test may take

PROGRAM = r"""
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

static bool is_first_time(const char *name)
{
	return open(name, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0;
}

TEST(Planted, Passes) {}
TEST(Planted, FailsTheFirstTime) { EXPECT_FALSE(is_first_time("failed-once")) << "marked"; }
TEST(Planted, Fails) { EXPECT_EQ(1, 2); }
TEST(Planted, Skips) { GTEST_SKIP() << "why"; }
TEST(Planted, Dies) { abort(); }
TEST(Planted, PassesBehindADeath) {}
TEST(Planted, Hangs) { pause(); }
TEST(Planted, HangsTheFirstTime)
{
	if (is_first_time("hung-also"))
		pause();
}
TEST(Planted, PassesBehindAHang) {}
TEST(Planted, CountsProcesses)
{
	FILE *file = fopen("processes", "a");
	fprintf(file, "%d\n", getpid());
	fclose(file);
}
TEST(Planted, CountsTheSame)
{
	FILE *file = fopen("processes", "a");
	fprintf(file, "%d\n", getpid());
	fclose(file);
}
TEST(Planted, HasDefaultActions)
{
	for (int each : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
		struct sigaction action;

		sigaction(each, nullptr, &action);
		EXPECT_EQ(action.sa_handler, SIG_DFL) << each;
	}
}
TEST(Exit, Passes)
{
	atexit([] { _exit(7); });
}
"""

PRESETS = {
    "version": 6,
    "configurePresets": [{"name": "planted", "generator": "Ninja",
                          "binaryDir": "${sourceDir}/build/planted"}],
    "testPresets": [{"name": "planted", "configurePreset": "planted",
                     "environment": {"PLANTED": "here"}}],
}


def ends(pid):
    """Whether the process ends. A process that was killed may still need the CPU for that."""
    state = pathlib.Path(f"/proc/{pid}/stat")
    for _ in range(1000):
        try:
            if ") Z " in state.read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


class RunTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.made = pathlib.Path(cls.scratch.name) / "made"
        subprocess.run(
            [*os.environ["CXX"].split(), "-x", "c++", "-std=c++17", "-o", cls.made, "-",
             "-I/usr/src/googletest/googletest/include", f"-L{BUILD}/lib", "-lgtest_main", "-lgtest",
             "-lpthread"], input=PROGRAM.encode(), check=True)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "build" / "planted").mkdir(parents=True)
        (self.root / "CMakePresets.json").write_text(json.dumps(PRESETS))
        (self.root / "scripts").mkdir()
        shutil.copy(SOURCES / "scripts" / "run-tests", self.root / "scripts")
        shutil.copytree(SOURCES / "scripts" / "testing", self.root / "scripts" / "testing")
        self.listed = ""

    def add(self, name, *command, **properties):
        words = {"TIMEOUT": SECONDS, "WORKING_DIRECTORY": self.root, **properties}
        self.listed += f"add_test([=[{name}]=] {' '.join(f'[=[{word}]=]' for word in command)})\n"
        for key, value in words.items():
            self.listed += f"set_tests_properties([=[{name}]=] PROPERTIES {key} [=[{value}]=])\n"
        (self.root / "build" / "planted" / "CTestTestfile.cmake").write_text(self.listed)

    def add_cases(self, *names, **properties):
        for name in names:
            suite = "Exit" if name.startswith("Exit.") else "Planted"
            case = f"{suite}.{name.removeprefix('Exit.')}"
            self.add(f"layer/stem/{case}", self.made, f"--gtest_filter={case}", **properties)

    def play(self, *words):
        done = subprocess.run([self.root / "scripts" / "run-tests", *words], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        self.said = done.stdout
        return done.returncode

    def run_part(self, status):
        self.assertEqual(self.play("run", "planted", "planted", "--jobs", "2"), status, self.said)
        read = json.loads((self.root / "build" / "planted-results.json").read_text())
        return {each["name"].removeprefix("layer/stem/Planted."): each for each in read["results"]}

    def confirm(self, status):
        self.assertEqual(self.play("confirm", "planted"), status, self.said)
        self.listing = (self.root / "build" / "confirmed.txt").read_text()
        return (self.root / "build" / "confirmed-count").read_text().split()

    def test_cases_share_a_process(self):
        self.add_cases("CountsProcesses", "CountsTheSame")
        self.run_part(0)
        first, second = (self.root / "processes").read_text().split()
        self.assertEqual(first, second)
        self.assertEqual((self.root / "build" / "planted-count").read_text().split(), ["2", "0", "0"])

    def test_the_label_gives_a_case_its_own(self):
        self.add_cases("CountsProcesses", "Passes")
        self.add_cases("CountsTheSame", LABELS="own-process")
        self.run_part(0)
        first, second = (self.root / "processes").read_text().split()
        self.assertNotEqual(first, second)

    def test_signals_that_were_ignored_are_not_in_a_test(self):
        self.add_cases("HasDefaultActions")
        former = {each: signal.signal(each, signal.SIG_IGN)
                  for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)}
        try:
            self.run_part(0)
        finally:
            for each, action in former.items():
                signal.signal(each, action)

    def test_one_that_fails_once_is_flaky(self):
        self.add_cases("Passes", "FailsTheFirstTime")
        results = self.run_part(1)
        self.assertEqual(results["FailsTheFirstTime"]["how"], "failed")
        self.assertEqual(self.confirm(0), ["1", "0"])
        self.assertIn("flaky: planted: layer/stem/Planted.FailsTheFirstTime (failed, load ",
                      self.listing)
        self.assertIn("marked", self.listing)

    def test_one_that_always_fails_has_failed(self):
        self.add_cases("Passes", "Fails", "Skips")
        results = self.run_part(1)
        self.assertEqual([results[name]["how"] for name in ("Passes", "Fails", "Skips")],
                         ["passed", "failed", "skipped"])
        self.assertEqual(self.confirm(1), ["0", "1"])
        self.assertIn("failed: planted: layer/stem/Planted.Fails", self.listing)
        self.assertNotIn("Passes", self.listing)

    def test_a_death_costs_its_case_only(self):
        self.add_cases("Passes", "Fails", "Dies", "PassesBehindADeath", "Skips")
        results = self.run_part(1)
        self.assertEqual(results["Dies"]["why"], "SIGABRT")
        self.assertEqual(results["Fails"]["why"], "failed")
        self.assertEqual([results[name]["how"] for name in ("Passes", "PassesBehindADeath", "Skips")],
                         ["passed", "passed", "skipped"])
        self.assertEqual(self.confirm(1), ["0", "2"])

    def test_a_hang_costs_its_time_once(self):
        self.add_cases("Passes", "Hangs", "PassesBehindAHang")
        begin = time.monotonic()
        results = self.run_part(1)
        took = time.monotonic() - begin
        self.assertEqual(results["Hangs"]["why"], "hangs")
        self.assertEqual(results["PassesBehindAHang"]["how"], "passed")
        self.assertGreaterEqual(took, SECONDS)
        self.assertIn("pause", results["Hangs"]["output"])
        self.assertEqual(self.confirm(1), ["0", "1"])

    def test_a_hang_can_be_flaky(self):
        self.add_cases("HangsTheFirstTime")
        self.run_part(1)
        self.assertEqual(self.confirm(0), ["1", "0"])

    def test_a_process_that_fails_at_its_end(self):
        self.add_cases("Exit.Passes", "Passes")
        results = self.run_part(1)
        # The case also fails in a process of its own.
        self.assertEqual(results["layer/stem/Exit.Passes"]["why"], "exit status 7")
        self.assertEqual(results["Passes"]["how"], "passed")

    def test_commands(self):
        self.add("layer/passes", "sh", "-c", 'test "$PLANTED$OTHER" = heretoo', ENVIRONMENT="OTHER=too")
        self.add("layer/fails", "sh", "-c", "echo said; exit 3")
        self.add("layer/skips", "sh", "-c", "exit 77", SKIP_RETURN_CODE=77)
        self.add("layer/does_not_skip", "sh", "-c", "exit 77")
        self.add("layer/is_off", "sh", "-c", "exit 1", DISABLED="TRUE")
        self.add("layer/leaves", "sh", "-c", "sleep 1000 & echo $! >left", RUN_SERIAL="TRUE")
        results = self.run_part(1)
        self.assertEqual({name: each["how"] for name, each in results.items()},
                         {"layer/passes": "passed", "layer/fails": "failed", "layer/skips": "skipped",
                          "layer/does_not_skip": "failed", "layer/leaves": "passed"})
        self.assertEqual(results["layer/fails"]["why"], "exit status 3")
        self.assertEqual(results["layer/fails"]["output"], "said\n")
        left = int((self.root / "left").read_text())
        self.assertTrue(ends(left), "it is ended, too")

    def test_nothing_to_run(self):
        self.add_cases("Passes")
        self.assertEqual(self.play("run", "planted", "planted", "--match", "nothing"), 2)
        self.assertIn("no test of planted is selected", self.said)

    def test_a_flaky_one_is_repeated(self):
        self.add_cases("Passes", "Fails")
        self.assertEqual(self.play("flaky", "planted", "layer/stem/Planted.Passes", "--rounds", "3",
                                   "--busy", "1"), 0)
        self.assertIn("passed 3 times beside 1 busy processes", self.said)
        self.assertEqual(self.play("flaky", "planted", "layer/stem/Planted.Fails", "--busy", "1"), 1)
        self.assertIn("Planted.Fails: exit status 1 in round 1 of 100", self.said)
        self.assertEqual(self.play("flaky", "planted", "nonsense"), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
