#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs of `make bench-copy` work: each relay passes bytes on for a moment, Go's only where it is
installed. The test asserts no figures.
"""
import contextlib
import os
import re
import socket
import subprocess
import sys

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
PORTS = 20  # copy.py takes so many in a row


def free_ports():
    """The first, from below those that the system gives to others that ask for any."""
    for first in range(12000 + os.getpid() % 5000, 32000, PORTS):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + PORTS):
                probe = stack.enter_context(socket.socket())
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
            return first
    print("skipped: there are no free ports")
    sys.exit(77)


done = subprocess.run([sys.executable, f"{SOURCE}/bench/copy/copy.py", BUILD, "--rounds", "1",
                       "--seconds", "0.1", "--chunks", "64", "--port", str(free_ports())],
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
