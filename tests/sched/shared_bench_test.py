#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
`make bench-shared` counts what docs/scale.md says. The figures are counts of operations in the
code, so they are exact: a change that adds an atomic operation, a lock or a shared write to one of
these operations fails here, and has to change the number and the document.
"""
import json
import os
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]

# For each operation: read-modify-writes, locks, shared writes and system calls.
EXACT = {
    "spawn-join": (2, 0, 0, 0),
    "send-receive": (2, 2, 0, 0),
    "ping-pong": (8, 4, 0, 0),
    "mutex": (2, 0, 0, 0),
    "wake-park": (8, 4, 0, 0),
    "timer": (2, 2, 0, 0),
    "bracket": (0, 0, 0, 0),
    "read-write": (4, 0, 0, 2),
}


def shared(*args):
    return subprocess.run([sys.executable, f"{SOURCE}/bench/shared/shared.py", *args],
                          capture_output=True, text=True, timeout=300, check=False)


class Bench(unittest.TestCase):
    def test_counts_are_exact(self):
        done = shared("--json", "--procs", "1,2", BUILD, *EXACT)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        self.assertEqual(len(rows), 2 * len(EXACT))
        for row in rows:
            with self.subTest(operation=row["operation"], procs=row["procs"]):
                rmw, locks, written, calls = EXACT[row["operation"]]
                self.assertEqual(row["threads"], row["procs"])
                self.assertEqual((row["rmw"], row["locks"], row["calls"]), (rmw, locks, calls))
                # With one processor there is no other thread to share with.
                self.assertEqual(row["shared"], written if row["procs"] > 1 else 0)

    def test_connections_share_only_their_count(self):
        for operation, least in ("relayed-message", 0), ("short-connection", 2):
            written = []
            # A task that the kernel interrupts may go on with the other processor's descriptors.
            while least not in written and len(written) < 5:
                done = shared("--json", "--procs", "2", BUILD, operation)
                self.assertEqual(done.returncode, 0, done.stderr)
                written += [row["shared"] for row in json.loads(done.stdout)]
            self.assertEqual(least, min(written), f"{operation}: {written}")

    def test_names_what_is_shared(self):
        done = shared("--by-name", "--procs", "2", BUILD, "accept")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\| accept \| 2 \| ")
        self.assertRegex(done.stdout, r"1 rmw +sn_netpoll_add .*open_fds\+0 \(shared\)")
        self.assertRegex(done.stdout, r"1 system call +accept4")

    def test_fails_without_the_program(self):
        self.assertNotEqual(shared("/nowhere").returncode, 0)


if __name__ == "__main__":
    unittest.main()
