#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The examples tls-server and tls-client with other implementations at the other end: the openssl
command, curl and Python's ssl. Certificates are made for the run.
"""
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from example_case import CLIENT, LAUNCHER, PATIENCE, ExampleCase  # noqa: E402
from ports import free_port  # noqa: E402


def certify(folder, stem, *options):
    """A certificate that signs itself, and its key, for localhost."""
    chain, key = (os.path.join(folder, f"{stem}.{kind}.pem") for kind in ("chain", "key"))
    subprocess.run(["openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", *options, "-keyout", key, "-out",
                    chain], check=True, capture_output=True)
    return chain, key


class Interop(ExampleCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.chain, cls.key = certify(folder.name, "good")
        cls.other, _ = certify(folder.name, "other")

    def serve(self):
        """Starts sennit's tls-server; returns its port."""
        return self.serve_until_ended(self.chain, self.key)[1]

    def connect(self, port, text, authorities=None, name="127.0.0.1"):
        """Runs sennit's tls-client, which sends the text; returns its ended process."""
        return subprocess.run([*LAUNCHER, CLIENT, f"{name}:{port}", authorities or self.chain],
                              input=text, capture_output=True, text=True, timeout=PATIENCE,
                              check=False)

    # ---- our server ----

    def test_openssl_talks_to_our_server(self):
        port = self.serve()
        for version in ("-tls1_2", "-tls1_3"):
            # Its input ends, so it sends its end immediately; its data comes back nevertheless.
            client = subprocess.Popen(
                ["openssl", "s_client", "-quiet", "-no_ign_eof", "-CAfile", self.chain,
                 "-verify_return_error", "-verify_hostname", "localhost", version, "-connect",
                 f"127.0.0.1:{port}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            with client:
                client.stdin.write("hello\n")
                client.stdin.flush()
                self.assertEqual(client.stdout.readline(), "hello\n", version)
                client.stdin.close()
            self.assertEqual(client.wait(), 0)

    def test_python_talks_to_our_server(self):
        port = self.serve()
        context = ssl.create_default_context(cafile=self.chain)
        session = None
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
                with context.wrap_socket(plain, server_hostname="localhost",
                                         session=session) as conn:
                    text = b"x" * 999 + b"\n"
                    for _ in range(100):
                        conn.sendall(text)
                        got = b""
                        while len(got) < len(text):
                            part = conn.recv(65536)
                            self.assertTrue(part)
                            got += part
                        self.assertEqual(got, text)
                    resumed, session = conn.session_reused, conn.session
                    conn.unwrap()  # raises unless the end is clean
        self.assertTrue(resumed)

    def test_curl_and_our_server_agree(self):
        curl = shutil.which("curl")
        if not curl:
            self.skipTest("there is no curl")
        port = self.serve()
        # curl accepts the echo of its request as HTTP/0.9.
        result = subprocess.run(
            [curl, "--silent", "--http0.9", "--cacert", self.chain, "--max-time", "5",
             f"https://localhost:{port}/that", "--resolve", f"localhost:{port}:127.0.0.1"],
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertIn("GET /that HTTP/1.1", result.stdout)

    def test_plain_text_disturbs_nobody(self):
        port = self.serve()
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
            plain.sendall(b"this is not TLS, but long enough to be looked at\n")
            while True:
                try:
                    if not plain.recv(4096):
                        break
                except ConnectionResetError:
                    break
        self.assertEqual(self.connect(port, "after\n").stdout, "after\n")

    def test_our_server_ends_in_good_order(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server, port = self.serve_until_ended(self.chain, self.key)
            context = ssl.create_default_context(cafile=self.chain)
            plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            # This client's handshake is in progress.
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE), plain:
                with context.wrap_socket(plain, server_hostname="localhost",
                                         suppress_ragged_eofs=False) as conn:
                    conn.sendall(b"before\n")
                    self.assertEqual(conn.recv(100), b"before\n")
                    server.send_signal(number)
                    # The client sees TLS's own end, and not a cut.
                    self.assertEqual(conn.recv(100), b"")
            self.assertEqual(server.wait(PATIENCE), 0)

    # ---- our client ----

    def test_our_client_talks_to_our_server(self):
        port = self.serve()
        text = "".join(f"line {i}\n" for i in range(20000))
        result = self.connect(port, text, name="localhost")
        self.assertEqual(result.stdout, text)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("TLS 1.3, TLS_AES_128_GCM_SHA256", result.stderr)

    def test_our_client_refuses_a_stranger(self):
        port = self.serve()
        result = self.connect(port, "secret\n", authorities=self.other)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr,
                         "the peer's certificate is refused: self-signed certificate\n")

    def listen(self, context, talk):
        """A server by Python's ssl that talks to one client; yields its port."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def run():
            plain, _ = listener.accept()
            plain.settimeout(PATIENCE)
            with plain, context.wrap_socket(plain, server_side=True) as conn:
                talk(conn)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.addCleanup(thread.join, PATIENCE)
        return listener.getsockname()[1]

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context

    def test_our_client_talks_to_python(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context()
            context.minimum_version = context.maximum_version = version

            def talk(conn):
                got = b""
                while True:
                    part = conn.recv(65536)
                    if not part:
                        break
                    got += part
                conn.sendall(got[::-1])
                conn.unwrap()

            text = "0123456789" * 20000
            result = self.connect(self.listen(context, talk), text)
            self.assertEqual(result.stdout, text[::-1])
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_our_client_tells_an_end_from_a_cut(self):
        def talk(conn):
            conn.recv(100)
            conn.sendall(b"half")
            # Closed without close_notify.
            plain = socket.socket(fileno=conn.detach())
            plain.setblocking(True)  # its timeout has made it non-blocking
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(4096):  # unread data would cause a reset
                pass
            plain.close()

        result = self.connect(self.listen(self.context(), talk), "ask\n")
        self.assertEqual(result.stdout, "half")
        self.assertEqual(result.returncode, 1)
        self.assertIn("without close_notify", result.stderr)

    def test_our_client_talks_to_openssl(self):
        port = free_port()
        server = self.start("openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert",
                            self.chain, "-key", self.key, "-rev", stderr=subprocess.DEVNULL)
        said = ""
        while not said.endswith("ACCEPT"):  # without an end of line
            said += server.stdout.read(1)
            self.assertIsNone(server.poll(), said)
        client = subprocess.Popen([*LAUNCHER, CLIENT, f"localhost:{port}", self.chain],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        with client:
            client.stdin.write("abc\n")
            client.stdin.flush()
            self.assertEqual(client.stdout.readline(), "cba\n")
            client.stdin.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
