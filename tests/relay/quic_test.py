#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
QUIC through a listener of UDP that routes by the server name: the servers and the client, which
verifies the certificate of the server that it reaches, are of ngtcp2 (quic_peer.c) and of aioquic.
Hellos of several datagrams, a version that is not known, and a name that has no group. With aioquic
also version 2, which Debian's ngtcp2 does not have, a change of the version, Retry and 0-RTT.

Environment: as for traffic.py, and SENNIT_TEST_AIOQUIC, a folder in which Python finds aioquic
(CONTRIBUTING.md). Skips the cases of one of the two that is missing: ngtcp2 when this was built
(scripts/setup test installs it), or aioquic. Skips all if the relay is built without OpenSSL.
"""
import asyncio
import os
import subprocess
import sys
import tempfile
import time
import unittest

from traffic import BUILD, LAUNCHER, RelayByConfig, eventually

if "SENNIT_TEST_AIOQUIC" in os.environ:
    # Before the folders of the system, whose libraries may be too old for aioquic.
    sys.path.insert(0, os.environ["SENNIT_TEST_AIOQUIC"])
try:
    from aioquic.asyncio import QuicConnectionProtocol, connect, serve
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import HandshakeCompleted
except ImportError:
    if "SENNIT_TEST_AIOQUIC" in os.environ:
        raise
    connect = None
    QuicConnectionProtocol = object

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


class Client(QuicConnectionProtocol):
    """Keeps what became of the handshake, and what it sent first."""

    backwards = False  # the first flight is sent in the opposite order

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.handshake = None
        self.first = []

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        super().quic_event_received(event)

    @property
    def version(self):
        return self._quic._version

    def transmit(self):
        """The connection sends by the transport, which is held for the first flight."""
        if self.first:
            return super().transmit()
        transport, self._transport = self._transport, self
        super().transmit()
        self._transport = transport
        for datagram in reversed(self.first) if self.backwards else self.first:
            transport.sendto(*datagram)

    def sendto(self, *datagram):
        self.first.append(datagram)


class Backwards(Client):
    backwards = True


V1, V2 = 1, 0x6b3343cf
UNKNOWN = 0x1a2a3a4a


class AioquicPeers(Served):
    """Servers of aioquic that have both versions and accept 0-RTT."""

    retry = False

    async def asyncSetUp(self):
        self.make_certificates()
        self.tickets = {}  # of the servers
        for name in NAMES:
            settings = QuicConfiguration(is_client=False, alpn_protocols=["echo"])
            settings.load_cert_chain(*self.files[name])

            def echo(reader, writer, name=name):
                async def answer():
                    text = await reader.read()
                    writer.write(name.encode() + b":" + text)
                    writer.write_eof()
                asyncio.ensure_future(answer())

            server = await serve(
                "127.0.0.1", 0, configuration=settings, stream_handler=echo, retry=self.retry,
                session_ticket_fetcher=lambda label: self.tickets.pop(label, None),
                session_ticket_handler=lambda one: self.tickets.update({one.ticket: one}))
            self.addCleanup(server.close)
            self.ports[name] = server._transport.get_extra_info("sockname")[1]
        self.start_relay()

    async def ask(self, name, nth=0, text=b"hello", expected=None, client=Client, early=False,
                  given=None, **options):
        """Connects, verifies the certificate, sends, and returns the answer; self.client is what
        did it. The versions, of which the first one is sent first unless there is an
        original_version, are those of the client. Tickets for its next connection go to given.
        With early it does not wait before it sends: that is 0-RTT if it has a session_ticket."""
        settings = QuicConfiguration(alpn_protocols=options.pop("alpn", ["echo"]),
                                     supported_versions=options.pop("versions", [V1]),
                                     server_name=name, **options)
        settings.load_verify_locations(self.files[expected or name][0])
        async with connect("127.0.0.1", self.port(nth), configuration=settings,
                           create_protocol=client, wait_connected=not early,
                           session_ticket_handler=None if given is None else given.append) as made:
            self.client = made
            reader, writer = await made.create_stream()
            writer.write(text)
            writer.write_eof()
            said = await reader.read()
            while given is not None and not given:
                await asyncio.sleep(0.02)
            return said

    async def within(self, what):
        return await asyncio.wait_for(what, PATIENCE)

    async def assert_answer(self, name, text=b"hello", version=V1, **options):
        said = await self.within(self.ask(name, text=text, **options))
        self.assertEqual(said, name.encode() + b":" + text)
        self.assertEqual(self.client.version, version)

    def dropped(self, nth=0):
        return self.relay.status()["listeners"][nth]["datagrams"]["dropped"]

    def sent_versions(self):
        """The versions of the datagrams of the client's first flight."""
        return {int.from_bytes(data[1:5], "big") for data, _ in self.client.first}


