#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: nightly
"""
Two nodes of PostgreSQL that Patroni manages, and the relay with the configuration of the manual.
The primary is killed: first as a machine that dies, then Patroni alone, whose PostgreSQL stays a
primary for itself. Clients that write reach one primary after the other and never another node,
also when the relay has just started. Open sessions are cut, no acknowledged write is lost, and
clients that read reach the replica.

Environment: as for traffic.py. Skips when a program is missing; scripts/setup nightly installs
them.
"""
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

import cluster
from cluster import eventually, program
from traffic import free_port

USER = "postgres" if os.getuid() == 0 else None  # PostgreSQL does not run as root.
# How long a Patroni of a busy machine may be late until it loses the lock.
TTL = 20


def settings(name, host, folder, etcd):
    """Patroni's configuration file, which is YAML, as JSON."""
    return json.dumps({
        "scope": "test", "name": name,
        "restapi": {"listen": f"{host}:8008", "connect_address": f"{host}:8008"},
        "etcd3": {"host": etcd},
        "bootstrap": {
            "dcs": {
                "ttl": TTL, "loop_wait": 1, "retry_timeout": 5,
                # What was acknowledged is at the replica.
                "synchronous_mode": True,
                "postgresql": {"use_pg_rewind": True,
                               "remove_data_directory_on_diverged_timelines": True},
            },
            "initdb": ["data-checksums", {"locale": "C"}, {"auth": "trust"}],
        },
        "postgresql": {
            "listen": f"{host}:5432", "connect_address": f"{host}:5432",
            "data_dir": f"{folder}/data", "pgpass": f"{folder}/pgpass",
            "bin_dir": os.path.dirname(program("postgres")),
            "authentication": {"superuser": {"username": "postgres"},
                               "replication": {"username": "postgres"}},
            "parameters": {"unix_socket_directories": folder, "fsync": "off"},
            "pg_hba": ["local all all trust", "host all all 127.0.0.0/8 trust",
                       "host replication all 127.0.0.0/8 trust"],
        },
    })


class Node:
    def __init__(self, test, host, etcd):
        self.test = test
        self.host = host
        self.patroni = None
        self.folder = f"{test.root}/{host}"
        os.mkdir(self.folder, 0o700)
        with open(self.folder + "/patroni.yml", "w", encoding="utf-8") as file:
            file.write(settings(host.replace(".", "-"), host, self.folder, etcd))
        if USER:
            for path in self.folder, file.name:
                shutil.chown(path, USER, USER)
        test.addCleanup(self.end)
        self.start()

    def start(self):
        # Debian's program is for Debian's Python.
        self.patroni = self.test.start(["/usr/bin/python3", program("patroni"),
                                        self.folder + "/patroni.yml"], USER)

    def says(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.host}:8008{path}", timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def kill_patroni(self):
        self.patroni.kill()
        self.patroni.wait()

    def signal_postgres(self, number):
        """Returns whether there is one."""
        try:
            with open(self.folder + "/data/postmaster.pid", encoding="ascii") as file:
                pid = int(file.readline())
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if self.folder.encode() not in file.read():
                    return False
            os.kill(pid, number)
            return True
        except (FileNotFoundError, ProcessLookupError):
            return False

    def kill_postgres(self):
        self.signal_postgres(signal.SIGKILL)

    def end(self):
        if self.patroni:
            self.kill_patroni()
        # A PostgreSQL that is killed leaves its shared memory.
        self.signal_postgres(signal.SIGQUIT)
        try:
            eventually(lambda: not self.signal_postgres(0), "the end of PostgreSQL")
        except AssertionError:
            self.kill_postgres()


def psql(host, port, command):
    return [program("psql"), "-h", host, "-p", str(port), "-U", "postgres", "-X", "-A", "-t", "-q",
            "-v", "ON_ERROR_STOP=1", "-c", command]


WHERE = "pg_is_in_recovery(), host(inet_server_addr())"


