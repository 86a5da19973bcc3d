#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A backend is killed under traffic. Later clients are served by another backend, within the connect
timeout, and connections to other backends are not disturbed. When the backend is back, it gets its
share again.

Environment: as traffic.py.
"""
import signal
import subprocess
import sys
import threading
import time
import unittest

from traffic import PATIENCE, RelayByConfig, eventually

CONNECT_TIMEOUT = 20.0
CONFIG = """
admin = "127.0.0.1:0"
[listeners.web]
address = "127.0.0.1:0"
group = "g"
connect_timeout = "{timeout}s"
[groups.g]
balance = "{balance}"
eject_after = {eject_after}
eject_for = "100ms"
slow_return = 0
backends = ["127.0.0.1:{a}", "127.0.0.1:{b}"]
"""

# Reads lines with a number, and answers each with that many letters.
BACKEND = """
import socket, sys, threading
door = socket.create_server(("127.0.0.1", int(sys.argv[2])), backlog=512)
print(door.getsockname()[1], flush=True)
def talk(client):
    with client, client.makefile("rb") as lines:
        try:
            for line in lines:
                client.sendall(sys.argv[1].encode() * int(line))
        except OSError:
            pass
while True:
    threading.Thread(target=talk, args=(door.accept()[0],), daemon=True).start()
"""


class Backend:
    def __init__(self, letter, port=0):
        self.process = subprocess.Popen(
            [sys.executable, "-c", BACKEND, letter, str(port)], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def ask(client, size):
    """The letter of the backend that answered; None if the answer was incomplete."""
    try:
        client.sendall(b"%d\n" % size)
        got = bytearray()
        while len(got) < size:
            piece = client.recv(1 << 16)
            if not piece:
                return None
            got += piece
    except ConnectionError:
        return None
    letters = set(got)
    return chr(letters.pop()) if len(letters) == 1 else None


class Failover(unittest.TestCase):
    def play(self, balance, eject_after):
        a, b = Backend("a"), Backend("b")
        self.addCleanup(lambda: a.process.poll() is None and a.kill())
        self.addCleanup(b.kill)
        relay = RelayByConfig(CONFIG.format(timeout=int(CONNECT_TIMEOUT), balance=balance,
                                            eject_after=eject_after, a=a.port, b=b.port))
        self.addCleanup(relay.stop)

        # Lasting connections: each keeps asking, and records when it got no answer.
        over = threading.Event()
        staying = [relay.connect() for _ in range(12)]
        whose = [ask(client, 10) for client in staying]
        self.assertEqual(set(whose), {"a", "b"})
        failed, asked = [], [0] * len(staying)

        def stay(i):
            while not over.is_set():
                if ask(staying[i], 20000) != whose[i]:
                    failed.append(i)
                    return
                asked[i] += 1

        threads = [threading.Thread(target=stay, args=(i,)) for i in range(len(staying))]
        for thread in threads:
            thread.start()
        self.addCleanup(over.set)
        eventually(lambda: min(asked) > 2, "traffic")

        a.kill()
        slowest = 0.0
        for _ in range(100):
            start = time.monotonic()
            with relay.connect() as client:
                self.assertEqual(ask(client, 5000), "b")
            slowest = max(slowest, time.monotonic() - start)
        self.assertLess(slowest, CONNECT_TIMEOUT)
        print(f"{balance}: the slowest of 100 took {1000 * slowest:.1f} ms")
        before = list(asked)
        on_b = [i for i, who in enumerate(whose) if who == "b"]
        eventually(lambda: all(asked[i] > before[i] + 2 for i in on_b) or set(failed) & set(on_b),
                   "connections to b to continue")
        eventually(lambda: len(failed) == len(staying) - len(on_b), "connections to a to end")
        self.assertEqual({whose[i] for i in failed}, {"a"})

        again = Backend("a", a.port)
        self.addCleanup(again.kill)

        def is_served():
            with relay.connect() as client:
                who = ask(client, 10)
            self.assertIsNotNone(who)
            return who == "a"

        eventually(is_served, "a to be used again")
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
        for client in staying:
            client.close()
        self.assertEqual(set(failed) & set(on_b), set())
        status = relay.status()["listeners"][0]
        self.assertGreater(status["retries"], 0)
        self.assertEqual(status["ended"]["connect_failed"], 0)

    def test_when_it_is_tried_each_time(self):
        self.play("round-robin", 0)

    def test_when_it_is_ejected(self):
        self.play("least-connections", 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
