# SPDX-License-Identifier: MIT
"""What the tests with other libraries share: they start a server on loopback, run a program of
tests/hooks/libraries with it, and check how many threads that took."""
import contextlib
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
from ports import free_port  # noqa: E402

BUILD = os.environ.get("SENNIT_BUILD_DIR", "")
LAUNCHER = os.environ.get("SENNIT_LAUNCHER", "").split()
PATIENCE = 250
PROCESSORS = 2
FEW_THREADS = PROCESSORS + 8
TRIES = 5


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


def skip(text):
    print(f"skipped: {text}")
    sys.exit(77)


def scaled(count):
    """Fewer where each of them costs more, or figures do not matter, and half as many in
    `make test` and the gate."""
    if "SENNIT_TEST_FEW" in os.environ:
        return max(count // 20, 2)
    if LAUNCHER:
        return count // 10
    return count // 2 if "SENNIT_TEST_SHORT" in os.environ else count


def program(name):
    """The program; skips the test if its library is missing."""
    path = os.path.join(BUILD, "tests/hooks/hooks-" + name)
    if not os.path.exists(path):
        skip(f"{name} is not installed for this architecture")
    return path


def tool(*names):
    """The path of a program of the system; skips the test if there is none."""
    for name in names:
        found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if found:
            return found
    return skip(f"there is no {names[0]}")


def start(name, where, tasks, settings):
    """Runs the program with these variables in its environment, until it ends."""
    done = subprocess.run([*LAUNCHER, program(name), where, str(tasks)],
                          capture_output=True, text=True, timeout=PATIENCE, check=False,
                          env={**os.environ, "SENNIT_PROCS": str(PROCESSORS), **settings})
    print(f"{name} {where.split('?')[0]}: {done.stdout}", end="", flush=True)
    return done


def run(name, where, tasks, **settings):
    """Runs the program, expects that its tasks succeed, and returns what it prints."""
    done = start(name, where, tasks, settings)
    if done.returncode:
        fail(f"{name}: status {done.returncode}: {done.stdout}{done.stderr[:2000]}")
    if not done.stdout.startswith(f"{tasks} done, "):
        fail(f"{name}: {done.stdout}")
    # For bench/libraries: the same in other ways, each on a line of its own.
    if "SENNIT_TEST_BESIDE" in os.environ:
        for way in "threads", "async":
            beside = start(name, where, tasks, {**settings, "CROWD_WAY": way})
            if beside.returncode and (way, beside.returncode) != ("async", 77):
                fail(f"{name}, {way}: {beside.stderr[:2000]}")
    return done.stdout


def fails(name, where, tasks, why, **settings):
    """Runs the program. Returns whether a task failed for that reason; no task may fail for another
    one."""
    done = start(name, where, tasks, settings)
    if done.returncode and why not in done.stderr:
        fail(f"{name}: status {done.returncode}: {done.stdout}{done.stderr[:2000]}")
    return done.returncode != 0


def fails_if_tasks_move(name, where, tasks, why):
    """Expects that the program's tasks fail for that reason if they continue on any thread, in one
    of several runs."""
    if "SENNIT_TEST_BESIDE" in os.environ:
        return  # a measurement, whatever fails
    if not any(fails(name, where, tasks, why, SENNIT_HOOKS_STAY="0") for _ in range(20)):
        fail("with SENNIT_HOOKS_STAY=0 nothing is wrong, so the test cannot notice")


def run_with_few_threads(name, where, tasks, more=0, **settings):
    """Like run(), but also checks the number of threads. On a loaded machine a slow task costs a
    thread, which stays for seconds, so the program is run again, a few times. If the machine stays
    loaded, a thread for every third task is accepted, too; without hooks each would have one.
    SENNIT_TEST_STRICT=1 requires few threads. more: threads for tasks that contend for a
    library's locks."""
    # An emulator has threads of its own.
    few = FEW_THREADS + more + (10 if LAUNCHER else 0)
    least = tasks
    for _ in range(TRIES):
        said = run(name, where, tasks, **settings)
        if int(re.search(r", (\d+) parked", said)[1]) == 0:
            fail("no call has parked")
        if "SENNIT_TEST_BESIDE" in os.environ:
            return said  # a measurement, whatever it says
        least = min(least, int(re.search(r", (\d+) threads,", said)[1]))
        if least <= few:
            return said
    if least > few + tasks // 3 or os.environ.get("SENNIT_TEST_STRICT"):
        fail(f"{least} threads")
    return said


class Server:
    """A program that listens on a port, started again with another one if that is taken."""

    def __init__(self, command, ready, user=None):
        self.process = None
        for _ in range(10):
            self.port = free_port()
            self.process = subprocess.Popen(
                command(self.port), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, cwd="/", **(user or {}))
            end = time.monotonic() + PATIENCE / 2
            while self.process.poll() is None and time.monotonic() < end:
                if ready(self.port):
                    return
                time.sleep(0.1)
            self.stop()
        fail(f"{command(0)[0]} does not start")

    def stop(self):
        """Ends it by its id, and only once."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def accepts(port):
    """Whether a program listens at the port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def folder():
    """A folder that servers of other users can enter."""
    made = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    os.chmod(made.name, 0o755)
    return made


def as_user(name):
    """Servers that do not run as root."""
    return {"user": name, "group": name, "extra_groups": []} if os.getuid() == 0 else {}


@contextlib.contextmanager
def postgresql(connections):
    """A new database, which accepts so many connections. Yields its port."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        skip("there is no PostgreSQL")
    programs = programs[-1]
    user = as_user("postgres")
    with folder() as scratch:
        data = scratch + "/data"
        os.mkdir(data, 0o700)
        if user:
            shutil.chown(data, "postgres")
        subprocess.run([programs + "/initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N",
                        "--locale=C"], cwd="/", check=True, stdout=subprocess.DEVNULL,
                       timeout=PATIENCE, **user)

        def ready(port):
            return subprocess.run([programs + "/pg_isready", "-q", "-h", "127.0.0.1", "-p",
                                   str(port)], check=False, timeout=PATIENCE).returncode == 0

        with Server(lambda port: [
                programs + "/postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-c",
                "unix_socket_directories=", "-c", "fsync=off", "-c",
                f"max_connections={connections}"], ready, user) as server:
            yield server.port
