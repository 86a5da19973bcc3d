#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: musl
"""examples/line-server.c: each command is answered, however the bytes arrive, and no answer waits
for further commands."""
import os
import random
import socket
import subprocess
import sys

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-line-server")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
server = subprocess.Popen([*launcher, program, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
seed = int(os.environ.get("SENNIT_TEST_SEED") or random.randrange(2**32))
chance = random.Random(seed)
print(f"seed {seed} (repeat with SENNIT_TEST_SEED)")


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    server.kill()
    sys.exit(1)


def checksum(data):
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 % 2**32
    return b"%08x\n" % value


def some_command():
    """A command, and its answer."""
    kind = chance.randrange(5)
    if kind == 0:
        data = chance.randbytes(chance.randrange(20000))
        return b"sum %d\r\n" % len(data) + data, checksum(data)
    if kind == 1:
        return b"x" * chance.randrange(1000, 9000) + b"\n", b"that line is too long\n"
    if kind == 2:
        return b"what?\n", b"there is echo TEXT, sum SIZE and quit\n"
    text = bytes(chance.choice(b"a \0\r") for _ in range(chance.randrange(994))).rstrip(b"\r")
    return b"echo " + text + chance.choice((b"\n", b"\r\n")), text + b"\n"


class Client:
    def __init__(self):
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def hears(self, expected):
        got = self.file.readline()
        if got != expected:
            fail(f"heard {got[:100]!r} instead of {expected[:100]!r}")


line = server.stdout.readline()
if not line.startswith("listening on "):
    fail(f"did not start: {line!r}")
host, port = line.split()[-1].rsplit(":", 1)
address = (host, int(port))

# One after the other: each answer comes without another command.
ada = Client()
for _ in range(50):
    command, answer = some_command()
    ada.socket.sendall(command)
    ada.hears(answer)

# All commands together, in pieces; and the first is answered when half of the next one has come.
for _ in range(20):
    bob = Client()
    commands, answers = zip(*(some_command() for _ in range(20)))
    stream = b"".join(commands) + b"echo ha"
    while stream:
        size = chance.choice((1, 7, 500, 5000, 100000))
        bob.socket.sendall(stream[:size])
        stream = stream[size:]
    for answer in answers:
        bob.hears(answer)
    bob.socket.sendall(b"lf\nquit\necho too late\n")
    bob.hears(b"half\n")
    bob.hears(b"")

# A command that is cut off gets no answer, but the earlier ones do.
for end in (b"echo two", b"sum 10\n123", b""):
    eve = Client()
    eve.socket.sendall(b"echo one\n" + end)
    eve.socket.shutdown(socket.SHUT_WR)
    eve.hears(b"one\n")
    eve.hears(b"")

server.kill()
server.wait()
