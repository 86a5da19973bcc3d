#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: gate
"""
Programs that people use, through the relay: PostgreSQL's shell, its benchmark and its dump; a git
clone and a push; rsync both ways; HTTP/2 by h2load; a page in a browser; a WebSocket that stays
open; an agent of a backend and checks of PostgreSQL and Redis, as in the manual. The test compares
what arrives with what arrives without the relay, and every connection must end cleanly.

Environment: as for traffic.py. SENNIT_TRAFFIC_SECONDS (5) is how long the WebSocket stays open, at
least, and how long the benchmarks run. Fails when one of the programs is missing; scripts/setup
test installs them.
"""
import asyncio
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

from browser import Browser
from traffic import BUILD, LAUNCHER, Relay, RelayByConfig, answers, eventually, free_port

SECONDS = int(os.environ.get("SENNIT_TRAFFIC_SECONDS", "5"))
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PROGRAM = BUILD + "/tools/relay/sennit-relay"
GOOD = {"client_end", "server_end"}


def program(name):
    found = shutil.which(name, path=PATH)
    for path in sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")):
        found = path  # the newest, instead of Debian's wrappers
    return found


def digest_of(folder):
    """A digest of the names and contents of all files."""
    all_of_it = hashlib.sha256()
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            full = os.path.join(path, name)
            all_of_it.update(os.path.relpath(full, folder).encode() + b"\0")
            with open(full, "rb") as file:
                all_of_it.update(hashlib.sha256(file.read()).digest())
    return all_of_it.hexdigest()


class Traffic(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.chmod(self.root, 0o755)

    def serve(self, command, port, **options):
        """Starts a server, and waits until it answers at the port."""
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            **options
        )

        def stop():
            if server.poll() is None:
                server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

        self.addCleanup(stop)
        eventually(lambda: server.poll() is not None or answers(port), "a server to start")
        self.assertIsNone(server.poll(), f"{command[0]} has ended")
        return stop

    def relay(self, port, *options):
        relay = Relay("--idle-timeout", "10m", *options, "127.0.0.1:0", f"127.0.0.1:{port}")
        self.addCleanup(relay.stop)
        self.port = int(relay.listens[0].rpartition(":")[2])
        return relay

    def run_program(self, *command, **options):
        done = subprocess.run(command, capture_output=True, timeout=200, **options)
        said = (done.stdout + done.stderr).decode(errors="replace")
        self.assertEqual(done.returncode, 0, f"{command}: {said[-10000:]}")
        return done.stdout

    def finish(self, relay, least=1, causes=GOOD):
        """Waits until all connections have ended, and checks that each ended as it should."""
        eventually(lambda: relay.status()["active"] == 0, "the connections to end")
        listener = relay.status()["listeners"][0]
        ended = {cause for cause, n in listener["ended"].items() if n}
        self.assertLessEqual(ended, causes)
        self.assertGreaterEqual(listener["accepted"], least)
        self.assertEqual(relay.stop(), 0)
        return listener


    def assert_checked(self, name, port, stop):
        """The check of that group in docs/relay-reference.md, at a server that stops later."""
        here = os.path.dirname(os.path.abspath(__file__))
        with open(here + "/../../docs/relay-reference.md", encoding="utf-8") as file:
            said = re.search(rf"\n    \[groups\.{name}\.check\]\n    (\w+ = .*)\n"
                             r"    (expect\w* = .*)\n", file.read())
        text = f"""
            admin = "127.0.0.1:0"
            [listeners.in]
            address = "127.0.0.1:0"
            group = "{name}"
            [groups.{name}]
            backends = ["127.0.0.1:{port}"]
            [groups.{name}.check]
            {said[1]}
            {said[2]}
            interval = "50ms"
            timeout = "20s"
            fall = 1
        """
        with open(self.root + "/check.toml", "w") as file:
            file.write(text)
        checked = subprocess.run([*LAUNCHER, PROGRAM, "--config", file.name, "--check"],
                                 capture_output=True, timeout=60, check=False)
        if b"built without PCRE2" in checked.stderr:
            self.skipTest("there is no PCRE2")
        relay = RelayByConfig(text)
        self.addCleanup(relay.stop)
        backend = lambda: relay.status()["backends"][0]
        eventually(lambda: backend()["checks"] >= 3, "checks")
        self.assertEqual((backend()["state"], backend()["check_failures"]), ("up", 0))
        stop()
        eventually(lambda: backend()["state"] == "down", "the backend to be down")
        self.assertEqual(relay.stop(), 0)


