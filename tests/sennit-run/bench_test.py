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


def run(script, *words):
    done = subprocess.run([sys.executable, f"{source}/bench/run/{script}", build, "--rounds", "1",
                           "--connections", "50", *words],
                          capture_output=True, text=True, timeout=250, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def check(text, name, columns):
    for way in "sennit-run", "threads":
        row = rf"^\| {name} \| {way} (\| [0-9.,]+ \([0-9.,]+\) ){{{columns}}}\|$"
        if not re.search(row, text, re.M):
            sys.exit(f"{name}, {way}: {text}")


output = run("run.py", "--few", "5", "--seconds", "0.1")
for program in "microsocks", "tinyproxy":
    if shutil.which(program):
        check(output, program, 5)
    elif f"| {program} | NOT MEASURED" not in output:
        sys.exit(f"{program} is missing, and no row says so: {output}")

output = run("siege.py", "--requests", "3", "--paced", "2", "--delay", "1")
if shutil.which("siege"):
    check(output, "without pauses", 4)
    check(output, "pauses up to 1 s", 4)
elif "NOT MEASURED" not in output:
    sys.exit(f"siege is missing, and no line says so: {output}")
