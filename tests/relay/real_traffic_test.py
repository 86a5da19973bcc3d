#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The relay between programs that people use: nginx and iperf3's server as backends; curl, wrk and
iperf3 as clients.

Environment: SENNIT_BUILD_DIR (required), SENNIT_LAUNCHER (what to put before a program of the
build), SENNIT_TRAFFIC_SECONDS (how long wrk runs, and iperf3, but at most 2 s; 5, the relay
promises 30), SENNIT_TRAFFIC_MIB (the size of the file that curl gets; 100), SENNIT_RELOADS (how
often the configuration is reloaded while wrk runs; 10, the relay promises 100), SENNIT_HANDOVERS
(how often a new process takes over; the same).

Exit status 77: one of the programs is not installed.
"""
import ctypes
import fcntl
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_port  # noqa: E402

BUILD = os.environ["SENNIT_BUILD_DIR"]
LAUNCHER = shlex.split(os.environ.get("SENNIT_LAUNCHER", ""))
SECONDS = int(os.environ.get("SENNIT_TRAFFIC_SECONDS", "5"))
MIB = int(os.environ.get("SENNIT_TRAFFIC_MIB", "100"))
RELOADS = int(os.environ.get("SENNIT_RELOADS", "10"))
HANDOVERS = int(os.environ.get("SENNIT_HANDOVERS", "10"))
CONNECTIONS = 1000
PATIENCE = 40.0

NGINX_CONF = """
worker_processes 1;
worker_rlimit_nofile 4096;
daemon off;
user {user};
pid {root}/nginx.pid;
error_log {root}/error.log;
events {{ worker_connections 2048; }}
http {{
	access_log off;
	client_body_temp_path {root}/client_body;
	proxy_temp_path {root}/proxy;
	fastcgi_temp_path {root}/fastcgi;
	uwsgi_temp_path {root}/uwsgi;
	scgi_temp_path {root}/scgi;
	server {{
		listen 127.0.0.1:{port} backlog=4096;
		root {root}/www;
	}}
}}
"""


def find_program(name):
    # nginx is in a folder that only root's PATH has.
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin"
    return shutil.which(name, path=path)


def eventually(holds, what):
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            raise AssertionError("waited too long for " + what)
        time.sleep(0.01)


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        return True
    except ConnectionRefusedError:
        return False


def start_on_free_port(command_for):
    """Starts a server that cannot choose a free port itself. Returns the process and the port."""
    for _ in range(10):
        port = free_port()
        server = subprocess.Popen(
            command_for(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # Another process may have taken the port in between, in which case the server ends.
        eventually(
            lambda: server.poll() is not None or accepts(port), "a server to start"
        )
        time.sleep(0.05)
        if server.poll() is None:
            return server, port
    raise AssertionError("the server does not start: " + " ".join(command_for(0)))


def stop(process):
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Relay:
    """The relay in front of a local port, or with a configuration file."""

    def __init__(self, backend_port=None, config=None):
        # Longer than the default: a busy machine may need it, and a cut connection is an error
        # here.
        what = ["--drain", "40s", "127.0.0.1:0", f"127.0.0.1:{backend_port}"]
        self.errors = tempfile.TemporaryFile(mode="w+")
        # The relay shares the open file, whose position said() moves to the beginning.
        fcntl.fcntl(self.errors, fcntl.F_SETFL, os.O_APPEND)
        self.process = subprocess.Popen(
            LAUNCHER
            + [BUILD + "/tools/relay/sennit-relay"]
            + (["--config", config] if config else what),
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            stop(self.process)
            raise AssertionError("the relay did not start: " + self.said())
        self.pid = self.process.pid  # the process that serves now
        self.address = line.split()[-1]
        self.port = int(self.address.rsplit(":", 1)[1])

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def counters(self):

        def lines():
            return [line for line in self.said().splitlines() if " info counters " in line]

        before = len(lines())
        os.kill(self.pid, signal.SIGUSR1)
        eventually(lambda: len(lines()) > before, "the relay's counters")
        last = lines()[-1].split(" counters ", 1)[1]
        return {name: int(value) for name, value in (w.split("=") for w in last.split())}

    def hand_over(self):
        """Makes a new process take over. Returns the old one's id."""
        lines = len(self.successors())
        os.kill(self.pid, signal.SIGUSR2)
        eventually(lambda: len(self.successors()) > lines, "a new process to serve")
        old, self.pid = self.pid, self.successors()[-1]
        return old

    def successors(self):
        return [int(pid) for pid in re.findall(r" handed_over pid=(\d+) ", self.said())]

    def finish(self):
        """Shuts it down gracefully. If that fails, the message has its stderr."""
        eventually(lambda: self.counters()["active"] == 0, "connections to end")
        self.process.terminate()
        status = self.process.wait(PATIENCE)
        if status != 0:
            raise AssertionError(f"the relay exited with {status}: {self.said()}")

    def close(self):
        for pid in self.successors():
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass  # it has ended, and was reaped
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


