#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs of `make bench-files` work: each operation in each way, for a moment. The test
asserts no figures."""
import os
import re
import subprocess
import sys

source, build = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
command = [sys.executable, f"{source}/bench/files/files.py"]
done = subprocess.run([*command, build, "--quick"], capture_output=True, text=True, timeout=250,
                      check=False)
if done.returncode != 0:
    sys.exit(done.stderr)
for operation in "cached read", "direct read", "write and fdatasync":
    for way in "sennit, tasks", "threads", "io_uring, bare":
        row = re.search(rf"^\| {operation} \| {way} \| (.*)$", done.stdout, re.M)
        if not row or not re.match(r"[0-9.]+ \(|the system does not allow it", row[1]):
            sys.exit(f"{operation}, {way}: {done.stdout}")
if subprocess.run([*command, "/nowhere"], capture_output=True, timeout=250, check=False).returncode == 0:
    sys.exit("it accepts a build that does not exist")
