#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs of `make bench-tasks`, `make bench-blocking` and `make bench-blocking-server` work:
each row is measured once, beside the peers that can be built. The test asserts no figures.
"""
import os
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]


def bench(script, *arguments, build=BUILD):
    return subprocess.run([sys.executable, f"{SOURCE}/bench/{script}", build, *arguments],
                          capture_output=True, text=True, timeout=600, check=False)


class Bench(unittest.TestCase):
    def check(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def row(self, output, title):
        found = [line for line in output.splitlines() if line.startswith(title)]
        self.assertEqual(len(found), 1, f"{title}: {output}")
        return found[0]

    def test_costs_of_tasks(self):
        output = self.check(bench("tasks/tasks.py", "--rounds=1", "--processors=2"))
        for title in ("spawn 1M, join each", "spawn 1M, wait for all", "spawn and join, one",
                      "yield between", "unbuffered ping-pong", "buffered (128) 1:1",
                      "buffered (128) 4:4", "mutex, 8 tasks", "select of 4", "skynet, 1M leaves",
                      "1M sleeps", "bytes of an idle task"):
            # sennit's column is the first.
            self.assertRegex(self.row(output, title)[len(title):], r"\d \([\d.,]+ to [\d.,]+\)")

    def test_an_unknown_row_is_an_error(self):
        done = bench("tasks/tasks.py", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown row nonsense", done.stderr)

    def test_brackets(self):
        output = self.check(bench("blocking/syscall.py", "--rounds=1")).partition("benchstat:")[0]
        for name in ("Syscall-1", "Syscall-2", "Syscall-4", "SyscallWork-1", "SyscallWork-2",
                     "SyscallWork-4"):
            for table in output.partition("CPU time")[::2]:
                self.assertRegex(self.row(table, name + " "), r"\d\.\d\d \([\d.]+ to [\d.]+\)")

    def test_a_server_that_blocks(self):
        output = self.check(bench("blocking/server.py", "--rounds=1", "--seconds=0.3"))
        for name in ("sennit, plain", "sennit, bracket"):
            self.assertRegex(self.row(output, name), r" [1-9]\d* +\(\d+-\d+\)")

    def test_each_fails_without_its_program(self):
        for script in ("tasks/tasks.py", "blocking/syscall.py", "blocking/server.py"):
            with self.subTest(script=script):
                done = bench(script, build="/nowhere")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("make benches builds it", done.stderr)


if __name__ == "__main__":
    unittest.main()
