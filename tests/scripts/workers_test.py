#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/testing/workers.py: how many tests run at a time, on a machine that is busy or idle."""
import itertools
import os
import pathlib
import sys
import threading
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["SENNIT_SOURCE_DIR"], "scripts")))
from testing import workers  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE = 60


def ticks(idle_share):
    """Looks at a machine of which this share has been idle since the look before."""
    looks = itertools.count()

    def look():
        n = next(looks)
        return n * idle_share * 100, n * 100
    return look


class Workers(unittest.TestCase):
    def play(self, idle_share, things, one):
        with mock.patch.object(workers, "LOOK_SECONDS", 0.001), \
                mock.patch.object(workers, "read_ticks", ticks(idle_share)):
            return workers.run_all(one, things, 2, 2)

    def most_at_a_time(self, idle_share, wanted):
        """The most that run at a time. The first ones wait until `wanted` do."""
        changed, now, most = threading.Condition(), 0, 0

        def one(thing):
            nonlocal now, most
            with changed:
                now += 1
                most = max(most, now)
                changed.notify_all()
                changed.wait_for(lambda: most >= wanted, PATIENCE)
                now -= 1
            return thing
        self.assertEqual(sorted(self.play(idle_share, list(range(40)), one)), list(range(40)))
        return most

    def test_more_work_while_the_machine_is_idle(self):
        self.assertEqual(self.most_at_a_time(0.9, 4), 4)

    def test_no_more_work_while_it_is_busy(self):
        self.assertEqual(self.most_at_a_time(0.1, 2), 2)

    def test_they_begin_in_order(self):
        begun = []
        workers.run_all(begun.append, list(range(20)), 1, 0)
        self.assertEqual(begun, list(range(20)))

    def test_an_exception_is_raised(self):
        def one(thing):
            if thing == 3:
                raise ValueError(thing)
        with self.assertRaises(ValueError):
            self.play(0.1, list(range(6)), one)

    def test_the_machine_says_how_idle_it_is(self):
        idle, every = workers.read_ticks()
        self.assertTrue(0 <= idle < every)


if __name__ == "__main__":
    unittest.main()
