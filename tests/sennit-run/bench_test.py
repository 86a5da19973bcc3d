#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`make bench-run` works for a moment, for the programs that are installed. The test asserts no
figures."""
import os
import re
import shutil
import subprocess
import sys

source, build = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
done = subprocess.run([sys.executable, f"{source}/bench/run/run.py", build, "--rounds", "1",
                       "--connections", "50", "--few", "5", "--seconds", "0.1"],
                      capture_output=True, text=True, timeout=250, check=False)
if done.returncode != 0:
    sys.exit(done.stdout + done.stderr)
for program in "microsocks", "tinyproxy":
    if not shutil.which(program):
        if f"| {program} | NOT MEASURED" not in done.stdout:
            sys.exit(f"{program} is missing, and no row says so: {done.stdout}")
        continue
    for way in "sennit-run", "threads":
        row = rf"^\| {program} \| {way} (\| [0-9.,]+ \([0-9.,]+\) ){{5}}\|$"
        if not re.search(row, done.stdout, re.M):
            sys.exit(f"{program}, {way}: {done.stdout}")
