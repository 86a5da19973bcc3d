#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: nightly
"""
Three nodes of MariaDB in a cluster of Galera, and the relay with the configuration and the
clustercheck of the manual. All writes reach the first node, but while it is desynchronized, as when
the relay starts, and while it is away after a kill, the second one. Open sessions are cut, and
every acknowledged write is at all nodes.

Environment: as for traffic.py. Skips when a program is missing; scripts/setup nightly installs
them.
"""
import itertools
import os
import shutil
import subprocess
import sys
import unittest

import cluster
from cluster import eventually, program

PROVIDER = "/usr/lib/galera/libgalera_smm.so"
USER = "mysql" if os.getuid() == 0 else None  # MariaDB does not run as root.


class Node:
    def __init__(self, test, host, hosts):
        self.test = test
        self.host = host
        self.folder = f"{test.root}/{host}"
        self.socket = self.folder + "/socket"
        # A server that starts removes the temporary tables in its folder for them, also those of
        # another one.
        temporary = f"--tmpdir={self.folder}/tmp"
        self.command = [
            program("mariadbd"), "--no-defaults", f"--datadir={self.folder}/data", temporary,
            f"--socket={self.socket}", f"--pid-file={self.folder}/pid", f"--bind-address={host}",
            "--port=3306", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-autoinc-lock-mode=2",
            "--binlog-format=ROW", "--wsrep-on=ON", "--wsrep-provider=" + PROVIDER,
            "--wsrep-cluster-name=test", "--wsrep-cluster-address=gcomm://" + ",".join(hosts),
            "--wsrep-node-name=" + host, "--wsrep-node-address=" + host,
            "--wsrep-sst-method=rsync", f"--wsrep-sst-receive-address={host}:4444",
            # A node is not synced while another one copies its database.
            f"--wsrep-sst-donor={hosts[-1]},",
            f"--wsrep-provider-options=gmcast.listen_addr=tcp://{host}:4567;"
            f"ist.recv_addr={host}:4568;gcache.size=16M",
        ]
        for folder in (self.folder, self.folder + "/tmp"):
            os.mkdir(folder, 0o700)
            if USER:
                shutil.chown(folder, USER, USER)
        test.run_program(
            "mariadb-install-db", "--no-defaults", f"--datadir={self.folder}/data", temporary,
            "--skip-test-db", "--auth-root-authentication-method=normal",
            *(["--user=" + USER] if USER else []))

    def start(self, *options):
        self.mariadbd = self.test.start(self.command + list(options), USER)
        eventually(lambda: self.state() == "4", f"{self.host} to be synced")

    def ask(self, command):
        return subprocess.run(sql(command, "--socket=" + self.socket, "--user=root"), text=True,
                              capture_output=True, timeout=cluster.PATIENCE, check=False).stdout

    def state(self):
        if self.mariadbd.poll() is not None:
            raise AssertionError(f"{self.host} has ended")
        return self.ask("show status like 'wsrep_local_state'").partition("\t")[2].strip()

    def report(self, check):
        """As in the manual, at another place and one host. ~/.my.cnf says where the socket is."""
        with open(self.folder + "/.my.cnf", "w", encoding="utf-8") as file:
            file.write(f"[client]\nsocket = {self.socket}\n")
        self.test.start(
            [program("socat"), f"TCP-LISTEN:9200,bind={self.host},fork,reuseaddr", "EXEC:" + check],
            env=os.environ | {"HOME": self.folder})

    def kill(self):
        self.mariadbd.kill()
        self.mariadbd.wait()


def sql(command, *options):
    return [program("mariadb"), "--no-defaults", *options, "-N", "-B", "-e", command]


class Galera(cluster.Cluster):
    def setUp(self):
        super().setUp()
        hosts = cluster.hosts(3)
        self.nodes = [Node(self, host, hosts) for host in hosts]
        self.nodes[0].start("--wsrep-new-cluster")
        self.nodes[0].ask("create user clustercheck@localhost;"
                          "grant connection admin on *.* to clustercheck@localhost;"
                          "create database d;"
                          "create table d.t (i int primary key);"
                          "create user u; grant all on d.* to u")
        check = self.root + "/clustercheck"
        with open(check, "w", encoding="utf-8") as file:
            file.write(cluster.example("#!/bin/sh"))
        os.chmod(check, 0o755)
        for node in self.nodes[1:]:
            node.start()
        for node in self.nodes:
            node.report(check)

    def through_relay(self, command):
        return sql(command, "--host=127.0.0.1", f"--port={self.port}", "--user=u", "d")

    def session(self, node):
        """A session that is open at that node, through the relay."""
        session = subprocess.Popen(self.through_relay("select sleep(1000)"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(session.communicate)
        self.addCleanup(session.kill)
        eventually(lambda: "sleep(1000)" in node.ask("show processlist"), "a session")
        return session

    def test_writes_reach_one_synced_node(self):
        first, second, third = self.nodes
        everyone = [node.host for node in self.nodes]
        # The first client waits until it is known that this node is not synced.
        first.ask("set global wsrep_desync = 1")
        self.relay, (self.port,) = self.relay_of_the_manual("[listeners.galera]", everyone)
        writer = cluster.Writer(lambda n: self.through_relay(
            f"insert into t values ({n}); select @@wsrep_node_name"))
        self.addCleanup(writer.stop)
        writer.more(second.host)
        first.ask("set global wsrep_desync = 0")
        self.wait_for(self.relay, "galera", everyone)
        writer.more(first.host)

        session = self.session(first)
        first.ask("set global wsrep_desync = 1")
        self.wait_for(self.relay, "galera", everyone[1:])
        self.assertNotEqual(session.wait(cluster.PATIENCE), 0)
        writer.more(second.host)
        first.ask("set global wsrep_desync = 0")
        self.wait_for(self.relay, "galera", everyone)
        writer.more(first.host)

        first.kill()
        self.wait_for(self.relay, "galera", everyone[1:])
        writer.more(second.host)
        first.start()
        self.wait_for(self.relay, "galera", everyone)
        writer.more(first.host)
        writer.stop()

        written = writer.written
        self.assertEqual([node for node, _ in itertools.groupby(node for _, node in written)],
                         [node.host for node in (second, first, second, first, second, first)])
        for node in self.nodes:
            kept = set(map(int, node.ask("set wsrep_sync_wait = 1; select i from d.t").split()))
            self.assertLessEqual({n for n, _ in written}, kept)
        print(f"{len(written)} writes, {len(writer.failed)} failed")
        self.assertGreaterEqual(self.relay.status()["listeners"][0]["ended"]["backend_down"], 1)
        self.assertEqual(self.relay.stop(), 0)


if __name__ == "__main__":
    wanted = ("mariadbd", "mariadb", "mariadb-install-db", "rsync", "socat")
    missing = [name for name in wanted if not program(name)]
    missing += [] if os.path.exists(PROVIDER) else ["galera"]
    if missing:
        print("skipped: not installed (scripts/setup nightly installs them):", *missing)
        sys.exit(77)
    unittest.main(verbosity=2)
