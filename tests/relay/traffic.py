# SPDX-License-Identifier: MIT
"""
What the relay's Python tests share: the relay with an admin server, a backend that sends what its
client asks for, and clients that keep it busy. Everything listens on loopback, on ports that the
system chooses, and ends with the test.
"""
import json
import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import ports  # noqa: E402

BUILD = os.environ["SENNIT_BUILD_DIR"]
LAUNCHER = shlex.split(os.environ.get("SENNIT_LAUNCHER", ""))
PATIENCE = 60.0
free_port = ports.free_port


def eventually(holds, what):
    until = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError("waited too long for " + what)
        time.sleep(0.02)


def own_host():
    """A loopback address that no other process uses, so a free port on it stays free."""
    n = os.getpid()
    return f"127.{1 + n // 65536 % 250}.{n // 256 % 256}.{1 + n % 254}"


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


class Backend:
    """Reads a count (8 bytes) and sends that many bytes, repeatedly until the client ends."""

    def __init__(self):
        self.door = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.address = "127.0.0.1:%d" % self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.door.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(client,), daemon=True).start()

    @staticmethod
    def talk(client):
        piece = bytes(1 << 18)
        with client:
            try:
                while wanted := client.recv(8, socket.MSG_WAITALL):
                    left = struct.unpack("!Q", wanted)[0]
                    while left > 0:
                        n = min(left, len(piece))
                        client.sendall(piece[:n])
                        left -= n
            except (OSError, struct.error):
                pass

    def close(self):
        # After only a close, it would keep listening until the pending accept has returned.
        self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()


def ask(client, size):
    """Requests that many bytes. Returns how many came."""
    client.sendall(struct.pack("!Q", size))
    got = 0
    while got < size:
        n = len(client.recv(1 << 18))
        if n == 0:
            break
        got += n
    return got


class Relay:
    """The relay with an admin server. Arguments: pairs of addresses and options."""

    ADMIN = ("--admin", "127.0.0.1:0")

    def __init__(self, *arguments, wrapper=()):
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            [*wrapper, *LAUNCHER, BUILD + "/tools/relay/sennit-relay", *self.ADMIN, *arguments],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.listens = []
        while True:
            line = self.process.stdout.readline()
            if not line:
                self.errors.seek(0)
                raise AssertionError("the relay did not start: " + self.errors.read())
            kind, _, address = line.rstrip("\n").partition(" on ")
            if kind == "admin":
                self.admin = address
                break
            self.listens.append(address)

    def connect(self, nth=0):
        host, _, port = self.listens[nth].rpartition(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE)

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def status(self):
        return json.loads(self.get("/json"))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        return self.process.returncode


class RelayByConfig(Relay):
    """The relay with a configuration file, which sets the admin server's address."""

    ADMIN = ()

    def __init__(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            super().__init__("--config", file.name)


class Load:
    """Clients that keep the relay busy until they are stopped."""

    def __init__(self, relay, nth=0, idle=0, small=0, large=0, size=1 << 20):
        self.stopping = threading.Event()
        self.relay = relay
        self.nth = nth
        self.size = size
        self.idlers = [relay.connect(nth) for _ in range(idle)]
        self.threads = [threading.Thread(target=self.small, daemon=True) for _ in range(small)]
        self.threads += [threading.Thread(target=self.large, daemon=True) for _ in range(large)]
        for thread in self.threads:
            thread.start()

    def small(self):
        """A connection for each answer of some KiB."""
        n = 0
        while not self.stopping.is_set():
            with self.relay.connect(self.nth) as client:
                ask(client, 512 << (n % 8))
            n += 1
            self.stopping.wait(0.01)

    def large(self):
        """Large answers, over the same connection for a while."""
        while not self.stopping.is_set():
            with self.relay.connect(self.nth) as client:
                for _ in range(40):
                    ask(client, self.size)
                    if self.stopping.wait(0.02):
                        break

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE)
        for client in self.idlers:
            client.close()
