#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The relay as process 1 of a container, whose end ends every process in it: SIGUSR2 is refused, and
changes nothing.

Environment: as traffic.py.
"""
import os
import signal
import subprocess
import sys
import unittest

from traffic import Backend, Relay, ask, eventually

# --kill-child: nothing stays behind if the test ends early.
FORMS = (["unshare"], ["unshare", "--user", "--map-root-user"])
WRAPPER = ["--pid", "--fork", "--kill-child"]


def wrapper():
    for form in FORMS:
        words = [*form, *WRAPPER]
        if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            return words
    return None


class Container(unittest.TestCase):
    def test_a_handover_is_refused(self):
        backend = Backend()
        relay = Relay("127.0.0.1:0", backend.address, wrapper=wrapper())
        child = f"/proc/{relay.process.pid}/task/{relay.process.pid}/children"
        with open(child) as children:
            inside = int(children.read())
        with relay.connect() as client:
            self.assertEqual(ask(client, 1000), 1000)
            os.kill(inside, signal.SIGUSR2)

            def said():
                relay.errors.seek(0)
                return relay.errors.read()

            eventually(lambda: "not handed over: the end of process 1" in said(), "the refusal")
            self.assertEqual(ask(client, 1000), 1000)
            with relay.connect() as other:
                self.assertEqual(ask(other, 1000), 1000)
        os.kill(inside, signal.SIGTERM)
        self.assertEqual(relay.process.wait(60), 0)
        relay.process.stdout.close()
        relay.errors.close()
        backend.close()


if __name__ == "__main__":
    if wrapper() is None:
        print("skipped: this kernel or sandbox allows no process namespaces")
        sys.exit(77)
    unittest.main()
