#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
OCSP responses with another implementation at the other end: `openssl ocsp` makes them, from an
authority's index, `openssl s_client -status` checks the one that the example tls-server staples,
and the example tls-client checks those that `openssl s_server` staples.
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from example_case import CLIENT, LAUNCHER, PATIENCE, SERVER, ExampleCase  # noqa: E402


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=PATIENCE)


class Ocsp(ExampleCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        key = ["-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=an authority", "-keyout",
                cls.path("ca.key"), "-out", cls.path("ca.pem"))
        with open(cls.path("names"), "w", encoding="ascii") as file:
            file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        for name, serial in (("good", "0x1000"), ("revoked", "0x1001"), ("unknown", "0x1002")):
            openssl("req", *key, "-subj", f"/CN={name}", "-keyout", cls.path(f"{name}.key"), "-out",
                    cls.path(f"{name}.csr"))
            openssl("x509", "-req", "-in", cls.path(f"{name}.csr"), "-CA", cls.path("ca.pem"),
                    "-CAkey", cls.path("ca.key"), "-set_serial", serial, "-days", "2", "-extfile",
                    cls.path("names"), "-out", cls.path(f"{name}.pem"))
        with open(cls.path("index"), "w", encoding="ascii") as file:
            file.write("V\t491231235959Z\t\t1000\tunknown\t/CN=good\n"
                       "R\t491231235959Z\t200101000000Z\t1001\tunknown\t/CN=revoked\n")
        for name in ("good", "revoked", "unknown"):
            openssl("ocsp", "-issuer", cls.path("ca.pem"), "-cert", cls.path(f"{name}.pem"),
                    "-no_nonce", "-reqout", cls.path(f"{name}.request"))
            openssl("ocsp", "-index", cls.path("index"), "-CA", cls.path("ca.pem"), "-rsigner",
                    cls.path("ca.pem"), "-rkey", cls.path("ca.key"), "-reqin",
                    cls.path(f"{name}.request"), "-ndays", "1", "-respout", cls.path(f"{name}.der"))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    # ---- our server ----

    def serve(self, name, *response):
        return self.serve_until_ended(self.path(f"{name}.pem"), self.path(f"{name}.key"),
                                      *response)[1]

    def status_of(self, port, version):
        """What s_client reports about the server."""
        return subprocess.run(
            ["openssl", "s_client", "-status", version, "-CAfile", self.path("ca.pem"),
             "-verify_return_error", "-connect", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE, check=True).stdout

    def test_openssl_gets_the_response(self):
        for name, status in (("good", "good"), ("revoked", "revoked")):
            port = self.serve(name, self.path(f"{name}.der"))
            for version in ("-tls1_2", "-tls1_3"):
                said = self.status_of(port, version)
                self.assertIn("OCSP Response Status: successful (0x0)", said)
                self.assertIn(f"Cert Status: {status}", said)

    def test_openssl_gets_none_without_one(self):
        said = self.status_of(self.serve("good"), "-tls1_3")
        self.assertIn("OCSP response: no response sent", said)

    def test_response_of_another_certificate_is_an_error_at_the_start(self):
        done = subprocess.run([*LAUNCHER, SERVER, "127.0.0.1:0", self.path("good.pem"),
                               self.path("good.key"), self.path("revoked.der")],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "the OCSP response is for none of the certificates\n")

    # ---- our client ----

    def ask(self, name, *response):
        """Runs sennit's client, which requires a response, with openssl's server; returns its ended
        process."""
        server = self.start("openssl", "s_server", "-accept", "127.0.0.1:0", "-cert",
                            self.path(f"{name}.pem"), "-key", self.path(f"{name}.key"), "-rev",
                            *response, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        said = ""
        while not said.endswith("\n") or "ACCEPT" not in said:
            char = server.stdout.read(1)
            self.assertTrue(char, said)
            said += char
        port = int(said.split("ACCEPT", 1)[1].rsplit(":", 1)[1])
        client = subprocess.Popen([*LAUNCHER, CLIENT, f"localhost:{port}", self.path("ca.pem"),
                                   "staple"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        return client.communicate("abc\n", timeout=PATIENCE) + (client.returncode,)

    def test_our_client_takes_a_good_response(self):
        answer, said, status = self.ask("good", "-status_file", self.path("good.der"))
        self.assertEqual((answer, status), ("cba\n", 0), said)

    def test_our_client_refuses_others(self):
        for name, response, reason in (
                ("revoked", ["-status_file", self.path("revoked.der")],
                 "certificate revoked, according to its OCSP response"),
                ("unknown", ["-status_file", self.path("unknown.der")],
                 "certificate unknown to the OCSP responder"),
                ("good", ["-status_file", self.path("unknown.der")],
                 "the OCSP response is for another certificate"),
                ("good", [], "the server has stapled no OCSP response")):
            answer, said, status = self.ask(name, *response)
            self.assertEqual((answer, said, status),
                             ("", f"the peer's certificate is refused: {reason}\n", 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
