#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
`make chaos-relay` for a moment: the relay survives faults at its backends and its own reloads, no
lasting connection breaks, and few clients fail: those to which an endpoint gave a wrong answer
before its checks noticed. The test does not assert how late the answers are.
"""
import os
import subprocess
import sys

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
SUBJECTS = ["sennit-relay", "sennit-relay-pid1"]

done = subprocess.run([sys.executable, f"{SOURCE}/bench/relay/chaos.py", BUILD, "--seconds=22",
                       "--rate=20", "--only=" + ",".join(SUBJECTS)],
                      capture_output=True, text=True, timeout=300, check=False)
print(done.stdout + done.stderr)
if done.returncode:
    sys.exit(done.returncode)
rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()
        if line.startswith("| sennit-relay")]
assert [row[0] for row in rows] == SUBJECTS
for _, asked, failed, refused, *_ in rows:
    assert int(asked) > 0 and int(failed) * 20 <= int(asked), "too many have failed"
    assert refused == "0", "a listener was away"
