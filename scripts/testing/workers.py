# SPDX-License-Identifier: MIT
"""
Several workers take things from a list, more of them while CPUs have nothing to do.

Many tests wait most of the time: for a timeout, a server, another process. A fixed number of
workers leaves the CPUs idle during these, and one that is large enough for them makes the tests
that compute disturb each other. So there is a number of workers that always take the next thing,
and others that take one only after a look at the machine that found half a CPU idle. One of these
starts at a time, because what it starts has to show in the next look.

A CPU counts as idle while it runs what has a lower priority than the things, such as a build that
scripts/test runs beside the tests: that yields to them.
"""
import concurrent.futures
import os
import pathlib
import threading
import time

LOOK_SECONDS = 0.25
IDLE_CPUS = 0.5


def read_ticks(path="/proc/stat", own_nice=None):
    """The ticks that all CPUs have spent idle, or for processes that are nicer than this one, and
    all ticks of one CPU."""
    lines = pathlib.Path(path).read_text().splitlines()
    fields = [int(word) for word in lines[0].split()[1:9]]
    cpus = sum(line.startswith("cpu") for line in lines) - 1
    _, nice, _, idle, disk = fields[:5]
    # The kernel counts all nice processes together, so a nice one cannot tell its own from others.
    if (os.nice(0) if own_nice is None else own_nice) > 0:
        nice = 0
    return idle + disk + nice, sum(fields) / cpus


class Work:
    """The things that are left."""

    def __init__(self, things):
        self.left = list(reversed(things))
        self.access = threading.Lock()
        self.looking = threading.Lock()

    def take(self):
        with self.access:
            return self.left.pop() if self.left else None

    def take_when_idle(self):
        with self.looking:
            while self.left:
                idle, of_one = read_ticks()
                time.sleep(LOOK_SECONDS)
                idle_then, of_one_then = read_ticks()
                if idle_then - idle >= IDLE_CPUS * (of_one_then - of_one):
                    return self.take()
        return None


def run_all(one, things, always, more):
    """Calls one() with each thing, in the order of the list, in `always` threads and, while CPUs
    are idle, up to `more` others. Returns the results, in the order in which they came. An exception
    of one() is raised again."""
    work, results = Work(things), []

    def worker(take):
        while (thing := take()) is not None:
            results.append(one(thing))

    with concurrent.futures.ThreadPoolExecutor(always + more) as pool:
        workers = [pool.submit(worker, work.take) for _ in range(always)]
        workers += [pool.submit(worker, work.take_when_idle) for _ in range(more)]
        for each in concurrent.futures.as_completed(workers):
            each.result()
    return results
