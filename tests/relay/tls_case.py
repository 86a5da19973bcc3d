# SPDX-License-Identifier: MIT
"""
The common beginning of the tests of the relay's TLS: certificates, and a relay with one listener
and one backend, which is the test itself.

run() fails when a program is missing; scripts/setup test installs them.
"""
import os
import shutil
import sys
import tempfile
import unittest

from tls_peers import Authority, Door, connect
from traffic import BUILD, RelayByConfig, eventually, own_host

PROGRAM = BUILD + "/tools/relay/sennit-relay"
PATH = os.environ["PATH"] + ":/usr/sbin"  # nginx is in a folder that only root's PATH has


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.root = folder.name
        cls.ca = Authority(cls.root)
        cls.a = cls.ca.sign("a.test", "DNS:a.test")
        cls.b = cls.ca.sign("b.test", "DNS:*.b.test,DNS:b.test")
        cls.exact = cls.ca.sign("e.b.test", "DNS:e.b.test")
        cls.host = cls.ca.sign("host", f"DNS:localhost,IP:127.0.0.1,IP:{own_host()}")
        cls.alice = cls.ca.sign("alice", "DNS:alice")
        cls.other = Authority(cls.root, "other")
        cls.mallory = cls.other.sign("mallory", "DNS:mallory")

    def start(self, listener="", group="", more=""):
        """A relay with one listener and one door behind it."""
        self.door = Door()
        self.addCleanup(self.door.close)
        self.text = (
            f'admin = "127.0.0.1:0"\naccess_log = "{self.root}/log"\nevents = "json"\ndrain = 0\n'
            f'[listeners.in]\naddress = "{own_host()}:0"\ngroup = "g"\n{listener}\n'
            f'[groups.g]\nretries = 0\nbackends = ["{self.door.address}"]\n{group}\n{more}\n')
        open(self.root + "/log", "w").close()
        self.file = self.root + "/relay.toml"
        with open(self.file, "w") as file:
            file.write(self.text)
        self.relay = NamedRelay(self.file)
        self.addCleanup(self.relay.stop)

    def client(self, name="a.test", nth=0, context=None, before=b"", session=None):
        peer = connect(self.relay.listens[nth])
        self.addCleanup(peer.close)
        if before:
            peer.send(before)
        return peer.secure(context or self.ca.client(), name=name, session=session)

    def accept(self):
        peer = self.door.accept()
        self.addCleanup(peer.close)
        return peer

    def ended(self, nth=0):
        listener = self.relay.status()["listeners"][nth]
        return {cause: n for cause, n in listener["ended"].items() if n}

    def log(self):
        with open(self.root + "/log") as file:
            return file.read()

    def events(self):
        self.relay.errors.flush()
        with open(f"/proc/self/fd/{self.relay.errors.fileno()}") as file:
            return file.read()

    def event(self, name, text=""):
        return eventually(
            lambda: [line for line in self.events().splitlines()
                     if f'"event":"{name}"' in line and text in line],
            f"the event {name} with {text} in {self.events()}")


class NamedRelay(RelayByConfig):
    """A relay whose configuration file stays, so that it can be read again."""

    def __init__(self, path):
        super(RelayByConfig, self).__init__("--config", path)


def subject(peer):
    return dict(each[0] for each in peer.tls.getpeercert()["subject"])["commonName"]


def run(*programs):
    missing = [name for name in programs if not shutil.which(name, path=PATH)]
    if missing:
        sys.exit("not installed (scripts/setup test installs them): " + " ".join(missing))
    unittest.main(verbosity=2)
