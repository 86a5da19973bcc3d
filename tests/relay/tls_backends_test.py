#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
TLS to backends: whom the relay takes for a backend, what becomes of connections and checks of one
that it does not, protocols, and ends. And curl, with HTTP/1.1 and HTTP/2 over TLS, before nginx.

Environment: as for traffic.py.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest.mock

from tls_case import PATH, Case, run
from tls_peers import Cut, Door, Peer, connect
from traffic import PATIENCE, answers, eventually, free_port


def read_bytes(peer, size):
    data = b""
    while len(data) < size and (more := peer.read()):
        data += more
    return data


class ToBackends(Case):
    def ask(self, server, asked=b"x"):
        with connect(self.relay.listens[0]) as client:
            client.send(asked)
            with self.door.accept() as backend:
                backend.secure(server, server=True)
                self.assertEqual(backend.read(), asked)
                backend.send(b"y")
                self.assertEqual(client.read(), b"y")
                return backend.tls.selected_alpn_protocol(), backend.tls.getpeercert()

    def refused(self, server, reason):
        with connect(self.relay.listens[0]) as client:
            client.send(b"x")
            with self.door.accept() as backend:
                try:
                    backend.secure(server, server=True)
                    backend.read()
                except (OSError, Cut):
                    pass
            try:
                self.assertEqual(client.read(), b"")
            except ConnectionResetError:
                pass
        self.event("connect_failed", reason)
        eventually(lambda: self.ended().get("connect_failed"), "it to be counted")

    def test_a_backend_is_verified(self):
        self.start("", f'tls = {{ ca = "{self.ca.pem}" }}\neject_after = 0')
        self.ask(self.ca.server(self.host + ".both"))
        self.refused(self.ca.server(self.a + ".both"), "mismatch")
        self.refused(self.ca.server(self.mallory + ".both"), "unable to get local issuer")
        backend = self.relay.status()["backends"][0]
        self.assertEqual((backend["connected"], backend["failures"]), (1, 2))

    def test_by_another_name(self):
        self.start("", f'tls = {{ ca = "{self.ca.pem}", name = "x.b.test" }}\neject_after = 0')
        self.ask(self.ca.server(self.b + ".both"))
        self.refused(self.ca.server(self.host + ".both"), "mismatch")

    def test_the_systems_authorities_do_not_know_it(self):
        self.start("", "tls = true")
        self.refused(self.ca.server(self.host + ".both"), "certificate is refused")

    def test_without_verification(self):
        self.start("", "tls = { verify = false }")
        self.ask(self.ca.server(self.mallory + ".both"))

    def test_with_a_certificate_of_its_own(self):
        self.start("", f'tls = {{ ca = "{self.ca.pem}", certificate = "{self.alice}.both" }}')
        _, peer = self.ask(self.ca.server(self.host + ".both", asks=self.ca.pem))
        self.assertIn((("commonName", "alice"),), peer["subject"])
        self.assertIn('tls_client_certificate_not_after_seconds{group="g",name="alice"}',
                      self.relay.get("/metrics"))

    def test_another_backend_is_tried(self):
        good = Door()
        self.addCleanup(good.close)
        self.start("", f'tls = {{ ca = "{self.ca.pem}" }}')
        with open(self.file, "w") as file:
            file.write(self.text.replace(f'["{self.door.address}"]',
                                         f'["{self.door.address}", "{good.address}"]'))
        self.relay.process.send_signal(signal.SIGHUP)
        self.event("reloaded")
        self.door.close()
        for _ in range(2):
            with connect(self.relay.listens[0]) as client:
                client.send(b"x")
                with good.accept() as backend:
                    backend.secure(self.ca.server(self.host + ".both"), server=True)
                    self.assertEqual(backend.read(), b"x")

    def test_a_silent_backend_is_given_up(self):
        self.start('connect_timeout = "300ms"', f'tls = {{ ca = "{self.ca.pem}" }}')
        with connect(self.relay.listens[0]) as client:
            self.assertEqual(client.read(), b"")
        self.event("connect_failed")

    def test_it_begins_while_a_client_waits(self):
        """The stack of a task that was started for a group without TLS may be too small for TLS:
        with this setting all stacks are as small as those of 32-bit machines."""
        small = {} if os.environ["SENNIT_SANITIZE"] else {"SENNIT_STACK_SIZE": "64K"}
        with unittest.mock.patch.dict(os.environ, small):
            self.start("", "queue_timeout = 0")

        def configure(tls):
            with open(self.file, "w") as file:
                file.write(self.text.replace(
                    f'["{self.door.address}"]',
                    f'[{{ address = "{self.door.address}", max_connections = 1 }}]') + tls)
            self.relay.process.send_signal(signal.SIGHUP)
        configure("")
        self.event("reloaded")
        first = connect(self.relay.listens[0])
        self.addCleanup(first.close)
        first.send(b"x")
        backend = self.door.accept()
        self.addCleanup(backend.close)
        self.assertEqual(backend.read(), b"x")
        # Only now, because either of two might get the place.
        with connect(self.relay.listens[0]) as second:
            second.send(b"x")
            eventually(lambda: self.relay.status()["groups"][0]["queued"] == 1,
                       "the second to wait")
            configure("tls = { verify = false }\n")
            eventually(lambda: len(self.event("reloaded")) == 2, "the change")
            backend.close()
            first.close()
            with self.door.accept() as backend:
                backend.secure(self.ca.server(self.host + ".both"), server=True)
                self.assertEqual(backend.read(), b"x")
                backend.send(b"y" * 100000)
                self.assertEqual(len(read_bytes(second, 100000)), 100000)

    def test_the_protocol_follows_the_client(self):
        self.start(f'tls = {{ certificate = "{self.a}.both", alpn = ["h2", "http/1.1"] }}',
                   f'tls = {{ ca = "{self.ca.pem}" }}')
        server = self.ca.server(self.host + ".both", alpn=["http/1.1", "h2"])
        for alpn, expected in (["h2"], "h2"), (["http/1.1"], "http/1.1"), ([], None):
            client = self.client(context=self.ca.client(alpn=alpn))
            client.send(b"x")
            with self.door.accept() as backend:
                backend.secure(server, server=True)
                self.assertEqual(backend.tls.selected_alpn_protocol(), expected)
                self.assertEqual(backend.read(), b"x")

    def test_a_cut_off_backend_resets_the_client(self):
        self.start("", f'tls = {{ ca = "{self.ca.pem}" }}')
        for how in "cut", "reset", "end":
            with connect(self.relay.listens[0]) as client:
                client.send(b"x")
                with self.door.accept() as backend:
                    backend.secure(self.ca.server(self.host + ".both"), server=True)
                    self.assertEqual(backend.read(), b"x")
                    getattr(backend, how)()
                    if how == "end":
                        self.assertEqual(client.read(), b"")
                        client.send(b"more")
                        client.end()
                        self.assertEqual(backend.read_all(), b"more")
                    else:
                        with self.assertRaises(ConnectionResetError, msg=how):
                            client.read()

    def ready(self, n):
        eventually(lambda: self.relay.status()["groups"][0]["preconnect_ready"] == n,
                   f"{n} connections to be ready")

    def test_a_handshake_is_made_ahead(self):
        self.start("", f'preconnect = 1\ntls = {{ ca = "{self.ca.pem}" }}')
        server = self.ca.server(self.host + ".both")
        with self.door.accept() as first:
            first.secure(server, server=True)
            self.ready(1)
            with connect(self.relay.listens[0]) as client:
                client.send(b"x")
                self.assertEqual(first.read(), b"x")
                first.send(b"y")
                self.assertEqual(client.read(), b"y")
                group = self.relay.status()["groups"][0]
                self.assertEqual((group["preconnect_hits"], group["preconnect_misses"]), (1, 0))
            with self.door.accept() as second:
                second.secure(server, server=True)
                self.ready(1)
                # A reload reads the certificates again, and further handshakes use them.
                self.relay.process.send_signal(signal.SIGHUP)
                with self.door.accept() as third:
                    third.secure(server, server=True)
                    self.assertEqual(second.read_all(), b"")
                    self.ready(1)

    def test_a_handshake_waits_for_the_proxy_header(self):
        self.start("", f'preconnect = 1\nsend_proxy = "v1"\ntls = {{ ca = "{self.ca.pem}" }}')
        with self.door.accept() as backend:
            self.ready(1)
            with connect(self.relay.listens[0]) as client:
                client.send(b"x")
                header = b""
                while not header.endswith(b"\r\n"):
                    backend.wait(read=True)
                    header += backend.sock.recv(1)
                self.assertTrue(header.startswith(b"PROXY TCP4 "), header)
                backend.secure(self.ca.server(self.host + ".both"), server=True)
                self.assertEqual(backend.read(), b"x")
                self.assertEqual(self.relay.status()["groups"][0]["preconnect_hits"], 1)

    def test_a_backend_that_speaks_first_inside_tls(self):
        self.start("", f'preconnect = 1\ntls = {{ ca = "{self.ca.pem}" }}')
        server = self.ca.server(self.host + ".both")
        with self.door.accept() as backend:
            backend.secure(server, server=True)
            backend.send(b"hello")
            self.event("preconnect_off")
        with connect(self.relay.listens[0]) as client:
            with self.door.accept() as backend:
                backend.secure(server, server=True)
                backend.send(b"hello")
                self.assertEqual(client.read(), b"hello")

    def test_a_certificate_that_is_refused_ahead_is_no_failure(self):
        self.start("", f'preconnect = 1\ntls = {{ ca = "{self.ca.pem}" }}\neject_after = 1')
        with self.door.accept() as backend:
            try:
                backend.secure(self.ca.server(self.mallory + ".both"), server=True)
                backend.read()
            except (OSError, Cut):
                pass
        eventually(lambda: self.relay.status()["groups"][0]["preconnect_failures"],
                   "it to be counted")
        backend = self.relay.status()["backends"][0]
        self.assertEqual((backend["failures"], backend["ejections"]), (0, 0))
        with self.door.accept() as backend:
            backend.secure(self.ca.server(self.host + ".both"), server=True)
            self.ready(1)

    def test_a_refused_certificate_uses_up_one_that_was_made_ahead(self):
        self.start("", f'preconnect = 4\nsend_proxy = "v1"\n'
                       f'tls = {{ ca = "{self.ca.pem}" }}')
        server = self.ca.server(self.mallory + ".both")
        headers = []

        def serve(backend):
            with backend:
                try:
                    header = b""
                    while not header.endswith(b"\r\n"):
                        backend.wait(read=True)
                        byte = backend.sock.recv(1)
                        if not byte:
                            return
                        header += byte
                    headers.append(header)
                    backend.secure(server, server=True)
                    backend.read()
                except (OSError, Cut):
                    pass

        def accept():
            try:
                while True:
                    threading.Thread(target=serve, args=(self.door.accept(),), daemon=True).start()
            except OSError:
                pass

        threading.Thread(target=accept, daemon=True).start()
        self.ready(4)
        with connect(self.relay.listens[0]) as client:
            client.send(b"x")
            try:
                self.assertEqual(client.read(), b"")
            except ConnectionResetError:
                pass
        self.event("connect_failed")
        # One connection was ready, and a new one reports what is wrong.
        self.assertEqual(len(headers), 2)

    def test_over_unix_sockets(self):
        front, behind = self.root + "/front", self.root + "/behind"
        door = socket.socket(socket.AF_UNIX)
        self.addCleanup(door.close)
        door.bind(behind)
        door.listen()
        self.start(more=f'[listeners.unix]\naddress = "unix:{front}"\ngroup = "unix"\n'
                        f'tls = {{ certificate = "{self.a}.both" }}\n'
                        f'[groups.unix]\nbackends = ["unix:{behind}"]\n'
                        f'tls = {{ ca = "{self.ca.pem}", name = "b.test" }}\n')
        raw = socket.socket(socket.AF_UNIX)
        raw.connect(front)
        with Peer(raw) as client:
            client.secure(self.ca.client(), name="a.test")
            with Peer(door.accept()[0]) as backend:
                backend.secure(self.ca.server(self.b + ".both"), server=True)
                client.send(b"question")
                client.end()
                self.assertEqual(backend.read_all(), b"question")
                backend.send(b"answer")
                backend.end()
                self.assertEqual(client.read_all(), b"answer")

    def test_checks_by_tls(self):
        self.start("", f'tls = {{ ca = "{self.ca.pem}" }}\n'
                       'check = { interval = "50ms", fall = 1, rise = 1, http = "GET /" }')

        def answer(certificate):
            with self.door.accept() as backend:
                try:
                    backend.secure(self.ca.server(certificate + ".both"), server=True)
                    self.assertTrue(backend.read().startswith(b"GET / HTTP/1.1\r\n"))
                    backend.send(b"HTTP/1.1 200 OK\r\n\r\n")
                    backend.read()
                except (OSError, Cut):
                    pass

        def is_in(state, certificate):
            answer(certificate)
            return self.relay.status()["backends"][0]["state"] == state

        eventually(lambda: is_in("up", self.host), "it to be up")
        eventually(lambda: is_in("down", self.a), "it to be down")
        self.event("backend_down", "mismatch")
        self.assertIn("certificate is refused", self.relay.status()["backends"][0]["last_error"])


