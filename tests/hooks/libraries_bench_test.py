#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs with libraries of `make bench-hooks` work: each in each way, for a moment. The test
asserts no figures."""
import os
import re
import subprocess
import sys

source, build = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
done = subprocess.run([sys.executable, f"{source}/bench/libraries/libraries.py", build, "--rounds", "1",
                       "--count", "20"], capture_output=True, text=True, timeout=250, check=False)
if done.returncode == 77:
    print(done.stdout)
    sys.exit(77)
if done.returncode != 0:
    sys.exit(done.stdout + done.stderr)
for library in "libcurl", "OpenSSL", "libpq":
    for way in "hooked tasks", "threads", "its asynchronous interface":
        row = rf"^\| {library} \| {way} \| [0-9.]+ s \| [0-9.]+ s \| [1-9]\d* \| [1-9]\d* MiB \|$"
        if not re.search(row, done.stdout, re.M):
            sys.exit(f"{library}, {way}: {done.stdout}")
