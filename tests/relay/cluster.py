# SPDX-License-Identifier: MIT
"""
What the tests with clusters of databases share: hosts for the nodes, the relay with the
configuration in docs/relay-reference.md, servers whose output is shown if the test fails, and a
client that writes again and again.
"""
import itertools
import os
import re
import subprocess
import threading
import time

import programs_test as programs
from programs_test import program
from traffic import RelayByConfig, answers, own_host

PATIENCE = 180


def hosts(n):
    """Loopback addresses that no other process uses. Nodes then have the ports of the manual."""
    _, second, *rest = own_host().split(".")
    # The second number of own_host() is at most 65, because process ids have 22 bits. The first
    # host is own_host() itself.
    return [".".join(["127", str(int(second) + 70 * i), *rest]) for i in range(n)]


def eventually(holds, what):
    """As that of traffic.py. A cluster takes longer to agree than a process to start."""
    until = time.monotonic() + PATIENCE
    while not (found := holds()):
        if time.monotonic() > until:
            raise AssertionError("waited too long for " + what)
        time.sleep(0.05)
    return found


def example(first):
    """The example in the manual that begins with that line, without its indentation."""
    path = os.path.dirname(os.path.abspath(__file__)) + "/../../docs/relay-reference.md"
    with open(path, encoding="utf-8") as file:
        found = re.search(rf"\n    {re.escape(first)}\n(    .*\n)+", file.read())
    return "".join(line[4:] + "\n" for line in found[0].splitlines()[1:])


class Cluster(programs.Traffic):
    def setUp(self):
        super().setUp()
        self.processes = []
        self.addCleanup(self.end)

    def start(self, command, user=None, **options):
        """Starts a server. It ends with the test, even if that is killed."""
        log = open(f"{self.root}/{len(self.processes)}.log", "w+", encoding="utf-8",
                   errors="replace")
        if user:
            options |= {"user": user, "group": user, "extra_groups": []}
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], cwd=self.root,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        self.processes.append((process, command, log))
        return process

    def end(self):
        """Also prints the end of what each server has said, which tells why a test fails."""
        for process, _, _ in self.processes:
            if process.poll() is None:
                process.terminate()
        for process, command, log in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.seek(0)
            print(f"--- {command[:2]}:\n" + log.read()[-1000:])
            log.close()

    def relay_of_the_manual(self, first, nodes):
        """The nodes stand for those of the manual, from 10.0.0.7 on. Returns it and the ports."""
        text = example(first)
        for i, node in enumerate(nodes):
            text = text.replace(f"10.0.0.{7 + i}:", node + ":")
        text, n = re.subn(r'"10\.0\.0\.1:\d+"', '"127.0.0.1:0"', text)
        self.assertNotIn("10.0.0.", text)
        # A busy machine answers late, and no node of these tests hangs.
        text = text.replace('interval = "1s"\n', 'interval = "1s"\ntimeout = "20s"\n')
        text = re.sub(r"(\[groups\.\w+\]\n)", r'\1queue_timeout = "1m"\n', text)
        relay = RelayByConfig('admin = "127.0.0.1:0"\n' + text)
        self.addCleanup(relay.stop)
        self.assertEqual(len(relay.listens), n)
        return relay, [int(address.rpartition(":")[2]) for address in relay.listens]

    @staticmethod
    def serving(relay, group):
        """The hosts of the group's backends that get connections. None before the first checks."""
        backends = [one for one in relay.status()["backends"] if one["group"] == group]
        if not all(one["checks"] for one in backends):
            return None
        return [one["address"].rpartition(":")[0] for one in backends
                if one["state"] in ("up", "slow")]

    def wait_for(self, relay, group, wanted):
        eventually(lambda: self.serving(relay, group) == wanted, f"{group} to have {wanted}")


class Writer:
    """
    Writes numbers, each over a connection of its own, until it is stopped. write(n) returns the
    process of a client that prints which node it was.
    """

    def __init__(self, write):
        self.write = write
        self.written = []  # numbers, and what the client printed
        self.failed = []  # what the clients printed that could not write
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        for n in itertools.count(1):
            try:
                done = subprocess.run(self.write(n), capture_output=True, text=True,
                                      timeout=PATIENCE, check=False)
                if done.returncode == 0:
                    self.written.append((n, done.stdout.strip()))
                else:
                    self.failed.append(done.stderr.strip())
            except subprocess.TimeoutExpired as error:
                self.failed.append(str(error))
            if self.stopping.wait(0.05):
                return

    def more(self, node):
        """Waits for some more writes at that node."""
        seen = len(self.written)
        eventually(lambda: sum(node in said for _, said in self.written[seen:]) >= 5,
                   f"writes at {node}: {self.failed[-1:]}")

    def stop(self):
        self.stopping.set()
        self.thread.join()
