#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
examples/curl-multi.c against nginx: 500 transfers that last for seconds, all at a time, without a
thread for any of them; and what it says of a page that is missing and of a port without a server.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-curl-multi")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
TRANSFERS = 500
PATIENCE = 250
PROCESSORS = 2

CONFIG = """
daemon off;
master_process off;
pid {root}/pid;
error_log {root}/error.log;
worker_rlimit_nofile 4096;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {root}; proxy_temp_path {root}; fastcgi_temp_path {root};
    uwsgi_temp_path {root}; scgi_temp_path {root};
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        root {root};
        location /slow {{ limit_rate 20k; }}
    }}
}}
"""


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


def run(*arguments):
    return subprocess.run([*launcher, program, *arguments], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


def threads_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("Threads:")).split()[1])


def connections_to(port):
    """How many connections are established at a port of this machine, seen from the clients."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows[1:])


def serve(root):
    """Starts nginx, which may have to be given another port than one that was just free."""
    for _ in range(20):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with open(f"{root}/nginx.conf", "w", encoding="ascii") as config:
            config.write(CONFIG.format(root=root, port=port))
        server = subprocess.Popen([nginx, "-e", f"{root}/error.log", "-c", f"{root}/nginx.conf"],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return server, port
            except OSError:
                time.sleep(0.05)
    fail("nginx does not start")


def check(port):
    base = f"http://127.0.0.1:{port}"
    done = run(f"{base}/small", f"{base}/missing")
    if done.returncode or sorted(done.stdout.splitlines())[1] != f"{base}/small: 200, 5 bytes":
        fail(f"two pages: {done.returncode}, {done.stdout}{done.stderr}")
    if f"{base}/missing: 404, " not in done.stdout:
        fail(f"a missing page: {done.stdout}")
    done = run("http://127.0.0.1:1/")
    if done.returncode != 1 or "http://127.0.0.1:1/: " not in done.stderr or done.stdout:
        fail(f"no server: {done.returncode}, {done.stdout}{done.stderr}")
    for wrong in ([], ["-n", "0", base], ["-n", "x", base]):
        done = run(*wrong)
        if done.returncode != 2 or not done.stderr.startswith("usage: "):
            fail(f"{wrong}: {done.returncode}, {done.stdout}{done.stderr}")

    # 100,000 bytes at 20,000 a second: the transfers overlap on the slowest machine.
    client = subprocess.Popen(
        [*launcher, program, "-n", str(TRANSFERS), f"{base}/slow"], stdout=subprocess.PIPE,
        text=True, env={**os.environ, "SENNIT_PROCS": str(PROCESSORS)})
    most, threads, at_once = 0, 0, 0
    began = time.monotonic()
    # On a loaded machine, tasks that are slow to begin cost threads, which end when it is over.
    while time.monotonic() - began < PATIENCE / 2:
        at_once = max(at_once, connections_to(port))
        if client.poll() is not None:
            break
        threads = threads_of(client.pid)
        most = max(most, threads)
        if at_once >= TRANSFERS * 9 // 10 and threads <= PROCESSORS + 5:
            break
        time.sleep(0.02)
    said = client.communicate(timeout=PATIENCE)[0].splitlines()
    print(f"{at_once} connections at a time, {threads} threads, {most} at most")
    if client.returncode or said != [f"{base}/slow: 200, 100000 bytes"] * TRANSFERS:
        fail(f"{TRANSFERS} transfers: {client.returncode}, {said[:3]}, {len(said)} lines")
    if at_once < TRANSFERS * 9 // 10:
        fail(f"only {at_once} transfers at a time")
    # An emulator has threads of its own.
    if threads > PROCESSORS + 5 and not launcher:
        fail(f"{threads} threads")


nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
if not os.path.exists(program):
    print("skipped: there is no libcurl4-openssl-dev for this architecture")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o755)
    with open(f"{folder}/small", "wb") as file:
        file.write(b"small")
    with open(f"{folder}/slow", "wb") as file:
        file.write(b"x" * 100000)
    nginx_process, http_port = serve(folder)
    try:
        check(http_port)
    finally:
        nginx_process.terminate()
        nginx_process.wait()
