#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
examples/postgres.c against PostgreSQL: 150 queries that last for seconds, all at a time, without a
thread for any of them; and what it says of a wrong query and of a port without a server.
"""
import glob
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-postgres")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
QUERIES = 150
PATIENCE = 250
PROCESSORS = 2
# PostgreSQL does not run as root.
USER = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


def tool(name):
    """The newest, instead of Debian's wrappers."""
    return (sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name)])[-1]


def run(*arguments):
    return subprocess.run([*launcher, program, *arguments], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


def threads_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("Threads:")).split()[1])


def connections_to(port):
    """How many connections are established at a port of this machine, seen from the clients."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows[1:])


def serve(root):
    """Starts PostgreSQL, which may have to be given another port than one that was just free."""
    data = root + "/data"
    os.mkdir(data, 0o700)
    if USER:
        shutil.chown(data, "postgres")
    subprocess.run(
        [tool("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-N", "--locale=C"], cwd="/",
        check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE, **USER)
    for _ in range(20):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen(
            [tool("postgres"), "-D", data, "-p", str(port), "-h", "127.0.0.1",
             *("-c", "unix_socket_directories=", "-c", "fsync=off",
               "-c", f"max_connections={QUERIES + 20}")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
            **USER)
        while server.poll() is None:
            ready = subprocess.run(
                [tool("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)], check=False)
            if ready.returncode == 0:
                return server, port
            time.sleep(0.1)
    fail("PostgreSQL does not start")


def check(port):
    where = f"host=127.0.0.1 port={port} user=postgres"
    # Larger than a socket's buffer, in both directions.
    done = run(where, f"select generate_series(1, 1000), '{'x' * 100000}'", "3")
    if done.returncode or done.stdout != "1000 rows\n" * 3:
        fail(f"large queries: {done.returncode}, {done.stdout}{done.stderr}")
    done = run(where, "select no_such_column")
    if done.returncode != 1 or "no_such_column" not in done.stderr or done.stdout:
        fail(f"a wrong query: {done.returncode}, {done.stdout}{done.stderr}")
    done = run("host=127.0.0.1 port=1 user=postgres", "select 1")
    if done.returncode != 1 or "refused" not in done.stderr or done.stdout:
        fail(f"no server: {done.returncode}, {done.stdout}{done.stderr}")
    for wrong in ([], [where], [where, "select 1", "0"], [where, "select 1", "x"]):
        done = run(*wrong)
        if done.returncode != 2 or not done.stderr.startswith("usage: "):
            fail(f"{wrong}: {done.returncode}, {done.stdout}{done.stderr}")

    client = subprocess.Popen(
        [*launcher, program, where, "select pg_sleep(8)", str(QUERIES)], stdout=subprocess.PIPE,
        text=True, env={**os.environ, "SENNIT_PROCS": str(PROCESSORS)})
    most, threads, at_once = 0, 0, 0
    began = time.monotonic()
    # On a loaded machine, tasks that are slow to begin cost threads, which end when it is over.
    while time.monotonic() - began < PATIENCE / 2:
        at_once = max(at_once, connections_to(port))
        if client.poll() is not None:
            break
        threads = threads_of(client.pid)
        most = max(most, threads)
        if at_once >= QUERIES and threads <= PROCESSORS + 5:
            break
        time.sleep(0.02)
    said = client.communicate(timeout=PATIENCE)[0]
    print(f"{at_once} connections at a time, {threads} threads, {most} at most")
    if client.returncode or said != "1 rows\n" * QUERIES:
        fail(f"{QUERIES} queries: {client.returncode}, {len(said.splitlines())} lines")
    if at_once < QUERIES:
        fail(f"only {at_once} queries at a time")
    # An emulator has threads of its own.
    if threads > PROCESSORS + 5 and not launcher:
        fail(f"{threads} threads")


if not os.path.exists(program):
    print("skipped: there is no libpq-dev for this architecture")
    sys.exit(77)
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    os.chmod(folder, 0o755)
    postgres, sql_port = serve(folder)
    try:
        check(sql_port)
    finally:
        postgres.terminate()
        postgres.wait()
