#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs with libraries of `make bench-hooks` work: each in each way, for a moment. The test
asserts no figures."""
import os
import re
import subprocess
import sys

source, build = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
# The limit of ctest is longer than this one, which is longer than those of the libraries together.
with subprocess.Popen(
        [sys.executable, f"{source}/bench/libraries/libraries.py", build, "--rounds", "1",
         "--count", "20", "--limit", "80"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "SENNIT_TEST_FEW": "1"}) as bench:
    try:
        out, err = bench.communicate(timeout=650)
    except subprocess.TimeoutExpired:
        bench.terminate()  # it stops its servers
        out, err = bench.communicate()
if bench.returncode == 77:
    print(out)
    sys.exit(77)
if bench.returncode != 0:
    sys.exit(out + err)
WAYS = ["hooked tasks", "threads", "its asynchronous interface"]
EXPECTED = {library: WAYS for library in ("libcurl", "OpenSSL", "libpq", "MariaDB", "hiredis",
                                          "libssh2", "c-ares")}
EXPECTED |= {library: WAYS[:2] for library in ("SQLite", "libzmq", "libmodbus", "libcups", "APR")}
for library, ways in EXPECTED.items():
    rows = re.findall(rf"^\| {library} \| (.*?) \| [1-9]\d* \| [1-9]\d* \| [0-9.]+ s \| [0-9.]+ s "
                      r"\| [1-9]\d* \| [1-9]\d* MiB \|$", out, re.M)
    # Some need programs that may be missing, and then say so.
    if rows != ways and (ways[0] in rows or f"{library} is left out" not in out):
        sys.exit(f"{library}: {out}")
