#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: musl
"""examples/shutdown.c: after SIGTERM sessions continue until the deadline, and are then cut."""
import os
import signal
import socket
import subprocess
import sys

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-shutdown")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()


def fail(server, text):
    print(f"FAILED: {text}", file=sys.stderr)
    server.kill()
    sys.exit(1)


def expect(server, line):
    got = server.stdout.readline()
    if got != line + "\n":
        fail(server, f"printed {got!r} instead of {line!r}")


def start(grace_ms):
    server = subprocess.Popen([*launcher, program, "127.0.0.1:0", str(grace_ms), "7200000"],
                              stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    if not line.startswith("listening on "):
        fail(server, f"did not start: {line!r}")
    host, port = line.split()[-1].rsplit(":", 1)
    client = socket.create_connection((host, int(port)), timeout=60)
    echo(server, client)
    return server, client, (host, int(port))


def echo(server, client):
    client.sendall(b"hello\n")
    got = client.recv(100)
    if got != b"hello\n":
        fail(server, f"echoed {got!r}")


def shut_down(server):
    server.send_signal(signal.SIGTERM)
    expect(server, "shutting down")


def ends(server, line):
    expect(server, line)
    if server.wait(60) != 0:
        fail(server, f"exited with {server.returncode}")


# A session that finishes in time.
server, client, address = start(3600 * 1000)
shut_down(server)
echo(server, client)
client.close()
ends(server, "all sessions had ended")
try:
    socket.create_connection(address, timeout=60)
    fail(server, "still accepts")
except ConnectionRefusedError:
    pass

# A session that does not.
server, client, address = start(200)
shut_down(server)
if client.recv(100) != b"":
    fail(server, "the session was not cut")
ends(server, "some sessions were cut")
client.close()

# With an address that is not available, the program ends without waiting for a signal.
server = subprocess.run([*launcher, program, "127.0.0.1:x"], stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL, text=True, timeout=60)
if server.returncode != 1 or server.stdout:
    print(f"FAILED: a wrong address: {server.returncode} {server.stdout!r}", file=sys.stderr)
    sys.exit(1)
