#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/chat.cc: clients receive the others' lines, in order; a client that reads nothing is
dropped."""
import os
import socket
import subprocess
import sys

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-chat")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
server = subprocess.Popen([*launcher, program, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    server.kill()
    sys.exit(1)


class Client:
    def __init__(self, number):
        # The connection exists before its session, which receives the client's lines only after the
        # greeting.
        self.socket = socket.create_connection(address, timeout=60)
        self.file = self.socket.makefile("r", encoding="utf-8")
        self.hears(f"* you are {number}\n")

    def say(self, text):
        self.socket.sendall(text.encode())

    def hears(self, expected):
        got = self.file.readline()
        if got != expected:
            fail(f"heard {got!r} instead of {expected!r}")


line = server.stdout.readline()
if not line.startswith("listening on "):
    fail(f"did not start: {line!r}")
host, port = line.split()[-1].rsplit(":", 1)
address = (host, int(port))

ada = Client(1)
bob = Client(2)
ada.hears("* 2 is here\n")
eve = Client(3)
ada.hears("* 3 is here\n")
bob.hears("* 3 is here\n")
for i in range(50):
    ada.say(f"line {i}\n")
ada.say("in pie")
ada.say("ces\n")
for other in (bob, eve):
    for i in range(50):
        other.hears(f"1: line {i}\n")
    other.hears("1: in pieces\n")
eve.socket.close()
eve.file.close()
ada.hears("* 3 has left\n")
bob.hears("* 3 has left\n")

# This client reads nothing, so the kernel's buffers and its channel fill up. The others receive
# everything.
silent = Client(4)
ada.hears("* 4 is here\n")
bob.hears("* 4 is here\n")
long_line = "x" * 20000 + "\n"
gone = False
for i in range(2000):
    ada.say(long_line)
    got = bob.file.readline()
    if got == "* 4 has left\n":
        gone = True
        break
    if got != "1: " + long_line:
        fail(f"bob heard something else, {len(got)} characters")
if not gone:
    fail("the client that reads nothing was not dropped")

server.kill()
server.wait()
