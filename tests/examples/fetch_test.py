#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: musl
"""examples/fetch.c against a real HTTP server: every page once, within the rate, with deadlines."""
import http.server
import os
import subprocess
import sys
import threading
import time

program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-fetch")
launcher = os.environ.get("SENNIT_LAUNCHER", "").split()
times = []
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with lock:
            times.append(time.monotonic())
        if self.path == "/slow":
            time.sleep(5)
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 1000)

    def log_message(self, *_):
        pass


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"127.0.0.1:{server.server_address[1]}"

paths = [f"/{i}" for i in range(15)] + ["/missing", "/slow"]
for attempt in range(5):
    times.clear()
    began = time.monotonic()
    result = subprocess.run([*launcher, program, address, "20", *paths], capture_output=True,
                            text=True, timeout=100, check=False)
    if result.returncode != 0:
        fail(f"exited with {result.returncode}: {result.stderr}")
    said = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    if sorted(said) != sorted(paths):
        fail(f"not exactly one line for each page: {result.stdout}")
    # Tries again if the machine stalled for the two seconds that a page may take.
    if not any("timed out" in said[path] for path in paths[:-1]):
        break
for path in paths[:15]:
    if not said[path].startswith("200, ") or not said[path].endswith(" bytes"):
        fail(f"{path}: {said[path]}")
if not said["/missing"].startswith("404, "):
    fail(f"/missing: {said['/missing']}")
if "timed out" not in said["/slow"]:
    fail(f"/slow: {said['/slow']}")
# 17 pages at 20 a second: the last one starts at least 16 periods after the beginning. (The time of
# the first request does not matter: the server's thread may have seen it late.)
if max(times) - began < 16 / 20:
    fail(f"17 pages in {max(times) - began:.3f} s are more than 20 a second")

result = subprocess.run([*launcher, program, "127.0.0.1:1", "100", "/a"], capture_output=True,
                        text=True, timeout=100, check=False)
if "/a: Connection refused" not in result.stdout:
    fail(f"without a server: {result.stdout!r} {result.stderr!r}")
result = subprocess.run([*launcher, program], capture_output=True, text=True, timeout=100, check=False)
if result.returncode != 2 or "usage:" not in result.stderr:
    fail(f"no arguments: {result.returncode} {result.stderr!r}")
