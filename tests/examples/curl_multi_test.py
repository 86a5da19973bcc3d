#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
examples/curl-multi.c against nginx: 500 transfers that last for seconds, all at the same time,
without a thread for each; and its messages about a missing page and a port without a server.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from servers import (PATIENCE, check, connections_to, example, fail, nginx, run, start,  # noqa
                     watch)

program = example("curl-multi", needs="libcurl4-openssl-dev")
TRANSFERS = 500


def check_answers(base):
    done = run(program, f"{base}/small", f"{base}/missing")
    if done.returncode or sorted(done.stdout.splitlines())[1] != f"{base}/small: 200, 5 bytes":
        fail(f"two pages: {done.returncode}, {done.stdout}{done.stderr}")
    if f"{base}/missing: 404, " not in done.stdout:
        fail(f"a missing page: {done.stdout}")
    done = run(program, "http://127.0.0.1:1/")
    if done.returncode != 1 or "http://127.0.0.1:1/: " not in done.stderr or done.stdout:
        fail(f"no server: {done.returncode}, {done.stdout}{done.stderr}")
    for wrong in ([], ["-n", "0", base], ["-n", "x", base]):
        done = run(program, *wrong)
        if done.returncode != 2 or not done.stderr.startswith("usage: "):
            fail(f"{wrong}: {done.returncode}, {done.stdout}{done.stderr}")


with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/small", "wb") as file:
        file.write(b"small")
    with open(f"{folder}/slow", "wb") as file:
        file.write(b"x" * 100000)
    with nginx(folder) as port:
        at = f"http://127.0.0.1:{port}"
        check_answers(at)
        # 100,000 bytes at 20,000 a second: the transfers overlap on the slowest machine.
        client = start(program, "-n", str(TRANSFERS), f"{at}/slow")
        seen = watch(client, TRANSFERS * 9 // 10, lambda: connections_to(port))
        said = client.communicate(timeout=PATIENCE)[0].splitlines()
        if client.returncode or said != [f"{at}/slow: 200, 100000 bytes"] * TRANSFERS:
            fail(f"{TRANSFERS} transfers: {client.returncode}, {said[:3]}, {len(said)} lines")
        check(seen, TRANSFERS * 9 // 10)
