#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: musl
"""examples/udp-fan-out.c: connections are recognized by their ids, from whatever address their
datagrams come. The client in its first lines prints the answers."""
import os
import re
import socket
import subprocess
import sys

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-udp-fan-out")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
PATIENCE = 60


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


def client(port):
    sock = socket.socket(type=socket.SOCK_DGRAM)
    sock.settimeout(PATIENCE)
    sock.connect(("127.0.0.1", port))
    return sock


server = subprocess.Popen([*launcher, program, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
try:
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    first, second = client(port), client(port)
    ids = [b"conn%04d" % i for i in range(30)]
    totals = dict.fromkeys(ids, 0)
    for turn in range(20):
        # The clients take turns, so each connection changes its address.
        sock = (first, second)[turn % 2]
        for each in ids:
            sock.send(each + b"x" * turn)
            totals[each] += turn
        answers = {}
        for _ in ids:
            got = sock.recv(2000)
            answers[got[:8]] = got[8:]
        expected = {each: b"%d bytes" % total for each, total in totals.items()}
        if answers != expected:
            fail(f"turn {turn}: {answers} instead of {expected}")
    # Datagrams without an id, or too large ones, are dropped, and the others continue.
    first.send(b"short")
    first.send(b"")
    first.send(ids[0] + b"x" * 3000)
    first.send(ids[0])
    if first.recv(2000) != ids[0] + b"%d bytes" % totals[ids[0]]:
        fail("what was dropped was counted")
    # The client that the first lines of the program show.
    with open(os.path.join(os.environ["SENNIT_SOURCE_DIR"], "examples/udp-fan-out.c"),
              encoding="utf-8") as file:
        typed = re.search(r"python3 -c '([^']*)'", file.read())[1].replace("\n *\t", "\n")
    done = subprocess.run([sys.executable, "-c", typed.replace("5301", str(port))], text=True,
                          capture_output=True, timeout=PATIENCE, check=False)
    if done.stdout != "".join(f"b'12345678{5 * n} bytes'\n" for n in (1, 2, 3)):
        fail(f"the client of the first lines prints {done.stdout}{done.stderr}")
    if server.poll() is not None:
        fail(f"the server has ended with {server.returncode}")
    first.close()
    second.close()
finally:
    server.kill()
    server.wait()
    server.stdout.close()
