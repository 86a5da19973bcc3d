#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs of `make bench-copy` work: each relay passes bytes on for a moment, Go's only where it is
installed. The test asserts no figures.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_ports  # noqa: E402

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
PORTS = 20  # copy.py takes so many in a row


done = subprocess.run([sys.executable, f"{SOURCE}/bench/copy/copy.py", BUILD, "--rounds", "1",
                       "--seconds", "0.1", "--chunks", "64", "--port", str(free_ports(PORTS)[0])],
                      capture_output=True, text=True, timeout=200, check=False)
if done.returncode != 0:
    sys.exit(done.stdout + done.stderr)
names = ["sennit", "sennit, userspace", "epoll loop, splice", "epoll loop, copy"]
if "NOT COMPARED WITH Go" not in done.stdout:
    names += ["Go io.Copy, splice", "Go io.Copy, splice defeated"]
# One row of the throughput, and one of the CPU time.
rows = re.findall(r"^\| (.*) \| [\d.]+ \([\d.]+ to [\d.]+\) \|$", done.stdout, re.M)
if rows != 2 * names:
    sys.exit(done.stdout)
