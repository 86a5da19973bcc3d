#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/testing/workers.py: how many tests run at a time, on a machine that is busy or idle."""
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["SENNIT_SOURCE_DIR"], "scripts")))
from testing import workers  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE = 60


class Looks:
    """At a machine of which this share has been idle since the look before."""

    def __init__(self, idle_share):
        self.idle_share, self.made = idle_share, 0

    def __call__(self):
        self.made += 1
        return self.made * self.idle_share * 100, self.made * 100


class Workers(unittest.TestCase):
    def most_at_a_time(self, idle_share, is_seen):
        """The most that run at a time. The first ones wait until is_seen(most, number of looks)."""
        access, now, most, looks = threading.Lock(), 0, 0, Looks(idle_share)

        def one(thing):
            nonlocal now, most
            with access:
                now += 1
                most = max(most, now)
            end = time.monotonic() + PATIENCE
            while not is_seen(most, looks.made) and time.monotonic() < end:
                time.sleep(0.001)
            with access:
                now -= 1
            return thing
        with mock.patch.object(workers, "LOOK_SECONDS", 0.001), \
                mock.patch.object(workers, "read_ticks", looks):
            done = workers.run_all(one, list(range(40)), 2, 2)
        self.assertEqual(sorted(done), list(range(40)))
        return most

    def test_more_work_while_the_machine_is_idle(self):
        self.assertEqual(self.most_at_a_time(0.3, lambda most, _: most >= 4), 4)

    def test_no_more_work_while_it_is_busy(self):
        self.assertEqual(self.most_at_a_time(0.2, lambda _, looks: looks >= 20), 2)

    def test_they_begin_in_order(self):
        begun = []
        workers.run_all(begun.append, list(range(20)), 1, 0)
        self.assertEqual(begun, list(range(20)))

    def test_an_exception_is_raised(self):
        def one(thing):
            if thing == 3:
                raise ValueError(thing)
        with self.assertRaises(ValueError):
            workers.run_all(one, list(range(6)), 2, 2)

    def test_the_machine_says_how_idle_it_is(self):
        idle, every = workers.read_ticks()
        self.assertTrue(0 <= idle < every)

    def test_only_the_cpus_of_this_process_count(self):
        with tempfile.NamedTemporaryFile("w") as file:
            #               user nice system idle iowait irq softirq steal guest
            file.write("cpu  1000 200 300 40 5 6 7 8 900 0\n"
                       "cpu0 500 100 150 20 2 3 3 4 450 0\n"
                       "cpu1 400 110 140 10 3 3 4 4 450 0\n"
                       "cpu11 1 2 3 4 5 6 7 8 9 0\nintr 1\n")
            file.flush()
            self.assertEqual(workers.read_ticks(file.name, 0, {0}), (122, 782))
            self.assertEqual(workers.read_ticks(file.name, 0, {0, 1}), (245, 1456))

    def test_what_is_nicer_leaves_a_cpu_idle(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("cpu0 500 100 150 20 2 3 3 4 450 0\n")
            file.flush()
            self.assertEqual(workers.read_ticks(file.name, 0, {0}), (122, 782))
            # Its own things are among what is nice.
            self.assertEqual(workers.read_ticks(file.name, 10, {0}), (22, 782))


if __name__ == "__main__":
    unittest.main()
