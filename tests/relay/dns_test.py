#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
DNS through a listener of UDP and one of TCP that share a group: dnsmasq as the server, dig as the
client, which checks the source, the number and the question of each answer. An answer that does not
fit into a datagram makes dig ask again over TCP.

Environment: as for traffic.py. Skips when dnsmasq or dig is missing.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from traffic import RelayByConfig, eventually, free_port

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
DNSMASQ = shutil.which("dnsmasq", path=PATH)
DIG = shutil.which("dig", path=PATH)
PATIENCE = 60
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

    def serve(self, number):
        port = free_port()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        large = [f"--txt-record=large.test,{'x' * 200},{part}" for part in range(30)]
        server = subprocess.Popen(
            [DNSMASQ, "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null",
             f"--port={port}", "--listen-address=127.0.0.1", "--bind-interfaces", "--user=root",
             f"--pid-file={folder.name}/pid", "--edns-packet-max=1232",
             f"--txt-record=who.test,{number}", *large,
             *[f"--host-record=h{i}.test,10.0.{i // 250}.{1 + i % 250}" for i in range(500)]],
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

    def test_checks_by_datagrams(self):
        """The question is that of the example in the package."""
        with open(EXAMPLE, encoding="utf-8") as file:
            commented = re.search(r"^#\[groups\.dns\.check\]\n(?:#.*\n)+", file.read(), re.M)
        check = re.sub("^#", "", commented[0], flags=re.M)
        silent, gone = (f"127.0.0.1:{port}" for port in self.servers)
        relay = RelayByConfig(
            'drain = 0\nadmin = "127.0.0.1:0"\n'
            '[listeners.udp]\naddress = "udp:127.0.0.1:0"\ngroup = "dns"\n'
            f'[groups.dns]\nslow_return = 0\nbackends = ["{silent}", "{gone}"]\n'
            f'{check}'
            'interval = "50ms"\ntimeout = "400ms"\nfall = 2\nrise = 2\n')
        self.addCleanup(relay.stop)

        def states():
            backends = relay.status()["backends"]
            return {each["address"]: (each["state"], each["checks"] > 0) for each in backends}

        def are(*expected):
            eventually(lambda: [states()[at] for at in (silent, gone)] ==
                       [(state, True) for state in expected], f"{expected}, now {states()}")

        are("up", "up")
        self.processes[self.servers[0]].send_signal(signal.SIGSTOP)
        are("down", "up")
        self.processes[self.servers[1]].terminate()
        are("down", "down")
        self.processes[self.servers[0]].send_signal(signal.SIGCONT)
        are("up", "down")


if __name__ == "__main__":
    if not DNSMASQ or not DIG:
        print("dns_test: there is no dnsmasq, or no dig")
        sys.exit(77)
    unittest.main()