class Postgresql(Traffic):
    def setUp(self):
        super().setUp()
        # PostgreSQL does not run as root.
        self.user = "postgres" if os.getuid() == 0 else None
        data = self.root + "/data"
        os.mkdir(data, 0o700)
        if self.user:
            shutil.chown(data, self.user)
        as_user = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        self.run_program(
            program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-N", "--locale=C",
            cwd="/", **as_user
        )
        self.server_port = free_port()
        self.stop_server = self.serve(
            [
                program("postgres"), "-D", data, "-p", str(self.server_port), "-h", "127.0.0.1",
                *("-c", "unix_socket_directories=", "-c", "fsync=off"),
            ],
            self.server_port, cwd="/", **as_user
        )
        eventually(
            lambda: subprocess.run(
                [program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.server_port)]
            ).returncode == 0,
            "postgresql to be ready",
        )

    def at(self, port):
        return ("-h", "127.0.0.1", "-p", str(port), "-U", "postgres")

    def test_the_check_of_the_manual(self):
        self.assert_checked("postgres", self.server_port, self.stop_server)

    def test_a_session_a_benchmark_and_a_dump(self):
        relay = self.relay(self.server_port)
        psql = (program("psql"), *self.at(self.port), "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1")
        # Large in both directions: rows that come in, rows that go out.
        rows = b"".join(b"%d\t%s\n" % (i, hashlib.sha256(b"%d" % i).hexdigest().encode())
                        for i in range(100000))
        self.run_program(*psql, "-c", "create table t (i int primary key, x text)")
        self.run_program(*psql, "-c", "copy t from stdin", input=rows)
        self.assertEqual(self.run_program(*psql, "-c", "copy (select * from t order by i) to stdout"),
                         rows)
        # A session that is silent for a while, and then continues.
        self.assertEqual(
            self.run_program(*psql, "-c", "select pg_sleep(0.5)", "-c", "select count(*) from t")
            .split(), [b"100000"])

        bench = program("pgbench")
        self.run_program(bench, *self.at(self.port), "-i", "-s", "1", "-q", "postgres")
        said = self.run_program(bench, *self.at(self.port), "-c", "10", "-j", "2",
                                "-T", str(SECONDS), "postgres").decode()
        print(next(line for line in said.splitlines() if line.startswith("tps")))
        self.assertIn("number of failed transactions: 0 (0.000%)", said)

        dump = (program("pg_dump"), "--no-sync")
        through = self.run_program(*dump, *self.at(self.port), "postgres")
        direct = self.run_program(*dump, *self.at(self.server_port), "postgres")
        # Newer versions put a random word into the dump.
        plain = [b"\n".join(line for line in each.splitlines() if b"restrict" not in line)
                 for each in (through, direct)]
        self.assertEqual(plain[0], plain[1])
        self.assertGreater(len(through), 6_000_000)
        listener = self.finish(relay, least=15)
        self.assertGreater(listener["to_client"]["bytes"], 12_000_000)
        self.assertGreater(listener["to_backend"]["bytes"], 6_000_000)