class Traffic(unittest.TestCase):
    def relay(self, backend_port):
        relay = Relay(backend_port)
        self.addCleanup(relay.close)
        return relay


class BehindItNginx(Traffic):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="traffic-", dir=BUILD)
        cls.addClassCleanup(shutil.rmtree, cls.root, True)
        os.mkdir(cls.root + "/www")
        with open(cls.root + "/www/small", "wb") as small:
            small.write(b"s" * 1024)
        cls.sha256 = hashlib.sha256()
        with open(cls.root + "/www/large", "wb") as large:
            for _ in range(MIB):
                piece = os.urandom(1 << 20)
                large.write(piece)
                cls.sha256.update(piece)

        def command(port):
            with open(cls.root + "/nginx.conf", "w") as conf:
                user = "root" if os.getuid() == 0 else "nobody"
                conf.write(NGINX_CONF.format(root=cls.root, port=port, user=user))
            # -e: where it logs before it has read its configuration.
            return [
                find_program("nginx"),
                "-p",
                cls.root,
                "-c",
                cls.root + "/nginx.conf",
                "-e",
                cls.root + "/error.log",
            ]

        cls.nginx, cls.port = start_on_free_port(command)
        cls.addClassCleanup(stop, cls.nginx)

    def test_curl_gets_a_large_file_byte_for_byte(self):
        relay = self.relay(self.port)
        got = hashlib.sha256()
        with subprocess.Popen(
            [find_program("curl"), "-sSf", f"http://{relay.address}/large"],
            stdout=subprocess.PIPE,
        ) as curl:
            while piece := curl.stdout.read(1 << 20):
                got.update(piece)
        self.assertEqual(curl.returncode, 0)
        self.assertEqual(got.hexdigest(), self.sha256.hexdigest())
        # Bytes can arrive before the relay has counted them.
        eventually(lambda: relay.counters()["active"] == 0, "the connection to end")
        self.assertGreater(relay.counters()["bytes_to_client"], MIB << 20)
        relay.finish()

    def test_wrk_with_a_thousand_connections_sees_no_error(self):
        relay = self.relay(self.port)
        wrk = subprocess.run(
            [
                find_program("wrk"),
                "-t2",
                f"-c{CONNECTIONS}",
                f"-d{SECONDS}s",
                # By default an answer that takes two seconds is an error; on a busy machine any
                # answer may take as long.
                "--timeout",
                "15s",
                f"http://{relay.address}/small",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(wrk.stdout)
        self.assertEqual(wrk.returncode, 0)
        self.assertNotIn("Socket errors", wrk.stdout)
        self.assertNotIn("Non-2xx", wrk.stdout)
        answered = re.search(r"(\d+) requests in", wrk.stdout)
        self.assertIsNotNone(answered)
        self.assertGreater(int(answered.group(1)), 0)
        eventually(lambda: relay.counters()["accepted"] >= CONNECTIONS, "all to be accepted")
        counts = relay.counters()
        for name in "connect_failed", "idle_timeouts", "no_memory", "accept_pauses":
            self.assertEqual(counts[name], 0, name)
        relay.finish()


    def start_wrk(self, relay):
        wrk = subprocess.Popen(
            # Each request has a connection of its own, so that connections are accepted all the
            # time.
            [find_program("wrk"), "-t2", "-c50", "-d600s", "--timeout", "15s"]
            + ["-H", "Connection: close", f"http://{relay.address}/small"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(wrk.stdout.close)
        self.addCleanup(stop, wrk)
        eventually(lambda: relay.counters()["accepted"] > 0, "wrk to begin")
        return wrk

    def end_wrk(self, wrk):
        """Ends wrk, and checks that no request failed."""
        self.assertIsNone(wrk.poll(), "wrk has ended early")
        wrk.send_signal(signal.SIGINT)  # it prints its figures and ends
        said = wrk.communicate(timeout=PATIENCE)[0]
        print(said)
        self.assertEqual(wrk.returncode, 0)
        self.assertNotIn("Socket errors", said)
        self.assertNotIn("Non-2xx", said)

    @unittest.skipIf(LAUNCHER, "a program that executes itself again would escape the emulator")
    def test_wrk_sees_no_error_while_new_processes_take_over(self):
        # This makes new processes children of this one, which can wait for them.
        PR_SET_CHILD_SUBREAPER = 36
        self.assertEqual(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0)
        relay = self.relay(self.port)
        wrk = self.start_wrk(relay)
        for _ in range(HANDOVERS):
            old = relay.hand_over()
            # The new process counts from 0.
            eventually(lambda: relay.counters()["accepted"] > 50, "connections after it")
            if old == relay.process.pid:
                self.assertEqual(relay.process.wait(PATIENCE), 0)
            else:
                self.assertEqual(os.waitpid(old, 0)[1], 0)
        self.end_wrk(wrk)
        counts = relay.counters()
        for name in "connect_failed", "no_memory", "cut":
            self.assertEqual(counts[name], 0, name)
        eventually(lambda: relay.counters()["active"] == 0, "connections to end")
        os.kill(relay.pid, signal.SIGTERM)
        self.assertEqual(os.waitpid(relay.pid, 0)[1], 0, relay.said())
        self.assertNotIn("cutting", relay.said())

    def test_wrk_sees_no_error_while_the_configuration_changes(self):
        path = self.root + "/relay.toml"

        def write(n):
            with open(path, "w") as config:
                config.write(
                    "drain = 0\n[listeners.web]\naddress = '127.0.0.1:0'\ngroup = 'g'\n"
                    + ("[listeners.other]\naddress = '127.0.0.1:0'\ngroup = 'g'\n" if n % 2 else "")
                    + f"[groups.g]\nbackends = [{{address = '127.0.0.1:{self.port}', "
                    + f"weight = {n % 9 + 1}}}]\n"
                )

        write(0)
        relay = Relay(config=path)
        self.addCleanup(relay.close)
        wrk = self.start_wrk(relay)
        for n in range(1, RELOADS + 1):
            write(n)
            before = relay.counters()["accepted"]
            relay.process.send_signal(signal.SIGHUP)
            eventually(lambda: relay.said().count(" reloaded file=") == n, "a reload")
            eventually(lambda: relay.counters()["accepted"] > before, "connections after it")
        self.end_wrk(wrk)
        counts = relay.counters()
        self.assertEqual(counts["reloads"], RELOADS)
        for name in "connect_failed", "no_memory", "reload_failures", "cut":
            self.assertEqual(counts[name], 0, name)
        relay.finish()


class BehindItIperf3(Traffic):
    @classmethod
    def setUpClass(cls):
        cls.server, cls.port = start_on_free_port(
            lambda port: [find_program("iperf3"), "-s", "-B", "127.0.0.1", "-p", str(port)]
        )
        cls.addClassCleanup(stop, cls.server)

    def run_iperf3(self, *options):
        relay = self.relay(self.port)
        command = [find_program("iperf3"), "-c", "127.0.0.1", "-p", str(relay.port)]
        until = time.monotonic() + PATIENCE
        while True:
            client = subprocess.run(
                [*command, f"-t{min(2, SECONDS)}", "--json", *options],
                stdout=subprocess.PIPE, text=True
            )
            report = json.loads(client.stdout)
            # The server serves one client at a time, and may not be done with the last one. It then
            # reports that and closes with unread bytes, which causes a reset: the client may see
            # only the reset.
            error = report.get("error", "")
            refused = "busy" in error or "unable to receive control message" in error
            if not refused or time.monotonic() > until:
                break
            time.sleep(0.2)
        self.assertNotIn("error", report)
        self.assertEqual(client.returncode, 0)
        sums = {k: v["bytes"] for k, v in report["end"].items() if k.startswith("sum")}
        received = sums["sum_received"]
        print(f"iperf3 {' '.join(options)}: {received / (1 << 20):.0f} MiB")
        eventually(lambda: relay.counters()["active"] == 0, "the connections to end")
        counts = relay.counters()
        self.assertGreater(received, 1 << 20, f"{sums} {counts}")
        relay.finish()
        return received, counts

    def test_upload(self):
        received, counts = self.run_iperf3()
        self.assertGreaterEqual(counts["bytes_to_backend"], received)

    def test_download(self):
        received, counts = self.run_iperf3("-R")
        self.assertGreaterEqual(counts["bytes_to_client"], received)

    def test_both_at_once_on_several_streams(self):
        self.run_iperf3("--bidir", "-P4")


if __name__ == "__main__":
    missing = [p for p in ("nginx", "curl", "wrk", "iperf3") if not find_program(p)]
    if missing:
        print("not installed (scripts/setup test installs them):", *missing)
        sys.exit(77)
    # wrk and nginx need a descriptor for each connection, and the default limit is hardly enough.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    unittest.main(verbosity=2)
