#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: core
"""
Clients' TLS that ends at the relay, with Python's ssl and openssl s_client: certificates by name,
clients' certificates, protocols, routes, clients that do not speak TLS, ends of streams, and the
contents of PROXY headers.

Environment: as for traffic.py.
"""
import signal
import socket
import ssl
import struct
import subprocess

from tls_case import Case, run, subject
from tls_peers import Cut, Door, connect
from traffic import PATIENCE, eventually


class Terminated(Case):
    def tls(self, more=""):
        return (f'tls = {{ certificate = ["{self.a}.both", {{ certificate = "{self.b}.pem", '
                f'key = "{self.b}.key" }}, "{self.exact}.both"]{more} }}\n')

    def test_the_certificate_is_that_of_the_name(self):
        self.start(self.tls())
        unchecked = self.ca.client()
        unchecked.check_hostname = False
        for name, whose in (("a.test", "a.test"), ("b.test", "b.test"), ("x.b.test", "b.test"),
                            ("e.b.test", "e.b.test"),
                            ("c.test", "a.test"), (None, "a.test")):
            client = self.client(name, context=unchecked)
            self.assertEqual(subject(client), whose, name)
            self.accept().close()
            client.close()
        said = subprocess.run(
            ["openssl", "s_client", "-connect", self.relay.listens[0], "-servername", "y.b.test",
             "-CAfile", self.ca.pem, "-verify_return_error"], stdin=subprocess.DEVNULL,
            capture_output=True, timeout=PATIENCE, text=True)
        self.assertIn("Verify return code: 0", said.stdout)
        self.accept().close()
        eventually(lambda: "sni=y.b.test tls=TLSv1.3" in self.log(), "the line of s_client")

    def test_bytes_and_ends_both_ways(self):
        self.start(self.tls())
        client, backend = self.client(), self.accept()
        client.send(b"question")
        client.end()
        self.assertEqual(backend.read_all(), b"question")
        backend.send(b"answer")
        backend.end()
        self.assertEqual(client.read_all(), b"answer")
        # The backend ends its stream first.
        client, backend = self.client(), self.accept()
        backend.send(b"hello")
        backend.end()
        self.assertEqual(client.read_all(), b"hello")
        client.send(b"bye")
        client.end()
        self.assertEqual(backend.read_all(), b"bye")

    def test_a_stream_that_is_cut_off_is_a_reset(self):
        self.start(self.tls())
        for how in "cut", "reset":
            client, backend = self.client(), self.accept()
            client.send(b"x")
            self.assertEqual(backend.read(), b"x")
            getattr(client, how)()
            with self.assertRaises(ConnectionResetError, msg=how):
                backend.read()
        eventually(lambda: self.log().count("cause=client_reset") == 2, "the lines")
        self.assertIn("without close_notify, so data may be missing", self.log())
        client, backend = self.client(), self.accept()
        backend.send(b"x")
        self.assertEqual(client.read(), b"x")
        backend.reset()
        with self.assertRaises((ConnectionResetError, Cut)):
            client.read()
        eventually(lambda: self.ended() == {"client_reset": 2, "server_reset": 1}, "the causes")

    def test_protocols_and_versions(self):
        self.start(self.tls(', alpn = ["h2", "http/1.1"], min_version = "1.3"'))
        client = self.client(context=self.ca.client(alpn=["http/1.1", "h2"]))
        self.assertEqual(client.tls.selected_alpn_protocol(), "h2")
        self.accept()
        with self.assertRaises(ssl.SSLError):
            self.client(context=self.ca.client(alpn=["spdy/1"]))
        with self.assertRaises(ssl.SSLError):
            self.client(context=self.ca.client(version=ssl.TLSVersion.TLSv1_2))
        eventually(lambda: self.ended().get("tls_failed") == 2, "both to be counted")
        self.assertIn("cause=tls_failed", eventually(self.log, "lines"))

    def test_clients_that_do_not_speak_tls(self):
        self.start(self.tls() + 'hello_timeout = "300ms"')
        silent = connect(self.relay.listens[0])
        self.assertEqual(silent.read(), b"")
        half = connect(self.relay.listens[0])
        half.send(b"\x16\x03\x01\x02")
        self.assertEqual(half.read(), b"")
        wrong = connect(self.relay.listens[0])
        wrong.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        try:
            while wrong.read():
                pass
        except ConnectionResetError:
            pass
        connect(self.relay.listens[0]).close()
        eventually(lambda: self.ended() == {"tls_timeout": 2, "tls_failed": 1, "client_left": 1},
                   "the causes")
        for peer in silent, half, wrong:
            peer.close()

    def test_certificates_of_clients(self):
        for kind in "optional", "required":
            self.start(self.tls(f', client_certificate = "{kind}", client_ca = "{self.ca.pem}"'))
            client = self.client(context=self.ca.client(self.alice + ".both"))
            client.send(b"x")
            self.assertEqual(self.accept().read(), b"x")
            client.close()
            eventually(lambda: "client_cn=alice" in self.log(), "the name in the log")

            def refused(context):
                client = self.client(context=context)
                client.send(b"x")
                while client.read():
                    pass

            with self.assertRaises((ssl.SSLError, OSError)):
                refused(self.ca.client(self.mallory + ".both"))
            if kind == "optional":
                client = self.client()
                client.send(b"x")
                self.assertEqual(self.accept().read(), b"x")
                client.close()
            else:
                with self.assertRaises((ssl.SSLError, OSError)):
                    refused(self.ca.client())
            eventually(lambda kind=kind: self.ended().get("tls_failed") ==
                       (1 if kind == "optional" else 2), "the causes")
            eventually(lambda: "certificate is refused" in self.log(), "the line")

    def test_revoked_certificates_of_clients(self):
        self.ca.sign("bob", "DNS:bob")
        crl = self.ca.revoke("bob")
        self.start(self.tls(f', client_certificate = "required", client_ca = "{self.ca.pem}", '
                            f'client_crl = "{crl}"'))
        client = self.client(context=self.ca.client(self.alice + ".both"))
        client.send(b"x")
        self.assertEqual(self.accept().read(), b"x")
        with self.assertRaises((ssl.SSLError, OSError)):
            client = self.client(context=self.ca.client(f"{self.root}/bob.both"))
            client.send(b"x")
            while client.read():
                pass
        eventually(lambda: "revoked" in self.log(), "the reason in the log")

    def test_routes_by_name_and_protocol(self):
        second, third = Door(), Door()
        for door in second, third:
            self.addCleanup(door.close)
        self.start(self.tls(', alpn = ["h2", "x"]') +
                   'sni = { "*.b.test" = "second" }\nalpn = { h2 = "third" }',
                   more=f'[groups.second]\nbackends = ["{second.address}"]\n'
                        f'[groups.third]\nbackends = ["{third.address}"]\n')
        for name, alpn, door in (("a.test", [], self.door), ("x.b.test", [], second),
                                 ("x.b.test", ["x"], second), ("x.b.test", ["x", "h2"], third),
                                 ("a.test", ["h2"], third)):
            client = self.client(name, context=self.ca.client(alpn=alpn))
            client.send(b"x")
            with door.accept() as backend:
                self.assertEqual(backend.read(), b"x", (name, alpn))

    def test_routes_by_protocol_of_tls_that_passes_through(self):
        second = Door()
        self.addCleanup(second.close)
        self.start('alpn = { "acme-tls/1" = "second" }',
                   more=f'[groups.second]\nbackends = ["{second.address}"]\n')
        for alpn, door in ((["acme-tls/1"], second), (["h2"], self.door), ([], self.door)):
            raw = connect(self.relay.listens[0])
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = self.ca.client(alpn=alpn).wrap_bio(incoming, outgoing, server_hostname="a.test")
            with self.assertRaises(ssl.SSLWantReadError):
                tls.do_handshake()
            hello = outgoing.read()
            raw.send(hello)
            with door.accept() as backend:
                got = b""
                while len(got) < len(hello):
                    got += backend.read()
                self.assertEqual(got, hello)
            raw.close()

    def test_no_route_ends_in_good_order(self):
        self.start(self.tls() + 'sni = { "x.b.test" = "g" }')
        text = self.text.replace('group = "g"\n', "", 1)
        with open(self.file, "w") as file:
            file.write(text)
        self.relay.process.send_signal(signal.SIGHUP)
        self.event("reloaded")
        client = self.client("a.test")
        self.assertEqual(client.read(), b"")
        eventually(lambda: self.ended() == {"no_route": 1}, "it to be counted")