class Files(Traffic):
    def tree(self, folder):
        """Many small files and two large ones."""
        os.makedirs(folder + "/many")
        for i in range(500):
            with open(f"{folder}/many/{i}", "wb") as file:
                file.write(os.urandom(i * 7))
        for i in range(2):
            with open(f"{folder}/large{i}", "wb") as file:
                file.write(os.urandom(16 << 20))

    def test_a_git_clone_and_a_push(self):
        source, bare = self.root + "/source", self.root + "/served/project.git"
        self.tree(source)
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost",
               "-c", "init.defaultBranch=main", "-c", "protocol.version=2")
        self.run_program(*git, "init", "-q", source)
        self.run_program(*git, "-C", source, "add", ".")
        self.run_program(*git, "-C", source, "commit", "-q", "-m", "all")
        self.run_program(*git, "clone", "-q", "--bare", source, bare)
        port = free_port()
        self.serve(["git", "daemon", "--listen=127.0.0.1", f"--port={port}", "--export-all",
                    "--enable=receive-pack", "--reuseaddr", "--base-path=" + self.root + "/served"],
                   port)
        relay = self.relay(port)
        url = f"git://127.0.0.1:{self.port}/project.git"
        clone = self.root + "/clone"
        self.run_program(*git, "clone", "-q", url, clone)
        shutil.rmtree(source + "/.git")
        head = self.run_program(*git, "-C", clone, "rev-parse", "HEAD")
        with open(clone + "/more", "wb") as file:
            file.write(os.urandom(8 << 20))
        self.run_program(*git, "-C", clone, "add", ".")
        self.run_program(*git, "-C", clone, "commit", "-q", "-m", "more")
        self.run_program(*git, "-C", clone, "push", "-q", url, "HEAD:main")
        pushed = self.run_program(*git, "-C", bare, "rev-parse", "main")
        self.assertEqual(pushed, self.run_program(*git, "-C", clone, "rev-parse", "HEAD"))
        self.assertNotEqual(pushed, head)
        self.run_program(*git, "-C", bare, "fsck", "--full", "--strict")
        listener = self.finish(relay, least=2)
        self.assertGreater(listener["to_client"]["bytes"], 32 << 20)
        self.assertGreater(listener["to_backend"]["bytes"], 8 << 20)

    def test_rsync_there_and_back(self):
        source, served, back = (self.root + "/" + name for name in ("source", "served", "back"))
        self.tree(source)
        os.mkdir(served)
        port = free_port()
        with open(self.root + "/rsyncd.conf", "w") as file:
            file.write(f"use chroot = no\n[all]\npath = {served}\nread only = no\n")
            if os.getuid() == 0:
                file.write("uid = root\ngid = root\n")
        self.serve(["rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}",
                    f"--config={self.root}/rsyncd.conf"], port)
        relay = self.relay(port)
        url = f"rsync://127.0.0.1:{self.port}/all/"
        self.run_program("rsync", "-a", source + "/", url)
        self.assertEqual(digest_of(source), digest_of(served))
        # After a change in the middle of a large file, only the difference is sent.
        with open(source + "/large0", "r+b") as file:
            file.seek(5 << 20)
            file.write(b"changed")
        self.run_program("rsync", "-a", "--checksum", source + "/", url)
        self.run_program("rsync", "-a", url, back)
        self.assertEqual(digest_of(source), digest_of(back))
        listener = self.finish(relay, least=3)
        self.assertGreater(listener["to_backend"]["bytes"], 32 << 20)
        self.assertLess(listener["to_backend"]["bytes"], 48 << 20)


NGINX = """
worker_processes 1;
daemon off;
{user}
pid {root}/nginx.pid;
error_log {root}/error.log;
events {{ worker_connections 1024; }}
http {{
	access_log off;
	client_body_temp_path {root}/body;
	proxy_temp_path {root}/proxy;
	fastcgi_temp_path {root}/fastcgi;
	uwsgi_temp_path {root}/uwsgi;
	scgi_temp_path {root}/scgi;
	keepalive_requests 1000000;
	types {{
		text/html html; text/css css; text/javascript js; image/png png; application/json json;
	}}
	server {{ listen 127.0.0.1:{port} {protocol} backlog=1024; root {root}/www; {more} }}
}}
"""

# Once everything is loaded, the scripts put what they have seen into the page.
PAGE = """<!doctype html>
<meta charset="utf-8"><title>before</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
<script src="first.js"></script>
<script type="module" src="second.js"></script>
<h1 id="styled">A page</h1>
%s
<p id="seen"></p>
"""
STYLE = "#styled { color: rgb(1, 2, 3); }\n"
FIRST = "document.title = 'after'; window.first = 1;\n"
SECOND = """
import { digest } from "./third.js";
if (document.readyState !== "complete")
	await new Promise((done) => addEventListener("load", done));
const images = [...document.images];
await Promise.all(images.map((each) => each.decode()));
const large = await (await fetch("large.bin")).arrayBuffer();
const data = await (await fetch("data.json")).json();
document.getElementById("seen").textContent = JSON.stringify({
	first: window.first, colour: getComputedStyle(document.getElementById("styled")).color,
	sizes: images.map((each) => [each.naturalWidth, each.naturalHeight]),
	large: await digest(large), data: data.reduce((sum, each) => sum + each, 0),
});
"""
THIRD = """
export async function digest(bytes) {
	const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
	return [...hash].map((each) => each.toString(16).padStart(2, "0")).join("");
}
"""


def png(width, height):
    """A picture of noise, because noise does not compress."""

    def chunk(kind, body):
        return (struct.pack("!I", len(body)) + kind + body
                + struct.pack("!I", zlib.crc32(kind + body)))

    lines = b"".join(b"\0" + os.urandom(3 * width) for _ in range(height))
    of_picture = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", of_picture)
            + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


