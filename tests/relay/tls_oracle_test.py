#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Bytes, ends and resets through the relay, with TLS on either side, on both and on none: a seed
determines many connections, whose two peers send random pieces at random times and end, each in its
own way. What each peer must have received follows from what the other one did:

 - both have ended in good order: every byte, and then the end;
 - one has reset its connection, or has cut its TLS off without TLS's own end: the other has
   received a beginning of what was sent, and then a reset, but never an end in good order.

Environment: as for traffic.py. SENNIT_TEST_SEED repeats a run, SENNIT_TEST_SCALE is a percentage.
"""
import errno
import hashlib
import os
import random
import ssl
import sys
import tempfile
import threading
import time
import unittest

from tls_peers import Authority, Cut, Door, connect
from traffic import PATIENCE, RelayByConfig, eventually, own_host

SEED = int(os.environ.get("SENNIT_TEST_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
SCALE = int(os.environ.get("SENNIT_TEST_SCALE", "100"))
CONNECTIONS = max(16, 160 * SCALE // 100)
WORKERS = 8

CONFIG = """
admin = "127.0.0.1:0"
[listeners.plain-plain]
address = "{host}:0"
group = "plain"
[listeners.plain-tls]
address = "{host}:0"
group = "tls"
[listeners.tls-plain]
address = "{host}:0"
group = "plain"
tls = {{ certificate = "{certificate}" }}
[listeners.tls-tls]
address = "{host}:0"
group = "tls"
tls = {{ certificate = "{certificate}" }}
[groups.plain]
backends = ["{plain}"]
[groups.tls]
backends = ["{tls}"]
tls = {{ ca = "{ca}" }}
"""
KINDS = [(client, backend) for client in (False, True) for backend in (False, True)]


class Side:
    """A peer's part: what it sends, how it ends, and what it has received."""

    def __init__(self, rng, is_tls):
        self.rng = random.Random(rng.getrandbits(64))
        self.is_tls = is_tls
        size = self.rng.choice((0, 1, 100, 16384, 16385, 200_000, 1_500_000))
        self.data = self.rng.randbytes(self.rng.randrange(size + 1))
        ways = ["end"] * 8 + ["reset"] + (["cut"] if is_tls else [])
        self.way = self.rng.choice(ways)
        # Peers that do not end in good order stop anywhere.
        self.stop = len(self.data) if self.way == "end" else self.rng.randrange(len(self.data) + 1)
        self.sent = 0
        self.got = hashlib.sha256()
        self.size = 0
        self.saw = None

    def piece(self):
        n = self.rng.getrandbits(16) >> self.rng.randrange(16)
        return self.data[self.sent:min(self.stop, self.sent + n + 1)]

    def play(self, peer):
        """Runs until both directions are over."""
        is_over = is_ending = False
        try:
            while not is_over or self.saw is None:
                idle = True
                if not is_over and peer.flush():
                    if self.sent < self.stop:
                        piece = self.piece()
                        peer.write(piece)
                        self.sent += len(piece)
                        peer.flush()
                        idle = False
                        if self.rng.randrange(200) == 0:
                            time.sleep(self.rng.random() * 0.003)
                    elif self.way == "reset":
                        peer.reset()
                        return
                    else:
                        if self.way == "end" and not is_ending:
                            peer.begin_end()
                            is_ending = True
                        # Unsent data must not keep this peer from reading.
                        if peer.flush():
                            peer.cut()
                            is_over = True
                            idle = False
                if self.saw is None:
                    data = peer.try_read()
                    if data:
                        self.got.update(data)
                        self.size += len(data)
                        idle = False
                    elif data == b"":
                        self.saw = "end"
                        idle = False
                if idle:
                    peer.wait(read=self.saw is None, write=not is_over)
        except Cut:
            self.saw = "cut"
        except ssl.SSLError:
            # A peer that has cut its TLS off may get an alert before the reset.
            self.saw = "reset" if self.way == "cut" else "alert"
        except OSError as error:
            if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                raise
            self.saw = "reset"
        finally:
            peer.close()


