#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
DNS through a listener of UDP and one of TCP that share a group: dnsmasq as the server, dig as the
client, which checks the source, the number and the question of each answer. An answer that does not
fit into a datagram makes dig ask again over TCP.

Environment: as for traffic.py. Skips when dnsmasq or dig is missing.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from traffic import RelayByConfig, eventually, free_port

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
DNSMASQ = shutil.which("dnsmasq", path=PATH)
DIG = shutil.which("dig", path=PATH)
PATIENCE = 60
# The name server of the root is "a."; without this, dnsmasq refuses to answer for it.
ROOT = "--dns-rr=.,2,016100"
EXAMPLE = os.environ["SENNIT_SOURCE_DIR"] + "/packaging/sennit-relay.toml"


class Dns(unittest.TestCase):
    def setUp(self):
        self.processes = {}
        self.servers = [self.serve(n) for n in (1, 2)]
        backends = ", ".join(f'"127.0.0.1:{port}"' for port in self.servers)
        self.relay = RelayByConfig(
            'drain = 0\nadmin = "127.0.0.1:0"\n'
            '[listeners.udp]\naddress = "udp::0"\ngroup = "dns"\nresponses = 1\n'
            '[listeners.tcp]\naddress = "127.0.0.1:0"\ngroup = "dns"\n'
            f'[groups.dns]\nbackends = [{backends}]\n'
            '[groups.dns.check]\ninterval = "100ms"\n')
        self.addCleanup(self.relay.stop)

    def serve(self, number, *more):
        port = free_port()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        large = [f"--txt-record=large.test,{'x' * 200},{part}" for part in range(30)]
        server = subprocess.Popen(
            [DNSMASQ, "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null",
             f"--port={port}", "--listen-address=127.0.0.1", "--bind-interfaces", "--user=root",
             f"--pid-file={folder.name}/pid", "--edns-packet-max=1232",
             f"--txt-record=who.test,{number}", *large,
             *[f"--host-record=h{i}.test,10.0.{i // 250}.{1 + i % 250}" for i in range(500)], *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        self.processes[port] = server

        def stop():
            server.send_signal(signal.SIGCONT)
            server.terminate()
            server.wait(PATIENCE)

        self.addCleanup(stop)
        eventually(lambda: self.dig(port, "who.test", "TXT").returncode == 0, "dnsmasq to answer")
        return port

    @staticmethod
    def dig(port, *words, host="127.0.0.1"):
        return subprocess.run([DIG, f"@{host}", "-p", str(port), "+time=5", "+tries=3", "+nocookie",
                               *words],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def port_of(self, nth):
        return int(self.relay.listens[nth].rpartition(":")[2])

    def test_answers_are_those_of_the_servers(self):
        port = self.port_of(0)
        for host in ("127.0.0.1", "127.0.0.3"):
            said = self.dig(port, "+short", "h7.test", host=host)
            self.assertEqual(said.stdout, "10.0.0.8\n", said)
        said = self.dig(port, "+noall", "+comments", "nowhere.test")
        self.assertIn("REFUSED", said.stdout, said)

    def test_five_hundred_questions_at_once(self):
        """Each process asks a hundred, so that the two of them share the relay."""
        port = self.port_of(0)
        asking = []
        for part in range(5):
            file = tempfile.NamedTemporaryFile("w", suffix=".dig")
            self.addCleanup(file.close)
            file.write("".join(f"h{i}.test\n" for i in range(100 * part, 100 * part + 100)))
            file.flush()
            asking.append(subprocess.Popen(
                [DIG, "@127.0.0.1", "-p", str(port), "+short", "+time=5", "+tries=3", "-f",
                 file.name], stdout=subprocess.PIPE, text=True))
        for part, each in enumerate(asking):
            out, _ = each.communicate(timeout=PATIENCE)
            self.assertEqual(each.returncode, 0)
            expected = [f"10.0.{i // 250}.{1 + i % 250}"
                        for i in range(100 * part, 100 * part + 100)]
            self.assertEqual(out.split(), expected)
        said = {self.dig(port, "+short", "who.test", "TXT").stdout for _ in range(6)}
        self.assertEqual(said, {'"1"\n', '"2"\n'})

    def test_a_large_answer_comes_over_tcp(self):
        said = self.dig(self.port_of(0), "+ignore", "large.test", "TXT")
        self.assertRegex(said.stdout, r"flags:[a-z ]* tc", said)
        said = self.dig(self.port_of(1), "+tcp", "large.test", "TXT")
        self.assertEqual(said.stdout.count('"xxxx'), 30, said)

    def checked(self, *ports):
        """A relay with the check of the example in the package, and a function that returns the
        states of its backends and waits for them to be those."""
        with open(EXAMPLE, encoding="utf-8") as file:
            commented = re.search(r"^#\[groups\.dns\.check\]\n(?:#.*\n)+", file.read(), re.M)
        check = re.sub("^#", "", commented[0], flags=re.M)
        backends = [f"127.0.0.1:{port}" for port in ports]
        relay = RelayByConfig(
            'drain = 0\nadmin = "127.0.0.1:0"\n'
            '[listeners.udp]\naddress = "udp:127.0.0.1:0"\ngroup = "dns"\n'
            f'[groups.dns]\nslow_return = 0\nbackends = {json.dumps(backends)}\n'
            f'{check}'
            'interval = "50ms"\ntimeout = "400ms"\nfall = 2\nrise = 2\n')
        self.addCleanup(relay.stop)

        def states():
            now = {each["address"]: each for each in relay.status()["backends"]}
            return [(now[at]["state"], now[at]["checks"] > 0) for at in backends]

        def are(*expected):
            eventually(lambda: states() == [(state, True) for state in expected],
                       f"{expected}, now {states()}")

        return relay, are

    def test_checks_by_datagrams(self):
        silent, gone = (self.serve(n, ROOT) for n in (3, 4))
        _, are = self.checked(silent, gone)
        are("up", "up")
        self.processes[silent].send_signal(signal.SIGSTOP)
        are("down", "up")
        self.processes[gone].terminate()
        are("down", "down")
        self.processes[silent].send_signal(signal.SIGCONT)
        are("up", "down")

    def test_checks_tell_reply_codes_apart(self):
        """One server answers, another one refuses, and the third echoes the question."""
        good = self.serve(3, ROOT)
        refusing = self.servers[0]
        self.assertIn("REFUSED", self.dig(refusing, "+noall", "+comments", ".", "NS").stdout)
        echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        echo.bind(("127.0.0.1", 0))
        relay, are = self.checked(good, refusing, echo.getsockname()[1])

        def repeat():
            while True:
                question, asker = echo.recvfrom(512)
                if not question:
                    return
                echo.sendto(question, asker)

        thread = threading.Thread(target=repeat)
        thread.start()
        try:
            are("up", "down", "down")
            for backend in relay.status()["backends"][1:]:
                self.assertEqual(backend["last_error"], "its answer is not the expected one")
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", echo.getsockname())
            thread.join()
            echo.close()


if __name__ == "__main__":
    if not DNSMASQ or not DIG:
        print("dns_test: there is no dnsmasq, or no dig")
        sys.exit(77)
    unittest.main()
