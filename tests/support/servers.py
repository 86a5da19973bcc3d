# SPDX-License-Identifier: MIT
"""
For the scripts in tests/examples: servers of other projects to which an example talks, and counts
of an example's threads, connections and children while it runs.
"""
import contextlib
import glob
import os
import shutil
import socket
import subprocess
import sys
import time

from ports import free_port

launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
PATIENCE = 250
# The limit for all loads: a program with so many processors has at most five more threads. The
# thread sanitizer has a thread of its own, and an emulator several.
PROCESSORS = 2
THREADS = PROCESSORS + 5 + (os.environ.get("SENNIT_SANITIZE") == "thread")
if launcher and "no-aslr" not in launcher[0]:
    THREADS += 1000

NGINX = """
daemon off;
master_process off;
pid {root}/pid;
error_log {root}/error.log;
worker_rlimit_nofile 4096;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {root}; proxy_temp_path {root}; fastcgi_temp_path {root};
    uwsgi_temp_path {root}; scgi_temp_path {root};
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        root {root};
        location /slow {{ limit_rate 20k; }}
    }}
}}
"""


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


def example(name, needs=None):
    """The program of the example. Skips the test where the library that it needs is missing."""
    program = os.path.join(os.environ["SENNIT_BUILD_DIR"], f"examples/example-{name}")
    if needs and not os.path.exists(program):
        print(f"skipped: there is no {needs} for this architecture")
        sys.exit(77)
    return program


def run(*command):
    return subprocess.run([*launcher, *command], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)


def start(*command, **options):
    return subprocess.Popen([*launcher, *command], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "SENNIT_PROCS": str(PROCESSORS)}, **options)


# ---- counts ----

def threads_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("Threads:")).split()[1])


def connections_to(port):
    """How many connections are established at a port of this machine, seen from the clients."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows[1:])


def children_of(pid):
    count = 0
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(stat, encoding="utf-8", errors="replace") as file:
            count += int(file.read().rsplit(")", 1)[1].split()[1]) == pid
    return count


class Seen:
    """What watch() has seen."""

    def __init__(self):
        self.at_once = 0  # the most that count() has returned
        self.most = 0  # threads, at any time
        self.threads = 0  # threads at the end: while all wait, or the last count


def watch(process, wanted, count):
    """
    Counts threads until so many are at work at the same time, and there are no more threads than
    allowed; or until the process ends. On a loaded machine, tasks that are slow to begin cost
    threads, which end later.
    """
    seen = Seen()
    end = time.monotonic() + PATIENCE / 2
    while time.monotonic() < end:
        seen.at_once = max(seen.at_once, count())
        if process.poll() is not None:
            break
        try:
            seen.threads = threads_of(process.pid)
        except (OSError, StopIteration):
            continue  # it has just ended
        seen.most = max(seen.most, seen.threads)
        if seen.at_once >= wanted and seen.threads <= THREADS:
            break
        time.sleep(0.02)
    return seen


def follow(process, seen, seconds):
    """Continues to count threads for so long, or until the process ends."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            seen.most = max(seen.most, threads_of(process.pid))
        time.sleep(0.01)


def check(seen, wanted):
    print(f"{seen.at_once} at a time, {seen.threads} threads, {seen.most} at most")
    if seen.at_once < wanted:
        fail(f"only {seen.at_once} at a time")
    if seen.threads > THREADS:
        fail(f"{seen.threads} threads")


# ---- servers ----

def stop(server):
    server.terminate()
    server.wait()


def postgres_tool(name):
    """The newest, instead of Debian's wrappers."""
    return (sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name)])[-1]


def start_postgres(data, connections, user):
    for _ in range(20):
        port = free_port()
        server = subprocess.Popen(
            [postgres_tool("postgres"), "-D", data, "-p", str(port), "-h", "127.0.0.1",
             *("-c", "unix_socket_directories=", "-c", "fsync=off",
               "-c", f"max_connections={connections + 20}")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
            **user)
        while server.poll() is None:
            ready = subprocess.run(
                [postgres_tool("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)],
                check=False)
            if ready.returncode == 0:
                return server, port
            time.sleep(0.1)
    fail("PostgreSQL does not start")


@contextlib.contextmanager
def postgres(root, connections):
    """Starts PostgreSQL, with its data in a folder; yields its port. It does not run as root."""
    user = ({"user": "postgres", "group": "postgres", "extra_groups": []}
            if os.getuid() == 0 else {})
    data = root + "/data"
    os.chmod(root, 0o755)
    os.mkdir(data, 0o700)
    if user:
        shutil.chown(data, "postgres")
    subprocess.run([postgres_tool("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-N",
                    "--locale=C"], cwd="/", check=True, stdout=subprocess.DEVNULL,
                   timeout=PATIENCE, **user)
    server, port = start_postgres(data, connections, user)
    try:
        yield port
    finally:
        stop(server)


def start_nginx(root):
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    for _ in range(20):
        port = free_port()
        with open(f"{root}/nginx.conf", "w", encoding="ascii") as config:
            config.write(NGINX.format(root=root, port=port))
        server = subprocess.Popen([program, "-e", f"{root}/error.log", "-c", f"{root}/nginx.conf"],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return server, port
            except OSError:
                time.sleep(0.05)
    fail("nginx does not start")


@contextlib.contextmanager
def nginx(root):
    """Starts nginx, which serves a folder; yields its port. /slow is sent at 20,000 bytes a
    second."""
    os.chmod(root, 0o755)
    server, port = start_nginx(root)
    try:
        yield port
    finally:
        stop(server)