class Oracle(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.authority = Authority(folder.name)
        certificate = self.authority.sign("localhost", f"DNS:localhost,IP:{own_host()}") + ".both"
        self.server = self.authority.server(certificate)
        self.client = self.authority.client()
        # There is a door for each worker and kind, so that a backend knows whose connection it
        # gets.
        self.lanes = []
        for _ in range(WORKERS):
            doors = {False: Door(), True: Door()}
            for door in doors.values():
                self.addCleanup(door.close)
            relay = RelayByConfig(CONFIG.format(
                host=own_host(), certificate=certificate, ca=self.authority.pem,
                plain=doors[False].address, tls=doors[True].address))
            self.addCleanup(relay.stop)
            self.lanes.append((relay, doors))

    def play(self, lane, kind, seed):
        """Makes a connection and plays both of its sides. Returns the sides."""
        rng = random.Random(seed)
        relay, doors = lane
        client, backend = (Side(rng, is_tls) for is_tls in kind)
        failures = []
        is_there = threading.Event()

        def guarded(side, make):
            try:
                side.play(make())
            except ConnectionResetError:
                side.saw = "reset"  # while it was made
            except Exception as error:  # pylint: disable=broad-except
                failures.append(f"{side.way}: {error!r}")

        def make_backend():
            peer = doors[kind[1]].accept()
            if kind[1]:
                peer.secure(self.server, server=True)
            is_there.set()
            # A backend that resets before that would count as one that cannot be reached, and the
            # relay would try again.
            data = peer.read()
            if data[:1] != b"!":
                raise AssertionError(f"the first byte of {data!r}")
            peer.early = data[1:]
            return peer

        def make_client():
            peer = connect(relay.listens[KINDS.index(kind)])
            if kind[0]:
                peer.secure(self.client, name="localhost")
            # A client that resets before that may leave without a backend.
            if not is_there.wait(PATIENCE):
                raise TimeoutError("no backend was connected to")
            peer.send(b"!")
            return peer

        threads = [threading.Thread(target=guarded, args=each)
                   for each in ((client, make_client), (backend, make_backend))]
        for each in threads:
            each.start()
        for each in threads:
            each.join(2 * PATIENCE)
            if each.is_alive():
                failures.append("it does not end")
        return client, backend, failures

    def judge(self, client, backend, failures):
        if failures:
            return failures
        wrong = []
        for me, other in (client, backend), (backend, client):
            sent = hashlib.sha256(other.data[:me.size]).digest()
            if me.size > other.sent or me.got.digest() != sent:
                wrong.append(f"{me.size} bytes that are not those that were sent")
        if client.way == backend.way == "end":
            for me, other in (client, backend), (backend, client):
                if me.size != len(other.data) or me.saw != "end":
                    wrong.append(f"{me.size} of {len(other.data)} bytes, then {me.saw}")
        else:
            for me, other in (client, backend), (backend, client):
                # A peer that has reset its own connection has seen nothing more. A peer that has
                # seen the other's end in good order may have ended before there was a failure.
                if me.way != "reset" and other.way != "end" and me.saw != "reset":
                    wrong.append(f"after the other's {other.way}: {me.saw}")
        return wrong

    def test_bytes_and_ends_come_out_as_they_went_in(self):
        wrong = []

        def work(number, lane):
            for nth in range(number, CONNECTIONS, WORKERS):
                kind = KINDS[(nth // WORKERS) % len(KINDS)]
                sides = self.play(lane, kind, f"{SEED}/{nth}")
                for text in self.judge(*sides):
                    wrong.append(f"connection {nth}, TLS of client and backend {kind}, they "
                                 f"{sides[0].way} and {sides[1].way}: {text}")

        workers = [threading.Thread(target=work, args=(n, lane))
                   for n, lane in enumerate(self.lanes)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        if wrong:
            self.fail("\n".join([f"SENNIT_TEST_SEED={SEED}", *wrong]))
        for relay, _ in self.lanes:
            eventually(lambda relay=relay: relay.status()["active"] == 0, "connections to end")


if __name__ == "__main__":
    print(f"SENNIT_TEST_SEED={SEED}, OpenSSL: {ssl.OPENSSL_VERSION}", file=sys.stderr)
    unittest.main(verbosity=2)