@unittest.skipUnless(connect, "there is no aioquic")
class Aioquic(AioquicPeers, unittest.IsolatedAsyncioTestCase):
    async def test_each_name_reaches_its_group(self):
        for count, version in enumerate((V1, V2), 1):
            for name in NAMES:
                await self.assert_answer(name, versions=[version], version=version)
                self.assertEqual(self.sent_versions(), {version})
            eventually(lambda: self.relay.status()["listeners"][0]["accepted"] == 3 * count,
                       "the sessions")

    async def test_many_bytes(self):
        for version in V1, V2:
            await self.assert_answer("a.example", text=os.urandom(1 << 20), versions=[version],
                                     version=version)

    async def test_the_servers_change_the_version(self):
        """The client begins with one version and prefers the other, to which the server changes
        without another round trip (RFC 9368): the client's later packets have another version than
        its hello."""
        for begun, wanted in ((V1, V2), (V2, V1)):
            await self.assert_answer("x.b.example", original_version=begun, text=os.urandom(50000),
                                     versions=[wanted, begun], version=wanted)
            self.assertEqual(self.sent_versions(), {begun})
        self.assertEqual(self.relay.status()["listeners"][0]["accepted"], 2)

    async def test_a_hello_of_several_datagrams(self):
        """Hellos with post-quantum keys are as long. Here it is a parameter that exists to test
        that, and a long list of protocols, which makes three datagrams."""
        alpn = ["echo"] + [f"{i:04}" + "x" * 200 for i in range(12)]
        for version, client in ((V1, Client), (V1, Backwards), (V2, Client), (V2, Backwards)):
            for options, least in (({}, 2), ({"alpn": alpn}, 3)):
                await self.assert_answer("a.example", versions=[version], version=version,
                                         client=client, quantum_readiness_test=True, **options)
                self.assertGreaterEqual(len(self.client.first), least)
                self.assertEqual(self.sent_versions(), {version})

    async def test_a_long_hello_and_a_change_of_the_version(self):
        await self.assert_answer("a.example", original_version=V1, versions=[V2, V1], version=V2,
                                 client=Backwards, quantum_readiness_test=True)
        self.assertGreaterEqual(len(self.client.first), 2)

    async def test_a_version_that_is_not_known(self):
        """The relay answers that there is version 1, and the client uses it. A server that prefers
        version 2, as the client does, changes to that."""
        await self.assert_answer("a.example", versions=[UNKNOWN, V1])
        self.assertEqual(self.sent_versions(), {UNKNOWN})
        await self.assert_answer("a.example", versions=[UNKNOWN, V2, V1], version=V2)
        self.assertEqual(self.sent_versions(), {UNKNOWN})

    async def test_early_data(self):
        """0-RTT comes with the hello, or after it."""
        for version in V1, V2:
            tickets = []
            await self.assert_answer("x.b.example", given=tickets, versions=[version],
                                     version=version)
            self.assertFalse(self.client.handshake.early_data_accepted)
            for text, least in ((b"hello", 1), (os.urandom(5000), 4)):
                ticket, tickets = tickets[0], []
                await self.assert_answer("x.b.example", text=text, early=True, given=tickets,
                                         session_ticket=ticket, versions=[version],
                                         version=version)
                self.assertTrue(self.client.handshake.early_data_accepted)
                self.assertGreaterEqual(len(self.client.first), least)
        self.assertEqual(self.dropped()["bad_hello"], 0)

    async def test_early_data_before_the_hello(self):
        """It is dropped, and the client sends it again."""
        for version in V1, V2:
            tickets = []
            await self.assert_answer("a.example", given=tickets, versions=[version],
                                     version=version)
            before = self.dropped()["bad_hello"]
            await self.assert_answer("a.example", text=os.urandom(5000), early=True,
                                     client=Backwards, session_ticket=tickets[0],
                                     versions=[version], version=version)
            self.assertEqual(self.dropped()["bad_hello"] - before, len(self.client.first) - 1)

    async def test_early_data_and_a_hello_of_several_datagrams(self):
        """The relay keeps 0-RTT that comes between the parts of the hello."""
        for version in V1, V2:
            tickets = []
            await self.assert_answer("a.example", given=tickets, versions=[version],
                                     version=version)
            await self.assert_answer("a.example", text=os.urandom(3000), early=True,
                                     session_ticket=tickets[0], versions=[version],
                                     version=version, quantum_readiness_test=True)
            self.assertTrue(self.client.handshake.early_data_accepted)
        self.assertEqual(self.dropped()["bad_hello"], 0)

    async def test_a_name_without_a_group(self):
        for count, version in enumerate((V1, V2), 1):
            asking = asyncio.ensure_future(self.ask("nowhere.example", nth=1, early=True,
                                                    expected="a.example", versions=[version]))
            until = time.monotonic() + PATIENCE
            while self.dropped(1)["no_route"] < count:
                self.assertLess(time.monotonic(), until)
                await asyncio.sleep(0.02)
            self.assertEqual(self.relay.status()["listeners"][1]["accepted"], 0)
            asking.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asking


@unittest.skipUnless(connect, "there is no aioquic")
class AioquicRetry(AioquicPeers, unittest.IsolatedAsyncioTestCase):
    """The servers first verify the client's address: the session has the client's second hello,
    too, whose keys are made from the server's connection id. Without 0-RTT, which aioquic does not
    send again after Retry."""

    retry = True

    async def test_each_name_reaches_its_group(self):
        for version in V1, V2:
            for name in NAMES:
                await self.assert_answer(name, versions=[version], version=version)
        self.assertEqual(self.relay.status()["listeners"][0]["accepted"], 2 * len(NAMES))

    async def test_a_hello_of_several_datagrams(self):
        for version, client in ((V1, Backwards), (V2, Client), (V2, Backwards)):
            await self.assert_answer("a.example", versions=[version], version=version,
                                     client=client, quantum_readiness_test=True)
            self.assertGreaterEqual(len(self.client.first), 2)

    async def test_the_servers_change_the_version(self):
        await self.assert_answer("x.b.example", original_version=V1, versions=[V2, V1], version=V2)


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
