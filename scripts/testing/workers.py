# SPDX-License-Identifier: MIT
"""
Several workers take things from a list, more of them while CPUs have nothing to do.

Many tests wait most of the time: for a timeout, a server, another process. A fixed number of
workers leaves the CPUs idle during these, and one that is large enough for them makes the tests
that compute disturb each other. So there is a number of workers that always take the next thing,
and as many more that take one only after a second in which the CPUs were half idle. One of these
starts at a time, because what it starts has to show in the next look.
"""
import concurrent.futures
import pathlib
import threading
import time

LOOK_SECONDS = 1
IDLE_SHARE = 0.5


def read_ticks(path="/proc/stat"):
    """The ticks that all CPUs have spent idle, and all ticks."""
    fields = [int(word) for word in pathlib.Path(path).read_text().split("\n", 1)[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


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
