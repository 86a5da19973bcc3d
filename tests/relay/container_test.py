#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The relay as process 1 of a container, whose end ends every process in it: the first process stays
while the relay is replaced, and ends with it. supervisor_test.cc tests the rest.

Environment: as traffic.py; SENNIT_RELOADS is the number of handovers under traffic (3).
"""
import glob
import os
import select
import signal
import subprocess
import sys
import threading
import unittest

from traffic import BUILD, LAUNCHER, Backend, Relay, ask, eventually

# --kill-child: no process is left if the test ends early.
FORMS = (["unshare"], ["unshare", "--user", "--map-root-user"])
WRAPPER = ["--pid", "--fork", "--kill-child", "--mount-proc"]


def wrapper():
    for form in FORMS:
        words = [*form, *WRAPPER]
        if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            return words
    return None


def children(pid):
    """The children of all threads of a process; none if there is no such process."""
    found = []
    for file in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(file) as one:
                found += [int(word) for word in one.read().split()]
        except OSError:
            pass
    return found


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


def command(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return None


class ContainedRelay(Relay):
    """Its processes are identified by the ids that they have outside of the container."""

    def __init__(self, *arguments):
        super().__init__(*arguments, wrapper=wrapper())
        (self.first,) = children(self.process.pid)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def hand_over(self):
        before = self.said().count(" handed_over ")
        os.kill(self.first, signal.SIGUSR2)
        eventually(lambda: self.said().count(" handed_over ") > before, "a handover")

    def ended(self):
        """The exit status of the container."""
        return self.process.wait(60)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


class Container(unittest.TestCase):
    def setUp(self):
        self.backend = Backend()
        self.addCleanup(self.backend.close)

    def start(self, *arguments):
        relay = ContainedRelay("127.0.0.1:0", self.backend.address, *arguments)
        self.addCleanup(relay.close)
        return relay

    def test_handovers_under_traffic(self):
        relay = self.start()
        original = children(relay.first)
        over = threading.Event()
        counts = [0] * 3
        faults = []

        def work(n):
            while not over.is_set():
                try:
                    with relay.connect() as client:
                        if ask(client, 4000) != 4000:
                            faults.append("too few bytes")
                    counts[n] += 1
                except OSError as fault:
                    faults.append(fault)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(counts))]
        with relay.connect() as lasting:
            self.assertEqual(ask(lasting, 1000), 1000)
            for thread in threads:
                thread.start()
            try:
                for _ in range(int(os.environ.get("SENNIT_RELOADS", "3"))):
                    before = sum(counts)
                    relay.hand_over()
                    eventually(lambda: faults or sum(counts) > before + 10, "clients")
            finally:
                over.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(faults, [])
            # The process that has had the connection from the start answers.
            self.assertEqual(ask(lasting, 1000), 1000)

        def is_alone():
            now = children(relay.first)
            return len(now) == 1 and now != original and not children(now[0])

        eventually(is_alone, "the old processes to end")
        os.kill(relay.first, signal.SIGTERM)
        self.assertEqual(relay.ended(), 0)

    def test_sigterm_lets_connections_finish(self):
        relay = self.start("--drain", "1h")
        with relay.connect() as old:
            self.assertEqual(ask(old, 1000), 1000)
            relay.hand_over()
            with relay.connect() as new:
                self.assertEqual(ask(new, 1000), 1000)
                os.kill(relay.first, signal.SIGTERM)
                eventually(lambda: relay.said().count(" drain_ms=3600000 ") == 2, "both to drain")
                with self.assertRaises(ConnectionRefusedError):
                    relay.connect()
                self.assertEqual(ask(old, 1000), 1000)
                self.assertEqual(ask(new, 1000), 1000)
        self.assertEqual(relay.ended(), 0)

    def test_orphans_are_reaped(self):
        relay = self.start()
        # A process inside that leaves its child behind, which then ends.
        orphan = subprocess.run(
            ["nsenter", "--target", str(relay.first), "--pid"]
            + ["sh", "-c", "sleep 1000 >&- 2>&- &"],
            stderr=subprocess.DEVNULL,
        )
        if orphan.returncode != 0:
            self.skipTest("this user cannot enter the namespace")
        found = eventually(
            lambda: [pid for pid in children(relay.first) if command(pid) == "sleep"], "the orphan"
        )
        os.kill(found[0], signal.SIGKILL)
        eventually(lambda: state(found[0]) is None, "it to be reaped")
        with relay.connect() as client:
            self.assertEqual(ask(client, 1000), 1000)
        os.kill(relay.first, signal.SIGTERM)
        self.assertEqual(relay.ended(), 0)

    def test_the_container_ends_when_the_relay_dies(self):
        relay = self.start("--drain", "1h")
        with relay.connect() as client:
            self.assertEqual(ask(client, 1000), 1000)
            (old,) = children(relay.first)
            relay.hand_over()
            (newest,) = children(old)
            os.kill(newest, signal.SIGKILL)
            # The client must not see a clean end, which the kernel gives to connections of a
            # process that it kills.
            with self.assertRaises(ConnectionResetError):
                client.recv(1)
        self.assertEqual(relay.ended(), 128 + signal.SIGKILL)

    def test_early_signals_change_nothing(self):
        with subprocess.Popen(
            [*wrapper(), *LAUNCHER, BUILD + "/tools/relay/sennit-relay"]
            + ["127.0.0.1:0", self.backend.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            self.addCleanup(process.kill)
            (first,) = eventually(lambda: children(process.pid), "the first process")
            while not select.select([process.stdout], [], [], 0)[0]:
                os.kill(first, signal.SIGHUP)
                os.kill(first, signal.SIGUSR1)
            self.assertTrue(process.stdout.readline().startswith(b"listening on "))
            os.kill(first, signal.SIGINT)
            self.assertEqual(process.wait(60), 0)


if __name__ == "__main__":
    if wrapper() is None:
        print("skipped: this kernel or sandbox allows no process namespaces")
        sys.exit(77)
    unittest.main()
