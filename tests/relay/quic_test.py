#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
QUIC through a listener of UDP that routes by the server name: the servers and the client, which
verifies the certificate of the server that it reaches, are of ngtcp2 (quic_peer.c) and of aioquic.
Hellos of several datagrams, a version that is not known, a name that has no group, and with
aioquic also version 2, which Debian's ngtcp2 does not have.

Environment: as for traffic.py. Skips the cases of one of the two that is missing: ngtcp2 when this
was built (scripts/setup test installs it), or aioquic (pip install aioquic). Skips all if the relay
is built without OpenSSL.
"""
import asyncio
import os
import subprocess
import sys
import tempfile
import time
import unittest

from traffic import BUILD, LAUNCHER, RelayByConfig, eventually

try:
    from aioquic.asyncio import connect, serve
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.packet import QuicProtocolVersion
except ImportError:
    connect = None

PATIENCE = 60
PEER = BUILD + "/tests/relay/relay-quic-peer"
NAMES = ("a.example", "x.b.example", "other.example")


def certificate(folder, name):
    """A key, and a certificate for the name that is its own authority."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem", "-days", "2",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"],
        check=True, capture_output=True, timeout=PATIENCE)
    return f"{folder}/{name}.pem", f"{folder}/{name}.key"


class Served:
    """The relay before a server for each name."""

    def make_certificates(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.files = {name: certificate(folder.name, name) for name in NAMES}
        self.ports = {}

    def start_relay(self):
        groups = "".join(f'[groups.g{i}]\nbackends = ["127.0.0.1:{self.ports[name]}"]\n'
                         for i, name in enumerate(NAMES))
        text = ('drain = 0\nadmin = "127.0.0.1:0"\naccess_log = "stderr"\n'
                '[listeners.all]\naddress = "udp:127.0.0.1:0"\ngroup = "g2"\n'
                'sni = { "a.example" = "g0", "*.b.example" = "g1" }\n'
                '[listeners.named]\naddress = "udp:127.0.0.1:0"\n'
                'sni = { "a.example" = "g0" }\n' + groups)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            said = subprocess.run([*LAUNCHER, BUILD + "/tools/relay/sennit-relay", "--config",
                                   file.name, "--check"], capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
        if "without OpenSSL" in said.stderr:
            self.skipTest(said.stderr)
        self.relay = RelayByConfig(text)
        self.addCleanup(self.relay.stop)

    def port(self, nth=0):
        return int(self.relay.listens[nth].rpartition(":")[2])


@unittest.skipUnless(connect, "there is no aioquic")
class Aioquic(Served, unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.make_certificates()
        for name in NAMES:
            settings = QuicConfiguration(is_client=False, alpn_protocols=["echo"])
            settings.load_cert_chain(*self.files[name])

            def echo(reader, writer, name=name):
                async def answer():
                    text = await reader.read()
                    writer.write(name.encode() + b":" + text)
                    writer.write_eof()
                asyncio.ensure_future(answer())

            server = await serve("127.0.0.1", 0, configuration=settings, stream_handler=echo)
            self.addCleanup(server.close)
            self.ports[name] = server._transport.get_extra_info("sockname")[1]
        self.start_relay()

    async def ask(self, name, nth=0, text=b"hello", expected=None, **options):
        """Connects, verifies the certificate, sends, and returns the answer."""
        settings = QuicConfiguration(alpn_protocols=options.pop("alpn", ["echo"]),
                                     server_name=name, **options)
        settings.load_verify_locations(self.files[expected or name][0])
        async with connect("127.0.0.1", self.port(nth), configuration=settings) as client:
            reader, writer = await client.create_stream()
            writer.write(text)
            writer.write_eof()
            return await reader.read()

    async def within(self, what):
        return await asyncio.wait_for(what, PATIENCE)

    async def test_each_name_reaches_its_group(self):
        for name in NAMES:
            self.assertEqual(await self.within(self.ask(name)), name.encode() + b":hello")
        eventually(lambda: self.relay.status()["listeners"][0]["accepted"] == 3, "the sessions")

    async def test_many_bytes(self):
        text = os.urandom(1 << 20)
        said = await self.within(self.ask("a.example", text=text))
        self.assertEqual(said, b"a.example:" + text)

    async def test_version_2(self):
        version = QuicProtocolVersion.VERSION_2
        said = await self.within(self.ask("x.b.example", original_version=version,
                                          supported_versions=[version]))
        self.assertEqual(said, b"x.b.example:hello")

    async def test_a_hello_of_several_datagrams(self):
        """Hellos with post-quantum keys are as long; here a long list of protocols makes it
        long."""
        alpn = ["echo"] + [f"{i:04}" + "x" * 200 for i in range(20)]
        said = await self.within(self.ask("a.example", alpn=alpn))
        self.assertEqual(said, b"a.example:hello")

    async def test_a_version_that_is_not_known(self):
        """The relay answers with the versions that it supports, and the client uses one of them."""
        said = await self.within(self.ask("a.example", original_version=0x1a2a3a4a,
                                          supported_versions=[0x1a2a3a4a, 1]))
        self.assertEqual(said, b"a.example:hello")

    async def test_a_name_without_a_group(self):
        asking = asyncio.ensure_future(self.ask("nowhere.example", nth=1, expected="a.example"))
        until = time.monotonic() + PATIENCE
        while not self.relay.status()["listeners"][1]["datagrams"]["dropped"]["no_route"]:
            self.assertLess(time.monotonic(), until)
            await asyncio.sleep(0.02)
        self.assertEqual(self.relay.status()["listeners"][1]["accepted"], 0)
        asking.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asking


@unittest.skipUnless(os.path.exists(PEER), "this was built without ngtcp2")
class Ngtcp2(Served, unittest.TestCase):
    def setUp(self):
        self.make_certificates()
        for name in NAMES:
            server = subprocess.Popen([PEER, "server", name, *self.files[name]], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(server.communicate)  # its input ends, and so does it
            self.ports[name] = int(server.stdout.readline())
        self.start_relay()

    def client(self, name, *how, nth=0, trusted=None):
        client = subprocess.Popen(
            [PEER, "client", str(self.port(nth)), name, self.files[trusted or name][0], *how],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        return client

    def assert_answer(self, name, *how, text=b"hello", errors=b""):
        client = self.client(name, *how)
        self.assertEqual(client.communicate(text, PATIENCE), (name.encode() + b":" + text, errors))

    def test_each_name_reaches_its_group(self):
        for name in NAMES:
            self.assert_answer(name)
        eventually(lambda: self.relay.status()["listeners"][0]["accepted"] == 3, "the sessions")

    def test_the_certificate_of_another_server(self):
        client = self.client("a.example", trusted="other.example")
        self.assertIn(b"the certificate is not verified", client.communicate(b"", PATIENCE)[1])
        self.assertNotEqual(client.returncode, 0)

    def test_many_bytes(self):
        self.assert_answer("a.example", text=os.urandom(1 << 20))

    def test_a_hello_of_several_datagrams(self):
        """Hellos with post-quantum keys are as long; here keys for finite fields make it long."""
        self.assert_answer("a.example", "long")

    def test_a_version_that_is_not_known(self):
        """The relay answers with the versions that it supports, and the client uses one of them."""
        self.assert_answer("a.example", "unknown", errors=b"another version\n")

    def test_a_name_without_a_group(self):
        client = self.client("nowhere.example", nth=1, trusted="a.example")
        client.stdin.close()
        client.stdin = None
        dropped = lambda: self.relay.status()["listeners"][1]["datagrams"]["dropped"]
        eventually(lambda: dropped()["no_route"], "the datagram")
        self.assertEqual(self.relay.status()["listeners"][1]["accepted"], 0)
        self.assertIsNone(client.poll())


if __name__ == "__main__":
    if not connect and not os.path.exists(PEER):
        print("quic_test: there is neither ngtcp2 nor aioquic")
        sys.exit(77)
    unittest.main()
