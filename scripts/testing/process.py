# SPDX-License-Identifier: MIT
"""
Runs one process of a test, keeps the end of its output, and limits how long each case may take.

The process has a group of its own. When it ends, all processes that are left in the group are
killed. If it takes too long, gdb prints where its threads are, and the group is killed.
"""
import dataclasses
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

BEGINS = re.compile(rb"^\[ RUN      \] (\S+)", re.MULTILINE)
ENDS = re.compile(rb"^\[(       OK|  FAILED |  SKIPPED) \] ([^\s,]+)[^\n]* \(\d+ ms\)$",
                  re.MULTILINE)

# Seconds between looks at the output of a process, to find out which case it runs.
LOOK_SECONDS = 0.5

running = set()  # process groups


@dataclasses.dataclass
class Outcome:
    status: int  # exit status, or minus the number of the signal
    has_hung: bool
    output: bytes
    seconds: float
    cpu: float  # seconds, with those of the children for which it has waited


def kill_all():
    """Ends all running processes; called at the runner's own end."""
    for group in list(running):
        kill(group)


def kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def where_it_is(pid):
    """Backtraces of the process's threads; nothing if there is no gdb."""
    if not shutil.which("gdb"):
        return b""
    try:
        return b"\nThreads when it had hung:\n" + subprocess.run(
            ["gdb", "-p", str(pid), "-batch", "-nx", "-iex", "set debuginfod enabled off",
             "-ex", "thread apply all backtrace 12"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=60, check=False).stdout[-20000:]
    except subprocess.TimeoutExpired:
        return b""


class Watch:
    """Knows since when the present case has been running, from the output."""

    def __init__(self, output):
        self.output = output
        self.seen = 0
        self.since = time.monotonic()

    def look(self):
        size = os.fstat(self.output.fileno()).st_size
        start = max(0, self.seen - 64)  # may be within a line
        if size <= self.seen:
            return
        found = os.pread(self.output.fileno(), size - start, start)
        if any(each.start() + start + 12 > self.seen for each in BEGINS.finditer(found)):
            self.since = time.monotonic()
        self.seen = size

    def age(self):
        return time.monotonic() - self.since


def run(command, case, most=None):
    """Runs the words in the folder and the environment of a case. most: a limit in seconds, if the
    case's own is longer."""
    limit = min(case.timeout, most or case.timeout)
    environment = dict(os.environ)
    environment.update(word.split("=", 1) for word in case.environment)
    with tempfile.TemporaryFile() as output:
        begin = time.monotonic()
        process = subprocess.Popen(command, cwd=case.directory, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        running.add(process.pid)
        watch = Watch(output)
        has_hung, extra = False, b""
        end = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            while not poll.poll(LOOK_SECONDS * 1000):
                watch.look()
                if watch.age() > limit:
                    has_hung, extra = True, where_it_is(process.pid)
                    break
        finally:
            os.close(end)
            kill(process.pid)  # before it is reaped, so that the number is still its own
            _, ended, usage = os.wait4(process.pid, 0)
            process.returncode = status = os.waitstatus_to_exitcode(ended)
            running.discard(process.pid)
        output.seek(0)
        return Outcome(status, has_hung, output.read() + extra, time.monotonic() - begin,
                       usage.ru_utime + usage.ru_stime)
