#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
examples/tls-echo.c with many clients at the same time, half of which do not speak TLS. Their errors
affect no other client: each of the rest gets its bytes back and a clean end.
"""
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-tls-echo")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
CLIENTS = 40
PATIENCE = 250


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


if not os.path.exists(program):
    print("skipped: there is no libssl-dev for this architecture")
    sys.exit(77)

wrong = []


def talk(port, number):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
            with context.wrap_socket(plain) as conn:
                for i in range(10):
                    text = f"{number} says {i}".encode() * 500
                    conn.sendall(text)
                    got = b""
                    while len(got) < len(text):
                        part = conn.recv(65536)
                        if not part:
                            raise EOFError(f"after {len(got)} of {len(text)} bytes")
                        got += part
                    if got != text:
                        raise ValueError("the echo differs from what was sent")
                conn.unwrap()
    except (OSError, EOFError, ValueError) as error:
        wrong.append(f"client {number}: {error!r}")


def disturb(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as conn:
            conn.sendall(b"this is not TLS, but long enough to be looked at\n")
            while conn.recv(4096):
                pass
    except OSError:
        pass  # a reset is as good


with tempfile.TemporaryDirectory() as folder:
    cert, key = folder + "/cert.pem", folder + "/key.pem"
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", cert],
            check=True, capture_output=True, timeout=PATIENCE)
    except FileNotFoundError:
        print("skipped: no openssl")
        sys.exit(77)
    with subprocess.Popen([*launcher, program, "127.0.0.1:0", cert, key], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as server:
        try:
            line = server.stdout.readline()
            if not line.startswith("listening on 127.0.0.1:"):
                fail(f"said {line!r}")
            port = int(line.rsplit(":", 1)[1])
            threads = []
            for n in range(CLIENTS):
                threads.append(threading.Thread(target=talk, args=(port, n)))
                threads.append(threading.Thread(target=disturb, args=(port,)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ends = [server.stdout.readline().strip() for _ in range(2 * CLIENTS)]
        finally:
            server.kill()
if wrong:
    fail("\n".join(wrong))
clean = ends.count("clean end")
if clean != CLIENTS:
    fail(f"{clean} clean ends, not {CLIENTS}: {sorted(set(ends))}")
