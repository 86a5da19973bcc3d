#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
TLS routed by name, between real clients and real servers: curl, OpenSSL's client and Python's ssl
module as clients, two of OpenSSL's servers with certificates of their own as backends. The
certificate shows which server was reached, because only that one has it. It also shows that the
relay takes no part in the encryption.

Environment: as for traffic.py. Fails when a program is missing; scripts/setup test installs them.
"""
import hashlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

from traffic import PATIENCE, RelayByConfig, answers, eventually, free_port

CONFIG = """
admin = "127.0.0.1:0"
[listeners.tls]
address = "127.0.0.1:0"
sni = {{ "a.test" = "a", "*.b.test" = "b" }}
hello_timeout = "{hello_timeout}"
[listeners.with-default]
address = "127.0.0.1:0"
group = "a"
sni = {{ "b.test" = "b" }}
[groups.a]
backends = ["127.0.0.1:{a}"]
[groups.b]
backends = ["127.0.0.1:{b}"]
"""


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.root = folder.name
        with open(cls.root + "/large", "wb") as file:
            file.write(os.urandom(4 << 20))
        cls.ports = {}
        for name, names in ("a", "DNS:a.test"), ("b", "DNS:b.test,DNS:*.b.test"):
            with open(f"{cls.root}/{name}.txt", "w") as file:
                file.write(f"this is {name}\n")
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}",
                 "-keyout", f"{cls.root}/{name}.key", "-out", f"{cls.root}/{name}.pem"],
                check=True, capture_output=True, timeout=PATIENCE)
            cls.ports[name] = cls.serve(name)

    @classmethod
    def serve(cls, name):
        for _ in range(10):
            port = free_port()
            server = subprocess.Popen(
                ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-WWW",
                 "-cert", f"{cls.root}/{name}.pem", "-key", f"{cls.root}/{name}.key"],
                cwd=cls.root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)

            def stop(server=server):
                server.kill()
                server.wait()

            cls.addClassCleanup(stop)
            eventually(lambda: server.poll() is not None or answers(port), "a server to start")
            if server.poll() is None:
                return port
        raise AssertionError("openssl s_server does not start")

    def setUp(self):
        self.relay = self.start("30s")

    def start(self, hello_timeout):
        relay = RelayByConfig(CONFIG.format(hello_timeout=hello_timeout, **self.ports))
        self.addCleanup(relay.stop)
        return relay

    def port(self, nth=0):
        return int(self.relay.listens[nth].rpartition(":")[2])

    def ended(self, relay=None):
        listener = (relay or self.relay).status()["listeners"][0]
        return {cause: n for cause, n in listener["ended"].items() if n}

    def curl(self, name, ca, path, *options, nth=0):
        return subprocess.run(
            ["curl", "-sS", "--noproxy", "*", "--max-time", str(int(PATIENCE)), *options,
             "--cacert", f"{self.root}/{ca}.pem", "--connect-to", f"{name}:443:127.0.0.1:{self.port(nth)}",
             f"https://{name}/{path}"], capture_output=True, timeout=2 * PATIENCE)

    def test_curl_reaches_the_server_it_asks_for(self):
        for name, whose in ("a.test", "a"), ("x.b.test", "b"), ("A.TEST", "a"):
            for version in "1.2", "1.3":
                done = self.curl(name, whose, f"{whose}.txt", "--tls-max", version,
                                 f"--tlsv{version}")
                self.assertEqual((done.returncode, done.stdout), (0, f"this is {whose}\n".encode()),
                                 f"{name}, TLS {version}: {done.stderr}")
        # curl refuses the other server's certificate, so it was not the other server that answered.
        self.assertEqual(self.curl("a.test", "b", "a.txt").returncode, 60)
        done = self.curl("a.test", "a", "large")
        with open(self.root + "/large", "rb") as file:
            self.assertEqual(hashlib.sha256(done.stdout).hexdigest(),
                             hashlib.sha256(file.read()).hexdigest())

    def test_openssl_reaches_the_server_it_asks_for(self):
        def subject(nth, *name):
            said = subprocess.run(
                ["openssl", "s_client", "-connect", f"127.0.0.1:{self.port(nth)}", *name],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, text=True)
            lines = [line for line in (said.stdout + said.stderr).splitlines()
                     if line.startswith("subject=") or "unrecognized name" in line]
            # OpenSSL 3.2 writes CN=a, earlier versions CN = a.
            return lines[0].replace(" ", "") if lines else said.stderr

        self.assertEqual(subject(0, "-servername", "a.test"), "subject=CN=a")
        self.assertEqual(subject(0, "-servername", "deep.er.b.test"), "subject=CN=b")
        self.assertEqual(subject(1, "-servername", "b.test"), "subject=CN=b")
        # A name without a route gets the alert if the listener has no default group.
        self.assertIn("unrecognizedname", subject(0, "-servername", "c.test"))
        self.assertIn("unrecognizedname", subject(0, "-noservername"))
        self.assertEqual(subject(1, "-servername", "c.test"), "subject=CN=a")
        self.assertEqual(subject(1, "-noservername"), "subject=CN=a")
        eventually(lambda: self.ended().get("no_route") == 2, "both to be counted")

    def test_a_hello_in_pieces_is_read(self):
        for size in 1, 7, 100:
            context = ssl.create_default_context(cafile=self.root + "/b.pem")
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, outgoing, server_hostname="x.b.test")
            with self.relay.connect() as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

                def pump(step, client=client, tls=tls, incoming=incoming, outgoing=outgoing, size=size):
                    while True:
                        try:
                            done = step()
                        except ssl.SSLWantReadError:
                            done = None
                        data = outgoing.read()
                        for i in range(0, len(data), size):
                            client.sendall(data[i:i + size])
                        if done is not None:
                            return done
                        got = client.recv(65536)
                        incoming.write(got) if got else incoming.write_eof()

                pump(lambda: tls.do_handshake() or True)
                self.assertEqual(tls.getpeercert()["subject"], ((("commonName", "b"),),))
                pump(lambda: tls.write(b"GET /b.txt HTTP/1.0\r\n\r\n"))
                self.assertIn(b"this is b\n", pump(lambda: tls.read(65536)) +
                              pump(lambda: tls.read(65536)))

    def test_other_protocols_are_closed(self):
        for said in b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", b"SSH-2.0-x\r\n", bytes(100):
            with self.relay.connect() as client:
                client.sendall(said)
                try:
                    self.assertEqual(client.recv(100), b"")
                except ConnectionResetError:
                    pass  # closed with unread bytes
        eventually(lambda: self.ended() == {"bad_tls_hello": 3}, "all three to be counted")

    def test_a_hello_must_not_take_forever(self):
        relay = self.start("200ms")
        with relay.connect() as client:
            client.sendall(b"\x16\x03\x01")
            self.assertEqual(client.recv(100), b"")
        eventually(lambda: self.ended(relay) == {"hello_timeout": 1}, "it to be counted")


if __name__ == "__main__":
    missing = [name for name in ("openssl", "curl") if not shutil.which(name)]
    if missing:
        sys.exit("not installed (scripts/setup test installs them): " + " ".join(missing))
    unittest.main(verbosity=2)
