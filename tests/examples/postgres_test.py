#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
examples/postgres.c against PostgreSQL: 150 queries that last for seconds, all at the same time,
without a thread for each; and its messages about a wrong query and a port without a server.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from servers import (PATIENCE, check, connections_to, example, fail, postgres, run, start,  # noqa
                     watch)

program = example("postgres", needs="libpq-dev")
QUERIES = 150


def check_answers(where):
    # Larger than a socket's buffer, in both directions.
    done = run(program, where, f"select generate_series(1, 1000), '{'x' * 100000}'", "3")
    if done.returncode or done.stdout != "1000 rows\n" * 3:
        fail(f"large queries: {done.returncode}, {done.stdout}{done.stderr}")
    done = run(program, where, "select no_such_column")
    if done.returncode != 1 or "no_such_column" not in done.stderr or done.stdout:
        fail(f"a wrong query: {done.returncode}, {done.stdout}{done.stderr}")
    done = run(program, "host=127.0.0.1 port=1 user=postgres", "select 1")
    if done.returncode != 1 or "refused" not in done.stderr or done.stdout:
        fail(f"no server: {done.returncode}, {done.stdout}{done.stderr}")
    for wrong in ([], [where], [where, "select 1", "0"], [where, "select 1", "x"]):
        done = run(program, *wrong)
        if done.returncode != 2 or not done.stderr.startswith("usage: "):
            fail(f"{wrong}: {done.returncode}, {done.stdout}{done.stderr}")


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    with postgres(folder, QUERIES) as port:
        at = f"host=127.0.0.1 port={port} user=postgres"
        check_answers(at)
        client = start(program, at, "select pg_sleep(8)", str(QUERIES))
        seen = watch(client, QUERIES, lambda: connections_to(port))
        said = client.communicate(timeout=PATIENCE)[0]
        if client.returncode or said != "1 rows\n" * QUERIES:
            fail(f"{QUERIES} queries: {client.returncode}, {len(said.splitlines())} lines")
        check(seen, QUERIES)