class Programs(Case):
    def serve(self, *words):
        for _ in range(10):
            port = free_port()
            server = subprocess.Popen([word.format(port=port) for word in words],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            def stop(server=server):
                server.kill()
                server.wait()

            self.addCleanup(stop)
            eventually(lambda: server.poll() is not None or answers(port), "a server to start")
            if server.poll() is None:
                return port
        raise AssertionError(f"{words[0]} does not start")

    def serve_http2(self):
        """nginx with HTTP/2 alone, without TLS and with it. Returns the two ports."""
        user = "root" if os.getuid() == 0 else "nobody"
        program = shutil.which("nginx", path=PATH)
        for _ in range(10):
            ports = free_port(), free_port()
            with open(self.root + "/nginx.conf", "w") as file:
                file.write(
                    f"daemon off; pid {self.root}/nginx.pid; error_log /dev/null; user {user};\n"
                    "events {}\nhttp { access_log off;\n" +
                    "".join(f"{what}_temp_path {self.root}/{what};\n" for what in (
                        "client_body", "proxy", "fastcgi", "uwsgi", "scgi")) +
                    f"server {{ listen 127.0.0.1:{ports[0]} http2; root {self.root}; }}\n"
                    f"server {{ listen 127.0.0.1:{ports[1]} ssl http2; root {self.root};\n"
                    f"ssl_certificate {self.host}.pem;\n"
                    f"ssl_certificate_key {self.host}.key; }} }}\n")
            server = subprocess.Popen([program, "-c", self.root + "/nginx.conf"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            def stop(server=server):
                server.terminate()
                server.wait()

            self.addCleanup(stop)
            eventually(lambda: server.poll() is not None or all(map(answers, ports)), "nginx")
            if server.poll() is None:
                return ports
        raise AssertionError("nginx does not start")

    def curl(self, version, nth=0):
        host, _, port = self.relay.listens[nth].rpartition(":")
        done = subprocess.run(
            ["curl", "-sS", "--noproxy", "*", f"--{version}", "--max-time", str(int(PATIENCE)),
             "--cacert", self.ca.pem, "--connect-to", f"a.test:443:{host}:{port}",
             "-w", "%{http_version}", "-o", self.root + "/got", "https://a.test/large"],
            capture_output=True, timeout=2 * PATIENCE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.root + "/got", "rb") as got, open(self.root + "/large", "rb") as file:
            self.assertEqual(got.read(), file.read())
        return done.stdout

    def test_http_2_and_1(self):
        with open(self.root + "/large", "wb") as file:
            file.write(os.urandom(3 << 20))
        plain, secure = self.serve_http2()
        http1 = self.serve(sys.executable, "-m", "http.server", "-b", "127.0.0.1", "-d", self.root,
                           "{port}")
        tls = f'tls = {{ certificate = "{self.a}.both", alpn = ["h2", "http/1.1"] }}\n'
        self.start(tls + 'alpn = { h2 = "plain" }',
                   more=f'[listeners.second]\naddress = "127.0.0.1:0"\n{tls}group = "secure"\n'
                        f'[groups.plain]\nbackends = ["127.0.0.1:{plain}"]\n'
                        f'[groups.secure]\nbackends = ["127.0.0.1:{secure}"]\n'
                        f'tls = {{ ca = "{self.ca.pem}" }}\n')
        with open(self.file, "w") as file:
            file.write(self.text.replace(self.door.address, f"127.0.0.1:{http1}"))
        self.relay.process.send_signal(signal.SIGHUP)
        self.event("reloaded")
        self.assertEqual(self.curl("http2"), "2")
        self.assertEqual(self.curl("http1.1")[0], "1")
        self.assertEqual(self.curl("http2", nth=1), "2")


if __name__ == "__main__":
    run("openssl", "curl", "nginx")
