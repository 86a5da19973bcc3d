#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: musl
"""examples/dns-server.c: answers for names that exist, for names that do not, and for malformed
questions."""
import os
import random
import socket
import struct
import subprocess
import sys
import time

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-dns-server")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
PATIENCE = 60


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


def question(name, kind=1, number=0x1234):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, 1)


def ask(sock, message):
    """Repeats the question each second, as clients do, because the system drops datagrams for which
    a slow server has no room."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        sock.send(message)
        try:
            while (got := sock.recv(600))[:2] != message[:2]:
                pass  # the answer to an earlier question
            return got
        except TimeoutError:
            pass
    fail("no answer")


def check(sock, name, kind, code, address):
    asked = question(name, kind, random.randrange(65536))
    got = ask(sock, asked)
    number, flags, questions, answers, *_ = struct.unpack(">6H", got[:12])
    if number != struct.unpack(">H", asked[:2])[0] or flags & 0x8000 == 0 or flags & 15 != code:
        fail(f"{name}: {got.hex()}")
    if questions != 1 or answers != (1 if address else 0) or got[12:len(asked)] != asked[12:]:
        fail(f"{name}: {got.hex()}")
    if address and socket.inet_ntoa(got[-4:]) != address:
        fail(f"{name}: {got.hex()}")


server = subprocess.Popen([*launcher, program, "0.0.0.0:0"], stdout=subprocess.PIPE, text=True)
try:
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    # Each address of the machine answers what it is asked, because a connected socket would not
    # receive an answer from another one.
    for host in ("127.0.0.1", "127.0.0.2"):
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            sock.settimeout(1)
            sock.connect((host, port))
            for _ in range(20):
                check(sock, "one.example", 1, 0, "192.0.2.1")
                check(sock, "TWO.example", 1, 0, "192.0.2.2")
                check(sock, "one.example", 28, 0, None)
                check(sock, "three.example", 1, 3, None)
            # Malformed questions get an error or no answer, and the server continues.
            if ask(sock, question("one.example")[:20])[3] & 15 != 1:
                fail("a question that ends too early is no format error")
            rng = random.Random(4711)
            for _ in range(300):
                broken = bytearray(question("one.example"))
                for _ in range(3):
                    broken[rng.randrange(len(broken))] = rng.randrange(256)
                sock.send(broken[:rng.randrange(len(broken) + 1)])
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        sock.connect(("127.0.0.1", port))
        check(sock, "localhost", 1, 0, "127.0.0.1")
    if server.poll() is not None:
        fail(f"the server has ended with {server.returncode}")
finally:
    server.kill()
    server.wait()
    server.stdout.close()
