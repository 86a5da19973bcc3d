#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sennit-trace as a user runs it: its output, its messages, its exit status, and its time limits.

The traces are the fuzzer's seeds, and a large one.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from documented import undocumented  # noqa: E402

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
LAUNCHER = shlex.split(os.environ.get("SENNIT_LAUNCHER", ""))
PROGRAM = Path(os.environ["SENNIT_BUILD_DIR"]) / "tools/trace/sennit-trace"
SEEDS = SOURCE / "fuzz/trace/seeds/trace"
REQUEST = str(SEEDS / "request")


def run(*args, data=None):
    return subprocess.run([*LAUNCHER, str(PROGRAM), *args], input=data, capture_output=True,
                          check=False)


class Command(unittest.TestCase):
    def answer(self, *args):
        """The program's output, decoded."""
        done = run(*args)
        self.assertEqual(b"", done.stderr)
        self.assertEqual(0, done.returncode)
        return done.stdout.decode()

    def refuse(self, status, text, *args, data=None):
        done = run(*args, data=data)
        self.assertEqual(status, done.returncode, done.stderr)
        self.assertIn(text, done.stderr.decode())
        self.assertEqual(1, done.stderr.count(b"\n"), done.stderr)
        return done.stdout

    def test_the_summary_names_who_waited_and_who_ran(self):
        text = self.answer(REQUEST)
        self.assertIn("server, process 4321: 14.0 ms", text)
        self.assertRegex(text, r"1\.000 +8\.00 ms +session 17 +the network +hog 9 7\.99 ms")
        self.assertRegex(text, r"1\.00 ms +1 +1\.00 ms +9\.500 +1 +session +lock +a mutex")

    def test_lines_fit_and_have_no_control_characters(self):
        for seed in sorted(SEEDS.iterdir()):
            for line in self.answer(str(seed)).splitlines():
                self.assertLessEqual(len(line), 100, line)
                self.assertTrue(line.replace("µ", "u").replace("…", ".").isascii())
                self.assertTrue(line.isprintable() or not line, line)

    def test_standard_input_is_read(self):
        done = run("-", data=Path(REQUEST).read_bytes())
        self.assertEqual(self.answer(REQUEST), done.stdout.decode())

    def test_json_has_the_documented_fields(self):
        page = (SOURCE / "docs/tracing.md").read_text(encoding="utf-8")
        for seed in sorted(SEEDS.iterdir()):
            whole = json.loads(self.answer("--json", str(seed)))
            self.assertEqual(undocumented(whole, page), set())
            task = whole["runners"][0]["longest_task"]
            history = json.loads(self.answer("--json", "--task", str(task["id"]), str(seed)))
            self.assertEqual(undocumented(history, page), set())
            self.assertEqual(task, {key: history["tasks"][0][key] for key in task})
            event = whole["events"][0]
            chain = json.loads(self.answer("--json", "--chain", event["name"], str(seed)))
            self.assertEqual(undocumented(chain, page), set())
            self.assertEqual(event["count"], chain["chain"]["event"]["among"])
            parts = sum(part["total_ns"] for part in chain["chain"]["parts"])
            self.assertEqual(chain["chain"]["duration_ns"],
                             parts + chain["chain"]["unknown_ns"])

    def test_the_chain_says_where_the_time_went(self):
        text = self.answer("--chain", "request served", REQUEST)
        self.assertRegex(text, r"1\.000 +8\.00 ms +session 17 +waited for processor 0, "
                               r"woken by the network\n.*there meanwhile: hog 9 7\.99 ms\n")
        self.assertRegex(text, r"1\.000 +session 17 +something came from the network")
        self.assertRegex(text, r"8\.50 ms +71 % +waiting for a processor")
        self.assertRegex(text, r"1\.00 ms +8 % +parked for a mutex, until db 5 woke it")

    def test_limits_and_top(self):
        text = self.answer("--from", "9.5ms", "--to=-1", "--top", "1", REQUEST)
        self.assertIn(": 3.50 ms, from 9.500 ms on", text)
        self.assertNotIn("hog 9 7.99 ms", text)
        self.refuse(1, "there is nothing between those times", "--from", "2s", REQUEST)
        self.refuse(1, "there is nothing between those times", "--from", "3", "--to", "2", REQUEST)

    def test_usage_errors_say_what_was_expected(self):
        for text, *args in (
                ("no FILE; expected the name of a trace",),
                ('unknown option "--nonsense"', "--nonsense", REQUEST),
                ('unexpected "again"; expected one FILE', REQUEST, "again"),
                ('--top: "0" is not a number of rows', "--top", "0", REQUEST),
                ('--top: "1x" is not a number of rows', "--top", "1x", REQUEST),
                ('--from: "soon" is not a time', "--from", "soon", REQUEST),
                ('--to: "1 h" is not a time', "--to", "1 h", REQUEST),
                ("--task and --chain ask for different things", "--task", "1", "--chain", "1",
                 REQUEST),
                ("expected --chain as well", "--since", "begun", REQUEST)):
            self.assertEqual(b"", self.refuse(2, text, *args))

    def test_what_is_no_trace_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            empty = Path(folder, "empty")
            empty.touch()
            self.refuse(1, "empty is empty", str(empty))
            self.refuse(1, "Is a directory", folder)
            self.refuse(1, "No such file or directory", folder + "/none")
        self.refuse(1, "is not a trace", str(PROGRAM))
        self.refuse(1, "standard input is empty", "-", data=b"")
        self.refuse(1, 'there is no task "nobody"', "--task", "nobody", REQUEST)
        self.refuse(1, 'there is no event and no task "?[31m"', "--chain", "\x1b[31m", REQUEST)

    def test_a_cut_trace_gives_what_there_is_and_a_warning(self):
        whole = Path(REQUEST).read_bytes()
        out = self.refuse(1, "is damaged or cut short after", "-", data=whole[:-5])
        self.assertIn(b"session 17", out)

    def test_an_output_that_cannot_be_written_is_an_error(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([*LAUNCHER, str(PROGRAM), REQUEST], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn(b"cannot write: No space left on device", done.stderr)

    def test_help_and_version(self):
        for line in self.answer("--help").splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assertRegex(self.answer("--version"), r"^sennit-trace \d+\.\d+\.\d+\n$")

    def test_every_option_is_documented_and_completed(self):
        manual = (SOURCE / "packaging/sennit-trace.1").read_text(encoding="utf-8")
        completion = (SOURCE / "packaging/sennit-trace.bash").read_text(encoding="utf-8")
        found = {word.rstrip(",") for word in self.answer("--help").split()
                 if word.startswith("--") and word[2:3].isalpha() and "=" not in word}
        self.assertIn("--chain", found)
        for option in found:
            self.assertIn(option.replace("-", r"\-"), manual)
            self.assertIn(option, completion)


if __name__ == "__main__":
    sys.exit(unittest.main())
