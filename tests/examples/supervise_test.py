#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: musl
"""examples/supervise.c: restarts a program when it ends, and after a line on stdin; ends on a
signal."""
import os
import re
import signal
import subprocess
import sys

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-supervise")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    supervisor.kill()
    sys.exit(1)


def start(*arguments):
    return subprocess.Popen([*launcher, program, *arguments], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, bufsize=1)


def expect(pattern):
    line = supervisor.stdout.readline().rstrip("\n")
    found = re.fullmatch(pattern, line)
    if not found:
        fail(f"printed {line!r} instead of {pattern!r}")
    return found


def gone(pid):
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    return False


# The program ends by itself, with different statuses.
supervisor = start("-d", "20", "sh", "-c", "exit 3")
for _ in range(5):
    expect(r"started, process \d+")
    expect("ended with 3")
supervisor.send_signal(signal.SIGTERM)
rest = supervisor.stdout.read()
if supervisor.wait(60) != 0:
    fail(f"exited with {supervisor.returncode}, {rest!r}")

# A line restarts the program, but the end of the input does not; SIGINT ends both.
supervisor = start("-d", "20", "sleep", "3600")
first = expect(r"started, process (\d+)")[1]
supervisor.stdin.write("\n")
expect("ended with 143")
if not gone(first):
    fail("the first one is still there")
second = expect(r"started, process (\d+)")[1]
supervisor.stdin.close()
supervisor.send_signal(signal.SIGINT)
expect("ended with 143")
if supervisor.wait(60) != 0 or not gone(second):
    fail(f"exited with {supervisor.returncode}")

supervisor = start("-d", "20", "/nonexistent/program")
for _ in range(3):
    expect("cannot start /nonexistent/program: No such file or directory")
supervisor.terminate()
supervisor.stdout.read()
if supervisor.wait(60) != 0:
    fail(f"exited with {supervisor.returncode}")

done = subprocess.run([*launcher, program], stderr=subprocess.PIPE, text=True, check=False)
if done.returncode != 2 or not done.stderr.startswith("usage: "):
    fail(f"without arguments: {done.returncode}, {done.stderr}")
