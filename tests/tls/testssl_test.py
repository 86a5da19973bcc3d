#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: once nightly
"""
testssl.sh has no complaint about the example tls-server: its versions, ciphers, forward secrecy and
preferences. Its tests of old vulnerabilities take longer, and its opinion of the certificate says
nothing about the server; run it without options for these.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_port  # noqa: E402

SERVER = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples", "example-tls-server")
LAUNCHER = os.environ.get("SENNIT_LAUNCHER", "").split()
PATIENCE = 280
scanner = shutil.which("testssl") or shutil.which("testssl.sh")

if LAUNCHER or not os.path.exists(SERVER):
    print("skipped: the server runs under an emulator, or was not built")
    sys.exit(77)
if not scanner or not shutil.which("openssl"):
    print("skipped: there is no testssl.sh, or no openssl command")
    sys.exit(77)


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


def start(folder):
    """The server and its port, which it has found free."""
    subprocess.run(["openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-subj", "/CN=localhost", "-keyout",
                    f"{folder}/key", "-out", f"{folder}/chain"], check=True, capture_output=True)
    for _ in range(20):
        port = free_port()
        process = subprocess.Popen([SERVER, f"127.0.0.1:{port}", f"{folder}/chain",
                                    f"{folder}/key"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return process, port
            except OSError:
                time.sleep(0.02)
    return fail("the server does not start")


def scan(folder, port):
    # Asks no name server, because there may be none.
    subprocess.run([scanner, "--quiet", "--nodns", "none", "--color", "0", "--warnings", "batch",
                    "--openssl-timeout", "60", "--protocols", "--std", "--fs",
                    "--server-preference", "--jsonfile", f"{folder}/found",
                    f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE,
                   check=False)
    with open(f"{folder}/found", encoding="utf-8") as file:
        return json.load(file)


with tempfile.TemporaryDirectory() as scratch:
    server, at = start(scratch)
    try:
        found = scan(scratch, at)
    finally:
        server.kill()
        server.wait()
good = [each["id"] for each in found if each["severity"] == "OK"]
bad = [each for each in found if each["severity"] in ("LOW", "MEDIUM", "HIGH", "CRITICAL")]
if bad:
    fail(f"testssl.sh complains: {bad}")
# Shows that testssl.sh has checked anything at all.
for needed in ("SSLv3", "TLS1_2", "TLS1_3", "cipherlist_NULL", "cipherlist_LOW",
               "cipher_order"):
    if needed not in good:
        fail(f"testssl.sh has not found {needed} good: {found}")
print(f"{len(good)} findings, all good")