class Proxied(Case):
    V2 = b"\r\n\r\n\0\r\nQUIT\n"

    def read_header(self, backend):
        """The records of the header, and the bytes after it."""
        data = b""
        while len(data) < 16 or len(data) < 16 + struct.unpack("!H", data[14:16])[0]:
            data += backend.read()
        size = 16 + struct.unpack("!H", data[14:16])[0]
        self.assertEqual(data[:13], self.V2 + b"\x21")
        records, at = {}, 16 + 12
        while at < size:
            kind, length = struct.unpack("!BH", data[at:at + 3])
            records[kind] = data[at + 3:at + 3 + length]
            at += 3 + length
        return records, data[size:]

    def header(self, *records):
        body = socket.inet_aton("192.0.2.7") + socket.inet_aton("192.0.2.8") + b"\x10\0\x01\xbb"
        body += b"".join(struct.pack("!BH", kind, len(value)) + value for kind, value in records)
        return self.V2 + b"\x21\x11" + struct.pack("!H", len(body)) + body

    def test_what_the_backend_is_told(self):
        self.start(f'proxy_from = ["127.0.0.1"]\ntls = {{ certificate = "{self.a}.both", '
                   f'alpn = ["h2"], client_certificate = "optional", '
                   f'client_ca = "{self.ca.pem}" }}',
                   'send_proxy = "v2"\nsend_proxy_with = ["crc32c", "unique-id"]')
        client = self.client(context=self.ca.client(self.alice + ".both", alpn=["h2"]),
                             before=self.header((0xE1, b"own"), (0x20, b"\x01\0\0\0\0")))
        client.send(b"x")
        records, rest = self.read_header(self.accept())
        self.assertIn(rest, (b"", b"x"))
        self.assertEqual(records[1], b"h2")
        self.assertEqual(records[2], b"a.test")
        self.assertEqual(len(records[3]), 4)
        self.assertEqual(len(records[5]), 32)
        self.assertEqual(records[0xE1], b"own")
        about = records[0x20]
        self.assertEqual(about[:5], b"\x07\0\0\0\0")
        self.assertIn(b"\x21\0\x07TLSv1.3", about)
        self.assertIn(b"\x22\0\x05alice", about)
        self.assertIn(b"TLS_AES_128_GCM_SHA256", about)
        self.assertNotIn(self.der(self.alice), about)
        client.close()
        eventually(lambda: "id=" + records[5].decode() in self.log(), "the id in the log")
        self.assertIn("client=192.0.2.7:4096", self.log())

    @staticmethod
    def der(whose):
        with open(whose + ".pem", encoding="ascii") as file:
            text = file.read()
        return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE"):].strip())

    def test_the_clients_certificate(self):
        self.start(f'tls = {{ certificate = "{self.a}.both", client_certificate = "optional", '
                   f'client_ca = "{self.ca.pem}" }}',
                   'send_proxy = "v2"\nsend_proxy_with = ["client-certificate"]')
        for context, expected in ((self.ca.client(self.alice + ".both"), self.der(self.alice)),
                                  (self.ca.client(), None)):
            with self.client(context=context) as client:
                client.send(b"x")
                about = self.read_header(self.accept())[0][0x20]
            nested, at = {}, 5
            while at < len(about):
                kind, length = struct.unpack("!BH", about[at:at + 3])
                nested[kind] = about[at + 3:at + 3 + length]
                at += 3 + length
            self.assertEqual(at, len(about))
            self.assertEqual(nested.get(0x28), expected)
            self.assertEqual(nested.get(0x22), expected and b"alice")

    def test_a_certificate_that_does_not_fit_is_told(self):
        """Each is counted, and the events are limited."""
        long = self.ca.sign("long", ",".join(f"DNS:a-name-{n}.long.test" for n in range(800)))
        size = len(self.der(long))
        self.assertGreater(size, 16384)
        self.start(f'tls = {{ certificate = "{self.a}.both", client_certificate = "optional", '
                   f'client_ca = "{self.ca.pem}" }}',
                   'send_proxy = "v2"\nsend_proxy_with = ["client-certificate"]')
        with self.client(context=self.ca.client(self.alice + ".both")) as client:
            client.send(b"x")
            self.read_header(self.accept())
        self.assertEqual(self.relay.status()["certificates_left_out"], 0)
        for _ in range(8):
            with self.client(context=self.ca.client(long + ".both")) as client:
                client.send(b"x")
                about = self.read_header(self.accept())[0][0x20]
                self.assertEqual(about[:5], b"\x07\0\0\0\0")
                self.assertIn(b"\x22\0\x04long", about)
                self.assertLess(len(about), 100)
        self.assertEqual(self.relay.status()["certificates_left_out"], 8)
        self.assertIn("\nsennit_relay_certificates_left_out_total 8\n", self.relay.get("/metrics"))
        said = self.event("certificate_left_out", f'"group":"g","bytes":{size}')
        self.assertLess(len(said), 8)
        self.assertIn('"listener":"in"', said[0])

    def test_a_certificate_that_another_proxy_tells_is_passed_on(self):
        self.start('proxy_from = ["127.0.0.1"]', 'send_proxy = "v2"')
        told = b"\x07\0\0\0\0" + struct.pack("!BH", 0x28, 4000) + b"c" * 4000
        with connect(self.relay.listens[0]) as client:
            client.send(self.header((0x20, told)) + b"x")
            self.assertEqual(self.read_header(self.accept())[0][0x20], told)

    def test_without_a_name_there_is_no_record_of_one(self):
        """As in HAProxy, there is no empty record, and a name from an earlier proxy stays."""
        self.start(f'proxy_from = ["127.0.0.1"]\ntls = {{ certificate = "{self.a}.both" }}',
                   'send_proxy = "v2"')
        nameless = self.ca.client()
        nameless.check_hostname = False
        for told, expected in (((), None), (((2, b""),), None),
                               (((2, b"b.test"),), b"b.test")):
            with self.client(None, context=nameless, before=self.header(*told)) as client:
                client.send(b"x")
                records, _ = self.read_header(self.accept())
                self.assertEqual(records.get(2), expected, told)

    def test_a_wrong_checksum_is_refused(self):
        self.start('proxy_from = ["127.0.0.1"]', 'send_proxy = "v2"')
        with connect(self.relay.listens[0]) as client:
            client.send(self.header((3, b"\0\0\0\0")))
            self.assertEqual(client.read(), b"")
        eventually(lambda: self.ended() == {"bad_proxy_header": 1}, "it to be counted")
        eventually(lambda: "checksum is wrong" in self.log(), "the line")

    def test_the_header_comes_before_the_backends_tls(self):
        self.start("", f'send_proxy = "v1"\ntls = {{ ca = "{self.ca.pem}" }}')
        with connect(self.relay.listens[0]) as client:
            client.send(b"x")
            backend = self.accept()
            line = b""
            while not line.endswith(b"\r\n"):
                backend.wait(read=True)
                line += backend.sock.recv(1)
            self.assertTrue(line.startswith(b"PROXY TCP4 127.0.0.1 "), line)
            backend.secure(self.ca.server(self.host + ".both"), server=True)
            self.assertEqual(backend.read(), b"x")


if __name__ == "__main__":
    run("openssl")