class Served(Traffic):
    """Files that nginx serves."""

    def write_files(self, files):
        """Writes the files (contents by name) into a folder for a server."""
        os.mkdir(self.root + "/www")
        for name, content in files.items():
            with open(f"{self.root}/www/{name}", "wb") as file:
                file.write(content)

    def serve_files(self, files, protocol="", more=""):
        """Serves the files (contents by name) with nginx. Returns the port."""
        port = free_port()
        self.write_files(files)
        with open(self.root + "/nginx.conf", "w") as file:
            user = "user root;" if os.getuid() == 0 else ""
            file.write(NGINX.format(root=self.root, port=port, user=user, protocol=protocol,
                                    more=more))
        self.serve([program("nginx"), "-p", self.root, "-c", self.root + "/nginx.conf",
                    "-e", self.root + "/error.log"], port)
        return port


class Page(Served):
    def test_the_check_of_a_page(self):
        """The page is an SSI page, because nginx sends those in chunks."""
        page = b'{"uptime": 17, "status": "ok"}'
        port = self.serve_files({"health": page}, more="ssi on; ssi_types *;")
        seen = self.run_program("curl", "-si", f"http://127.0.0.1:{port}/health")
        self.assertIn(b"Transfer-Encoding: chunked", seen)

        def get_worse():
            with open(self.root + "/www/health", "wb") as file:
                file.write(page.replace(b"ok", b"ill"))

        self.assert_checked("page", port, get_worse)


class Web(Served):
    def test_a_page_in_a_browser(self):
        sizes = [[40 + 30 * i, 200 - 9 * i] for i in range(20)]
        files = {f"{i}.png": png(*size) for i, size in enumerate(sizes)}
        files["large.bin"] = os.urandom(8 << 20)
        files["data.json"] = json.dumps(list(range(50000))).encode()
        of_page = sum(map(len, files.values()))
        images = "".join(f'<img src="{i}.png" alt="{i}">' for i in range(len(sizes)))
        for name, text in (("index.html", PAGE % images), ("style.css", STYLE), ("first.js", FIRST),
                           ("second.js", SECOND), ("third.js", THIRD)):
            files[name] = text.encode()
        log = self.root + "/access.log"
        relay = self.relay(self.serve_files(files), "--access-log", log)
        browser = Browser()
        self.addCleanup(browser.close)
        browser.call("Page.navigate", url=f"http://127.0.0.1:{self.port}/index.html")
        seen = json.loads(eventually(lambda: browser.text("seen"), "the page's scripts to end"))
        self.assertEqual(seen, {
            "first": 1, "colour": "rgb(1, 2, 3)", "sizes": sizes,
            "large": hashlib.sha256(files["large.bin"]).hexdigest(),
            "data": sum(range(50000)),
        })
        self.assertEqual(browser.value("document.title"), "after")
        self.assertEqual(browser.complaints(), [])
        browser.close()

        # A browser that is closed does not wait, and may reset connections.
        causes = GOOD | {"client_reset"}
        listener = self.finish(relay, causes=causes)
        self.assertGreater(listener["to_client"]["bytes"], of_page)
        with open(log) as file:
            lines = [dict(word.split("=", 1) for word in shlex.split(line)) for line in file]
        self.assertEqual(len(lines), listener["accepted"])
        for line in lines:
            self.assertIn(line["cause"], causes)
            self.assertTrue(line["client"].startswith("127.0.0.1:"), line)
        for side in "to_client", "to_backend":
            self.assertEqual(sum(int(line[side]) for line in lines), listener[side]["bytes"])
        print(f"browser: {len(files)} files over {len(lines)} connections")

    def test_http2_by_h2load(self):
        relay = self.relay(self.serve_files(
            {"small": os.urandom(1024), "large": os.urandom(1 << 20)}, "http2"))
        for name, clients, streams, requests in ("small", 100, 10, 20000), ("large", 20, 5, 400):
            said = self.run_program(
                program("h2load"), "-c", str(clients), "-m", str(streams), "-n", str(requests),
                f"http://127.0.0.1:{self.port}/{name}").decode()
            print("h2load", name, next(line for line in said.splitlines() if "finished" in line))
            self.assertIn(f"{requests} succeeded, 0 failed, 0 errored, 0 timeout", said)
        # h2load ends with its last answer, and may reset connections.
        listener = self.finish(relay, least=120, causes=GOOD | {"client_reset"})
        self.assertGreater(listener["to_client"]["bytes"], 400 << 20)

    def test_a_websocket_stays_open(self):
        async def echo(connection, *_):
            async for message in connection:
                await connection.send(message)

        async def talk():
            # A peer that does not answer a ping in time is dropped. A busy machine may be slow.
            options = {"ping_interval": 1, "ping_timeout": 60, "max_size": None}
            async with websockets.serve(echo, "127.0.0.1", 0, **options) as server:
                relay = self.relay(server.sockets[0].getsockname()[1])
                uri = f"ws://127.0.0.1:{self.port}/"
                async with websockets.connect(uri, **options) as client:
                    until = time.monotonic() + SECONDS
                    n = 0
                    while time.monotonic() < until or n <= 5:
                        # Small and large, with silence between.
                        message = os.urandom((10, 100_000, 3_000_000)[n % 3])
                        await client.send(message)
                        self.assertEqual(await client.recv(), message)
                        n += 1
                        await asyncio.sleep(0.2)
                    self.assertEqual(relay.status()["active"], 1)
                print(f"websocket: {n} messages and back in {SECONDS} s")
                # Inside the event loop, because the server has to close its side.
                await asyncio.to_thread(self.finish, relay)

        asyncio.run(talk())


