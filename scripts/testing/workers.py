# SPDX-License-Identifier: MIT
"""
Several workers take things from a list, more of them while CPUs have nothing to do.

Many tests wait most of the time: for a timeout, a server, another process. A fixed number of
workers leaves the CPUs idle during these, and one that is large enough for them makes the tests
that compute disturb each other. So there is a number of workers that always take the next thing,
and others that take one only after a look that found a quarter of the CPUs idle, of those that this
process may use. One of these starts at a time, because what it starts has to show in the next look.

A CPU counts as idle while it runs what has a lower priority than the things, such as a build that
scripts/test runs beside the tests: that yields to them.
"""
import concurrent.futures
import os
import pathlib
import threading
import time

LOOK_SECONDS = 0.25
IDLE_SHARE = 0.25


def read_ticks(path="/proc/stat", own_nice=None, cpus=None):
    """The ticks that these CPUs (default: those that this process may use) have spent idle, or for
    processes that are nicer than this one, and all their ticks."""
    cpus = os.sched_getaffinity(0) if cpus is None else cpus
    # The kernel counts all nice processes together, so a nice one cannot tell its own from others.
    is_nice = (os.nice(0) if own_nice is None else own_nice) > 0
    idle = every = 0
    for line in pathlib.Path(path).read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            ticks = [int(word) for word in fields[:8]]
            idle += ticks[3] + ticks[4] + (0 if is_nice else ticks[1])
            every += sum(ticks)
    return idle, every


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
                idle, every = read_ticks()
                time.sleep(LOOK_SECONDS)
                idle_then, every_then = read_ticks()
                if idle_then - idle >= IDLE_SHARE * (every_then - every):
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