class Patroni(cluster.Cluster):
    def setUp(self):
        super().setUp()
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.start([
            program("etcd"), "--data-dir", self.root + "/etcd", "--name", "one",
            "--listen-client-urls", clients, "--advertise-client-urls", clients,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", "one=" + peers, "--unsafe-no-fsync",
        ])
        etcd = clients.removeprefix("http://")
        eventually(lambda: cluster.answers(int(etcd.rpartition(":")[2])), "etcd")
        first, second = cluster.hosts(2)
        self.first = Node(self, first, etcd)
        eventually(lambda: self.first.says("/primary") == 200, "a primary")
        self.second = Node(self, second, etcd)
        eventually(lambda: self.second.says("/sync") == 200, "a replica")

    def ask(self, host, port, command):
        return self.run_program(*psql(host, port, command)).decode().strip()

    def session(self, node):
        """A session that is open at that node, through the relay."""
        session = subprocess.Popen(psql("127.0.0.1", self.write, "select pg_sleep(1000)"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(session.communicate)
        self.addCleanup(session.kill)
        eventually(lambda: self.ask(node.host, 5432, "select count(*) from pg_stat_activity "
                                    "where query = 'select pg_sleep(1000)'") == "1", "a session")
        return session

    def fail_over(self, old, new):
        """After old was killed."""
        self.wait_for(self.relay, "primary", [])
        self.wait_for(self.relay, "primary", [new.host])
        self.writer.more(new.host)

    def assert_reads_at(self, node):
        self.wait_for(self.relay, "replicas", [node.host])
        for _ in range(3):
            self.assertEqual(self.ask("127.0.0.1", self.read, "select " + WHERE),
                             f"t|{node.host}")

    def test_writes_reach_only_the_primary(self):
        first, second = self.first, self.second
        self.ask(first.host, 5432, "create table t (i int primary key)")
        eventually(lambda: self.ask(second.host, 5432, "select to_regclass('t')"), "the table")
        self.relay, (self.write, self.read) = self.relay_of_the_manual(
            "[listeners.write]", [first.host, second.host])
        self.writer = cluster.Writer(lambda n: psql(
            "127.0.0.1", self.write, f"insert into t values ({n}) returning {WHERE}"))
        self.addCleanup(self.writer.stop)
        # The first writes wait for the checks: each second one would come to the replica.
        self.writer.more(first.host)
        self.wait_for(self.relay, "primary", [first.host])
        self.assert_reads_at(second)

        # Both, as when a machine dies.
        first.kill_patroni()
        first.kill_postgres()
        self.fail_over(first, second)
        first.start()
        eventually(lambda: first.says("/sync") == 200, "the killed node to be a replica")
        self.assert_reads_at(first)

        session = self.session(second)
        second.kill_patroni()
        self.fail_over(second, first)
        self.assertNotEqual(session.wait(cluster.PATIENCE), 0)
        # It would have taken writes.
        self.assertEqual(self.ask(second.host, 5432, "select pg_is_in_recovery()"), "f")
        self.writer.stop()
        self.assert_written(first, [first, second, first])

    def assert_written(self, last, primaries):
        written = self.writer.written
        self.assertEqual([said for said, _ in itertools.groupby(said for _, said in written)],
                         [f"f|{node.host}" for node in primaries])
        for error in self.writer.failed:
            for words in "read-only", "recovery", "starting up":
                self.assertNotIn(words, error)
        kept = set(map(int, self.ask(last.host, 5432, "select i from t").split()))
        self.assertLessEqual({n for n, _ in written}, kept)
        print(f"{len(written)} writes, {len(self.writer.failed)} failed")
        listener = self.relay.status()["listeners"][0]
        self.assertGreaterEqual(listener["ended"]["backend_down"], 1)
        self.assertEqual(self.relay.stop(), 0)


if __name__ == "__main__":
    missing = [name for name in ("patroni", "etcd", "postgres", "psql") if not program(name)]
    if missing:
        print("skipped: not installed (scripts/setup nightly installs them):", *missing)
        sys.exit(77)
    unittest.main(verbosity=2)