class Redis(Traffic):
    def test_the_check_of_the_manual(self):
        port = free_port()
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
        stop = self.serve(command, port, cwd=self.root)
        self.assert_checked("redis", port, stop)

    def test_the_check_of_a_primary(self):
        port = free_port()
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
        self.serve(command, port, cwd=self.root)
        self.assert_checked("redis-primary", port, lambda: self.run_program(
            "redis-cli", "-p", str(port), "replicaof", "127.0.0.1", str(free_port())))


class Agent(Traffic):
    def test_the_one_of_the_manual(self):
        """The agent in docs/relay.md, except for the place of a file and the port."""
        here = os.path.dirname(os.path.abspath(__file__))
        with open(here + "/../../docs/relay.md") as file:
            lines = file.read().splitlines()
        first = lines.index("    #!/bin/sh")
        script = "\n".join(line.strip() for line in lines[first:first + 3]) + "\n"
        self.assertIn("/run/maintenance", script)
        reason, agent = self.root + "/maintenance", self.root + "/agent"
        with open(agent, "w") as file:
            file.write(script.replace("/run/maintenance", reason))
        os.chmod(agent, 0o755)
        port, unused = free_port(), free_port()
        self.serve(["socat", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork", "EXEC:" + agent],
                   port)
        relay = RelayByConfig(f"""
            admin = "127.0.0.1:0"
            [listeners.web]
            address = "127.0.0.1:0"
            group = "web"
            [groups.web]
            backends = ["127.0.0.1:{unused}"]
            [groups.web.agent]
            port = {port}
            interval = "50ms"
            timeout = "20s"
        """)
        self.addCleanup(relay.stop)

        def said(**what):
            backend = relay.status()["backends"][0]
            return backend | backend["agent"] if what.items() <= backend["agent"].items() else None

        now = eventually(lambda: said(contact="good"), "an answer")
        self.assertTrue(10 <= now["weight_percent"] <= 100, now)
        # By another name at first: the agent must not find the file while it is still empty.
        with open(reason + ".new", "w") as file:
            file.write("a new kernel\n")
        os.rename(reason + ".new", reason)
        now = eventually(lambda: said(admin="maint"), "maintenance")
        self.assertEqual(now["state"], "drained")
        self.assertEqual(now["words"], "drained by its agent (maintenance): a new kernel")
        os.remove(reason)
        now = eventually(lambda: said(admin="ready", words=""), "the end of it")
        self.assertEqual(now["state"], "slow")
        self.assertEqual(relay.stop(), 0)


if __name__ == "__main__":
    wanted = ("postgres", "psql", "pgbench", "pg_dump", "git", "rsync", "nginx", "h2load",
              "chromium", "socat", "redis-server")
    missing = [name for name in wanted if not program(name)]
    if missing:
        sys.exit("not installed (scripts/setup test installs them): " + " ".join(missing))
    try:
        import websockets
    except ModuleNotFoundError:
        # Debian's package is for Debian's Python, which may not be the first in PATH.
        if os.environ.get("SENNIT_SECOND_PYTHON"):
            sys.exit("no websockets for Python; scripts/setup test installs it")
        os.environ["SENNIT_SECOND_PYTHON"] = "1"
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    unittest.main(verbosity=2)
