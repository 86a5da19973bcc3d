#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
examples/c-ares.c against dnsmasq: several names at a time, some of which do not exist; and a server
that does not answer.
"""
import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_port  # noqa: E402

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-c-ares")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
NAMES = 50
PATIENCE = 250


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


def run(*arguments, **environment):
    return subprocess.run([*launcher, program, *arguments], capture_output=True, text=True,
                          timeout=PATIENCE, check=False, env=os.environ | environment)


def serve():
    """Starts dnsmasq, which may have to be given another port than one that was just free."""
    for _ in range(20):
        port = free_port()
        server = subprocess.Popen(
            [dnsmasq, "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
             "--user=", "--group=", "--pid-file=", "--listen-address=127.0.0.1",
             "--bind-interfaces", f"--port={port}", "--local=/test/",
             *(f"--host-record=host{i}.test,192.0.2.{i},2001:db8::{i:x}" for i in range(NAMES))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return server, port
            except OSError:
                time.sleep(0.05)
    fail("dnsmasq does not start")


def check(port):
    server = f"127.0.0.1:{port}"
    done = run("-s", server, *(f"host{i}.test" for i in range(NAMES)))
    right = sorted(line for i in range(NAMES) for line in
                   (f"host{i}.test: 192.0.2.{i}", f"host{i}.test: {address6(i)}"))
    if done.returncode or sorted(done.stdout.splitlines()) != right:
        fail(f"{NAMES} names: {done.returncode}, {done.stdout}{done.stderr}")
    done = run("-s", server, "host1.test", "none.test")
    if done.returncode != 1 or "none.test: " not in done.stderr or "192.0.2.1" not in done.stdout:
        fail(f"a name that does not exist: {done.returncode}, {done.stdout}{done.stderr}")
    # Bound, so that nothing else answers there.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        # Two tries of 300 ms; the default takes more than a minute.
        done = run("-s", f"127.0.0.1:{silent.getsockname()[1]}", "host1.test", "host2.test",
                   RES_OPTIONS="retrans:300 retry:2")
    if done.returncode != 1 or len(done.stderr.splitlines()) != 2 or done.stdout:
        fail(f"no answer: {done.returncode}, {done.stdout}{done.stderr}")
    for wrong in ([], ["-s", server]):
        done = run(*wrong)
        if done.returncode != 2 or not done.stderr.startswith("usage: "):
            fail(f"{wrong}: {done.returncode}, {done.stdout}{done.stderr}")


def address6(i):
    return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, f"2001:db8::{i:x}"))


dnsmasq = shutil.which("dnsmasq", path=os.environ["PATH"] + ":/usr/sbin")
if not os.path.exists(program):
    print("skipped: there is no libc-ares-dev for this architecture")
    sys.exit(77)
dns, dns_port = serve()
try:
    check(dns_port)
finally:
    dns.terminate()
    dns.wait()
