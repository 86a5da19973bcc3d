#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Programs that people use, with TLS: a browser and curl, with HTTP/2 over TLS that ends at the relay;
PostgreSQL and MariaDB, whose own TLS passes through the relay, and whose plain protocol goes through
two listeners of it with TLS in between. These two begin their TLS inside their own protocol, so a
relay cannot end it.

Environment: as for traffic.py. Fails when one of the programs is missing; scripts/setup test
installs them.
"""
import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import unittest

import programs_test as programs
from browser import Browser
from traffic import RelayByConfig, eventually, free_port

CONFIG = """
admin = "127.0.0.1:0"
{listeners}
"""
LISTENER = """
[listeners.{name}]
address = "127.0.0.1:{port}"
group = "{name}"
idle_timeout = "10m"
{of_listener}
[groups.{name}]
backends = ["127.0.0.1:{to}"]
{of_group}
"""
ROWS = 50000


def listener(name, port, to, of_listener="", of_group=""):
    return LISTENER.format(name=name, port=port, to=to, of_listener=of_listener, of_group=of_group)


class Certified:
    """For test cases that have a folder, self.root."""

    def certify(self):
        """A certificate for 127.0.0.1 that signs itself, and its key."""
        self.certificate, self.key = self.root + "/cert.pem", self.root + "/key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
             "subjectAltName=IP:127.0.0.1", "-keyout", self.key, "-out", self.certificate],
            check=True, capture_output=True, timeout=60)
        self.ends_tls = f'tls = {{ certificate = "{self.certificate}", key = "{self.key}"%s }}'

    def start(self, *listeners):
        relay = RelayByConfig(CONFIG.format(listeners="".join(listeners)))
        self.addCleanup(relay.stop)
        return relay

    def tunnel(self, to):
        """The port of a relay that reaches a server through TLS, which begins and ends in the
        relay."""
        inner = free_port()
        relay = self.start(
            listener("clear", 0, inner,
                     of_group=f'tls = {{ ca = "{self.certificate}", name = "127.0.0.1" }}'),
            listener("secret", inner, to, self.ends_tls % ""))
        return relay, next(int(each.rpartition(":")[2]) for each in relay.listens
                           if not each.endswith(f":{inner}"))

    def handshakes(self, relay, name):
        of = next(each for each in relay.status()["listeners"] if each["name"] == name)
        self.assertEqual(of["ended"]["tls_failed"], 0)
        return of["tls_full"] + of["tls_resumed"]


class Web(Certified, programs.Web):
    test_a_page_in_a_browser = test_http2_by_h2load = test_a_websocket_stays_open = None

    def setUp(self):
        super().setUp()
        self.certify()
        self.files = {f"{i}.bin": os.urandom(1000 + 7000 * i) for i in range(30)}
        self.files["index.html"] = b"<!doctype html><title>page</title><p id=seen></p>"
        port = self.serve_files(self.files, "http2")
        self.relay = self.start(listener("web", 0, port, self.ends_tls % ', alpn = ["h2"]'))
        self.url = "https://" + self.relay.listens[0]

    def test_curl_over_http2(self):
        for name, content in self.files.items():
            got = self.run_program("curl", "-sS", "--http2", "--cacert", self.certificate, "-w",
                                   "%{stderr}%{http_version}", "-o", self.root + "/got",
                                   f"{self.url}/{name}")
            self.assertEqual(got, b"")
            with open(self.root + "/got", "rb") as file:
                self.assertEqual(file.read(), content)

    def test_a_browser_over_http2(self):
        # The browser accepts the test's own certificate, and no other.
        public = subprocess.run(["openssl", "x509", "-in", self.certificate, "-pubkey", "-noout"],
                                check=True, capture_output=True).stdout
        der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=public,
                             check=True, capture_output=True).stdout
        pin = subprocess.run(["openssl", "base64", "-A"], input=hashlib.sha256(der).digest(),
                             check=True, capture_output=True).stdout.decode()
        browser = Browser("--ignore-certificate-errors-spki-list=" + pin)
        self.addCleanup(browser.close)
        browser.call("Page.navigate", url=self.url + "/index.html")
        eventually(lambda: browser.value("document.title") == "page", "the page to load")
        got = json.loads(browser.value("""(async () => {
            const names = [...Array(30).keys()].map((i) => i + ".bin");
            const digest = async (name) => {
                const bytes = await (await fetch(name)).arrayBuffer();
                const hash = await crypto.subtle.digest("SHA-256", bytes);
                return [...new Uint8Array(hash)].map((b) => b.toString(16).padStart(2, "0")).join("");
            };
            const found = await Promise.all(names.map(digest));
            const protocols = performance.getEntriesByType("resource").map((e) => e.nextHopProtocol);
            return JSON.stringify({found, protocols: [...new Set(protocols)]});
        })()"""))
        self.assertEqual(got["found"], [hashlib.sha256(self.files[f"{i}.bin"]).hexdigest()
                                        for i in range(30)])
        self.assertEqual(got["protocols"], ["h2"])
        of = self.relay.status()["listeners"][0]
        print(f"browser: 31 files over {of['accepted']} connections")
        self.assertLess(of["accepted"], 10)


class Postgresql(Certified, programs.Postgresql):
    test_a_session_a_benchmark_and_a_dump = None
    test_the_check_of_the_manual = None

    def serve(self, command, port, **options):
        self.certify()
        if self.user:
            for each in self.certificate, self.key:
                shutil.chown(each, self.user)
        os.chmod(self.key, 0o600)
        super().serve([*command, "-c", "ssl=on", "-c", f"ssl_cert_file={self.certificate}",
                       "-c", f"ssl_key_file={self.key}"], port, **options)

    def talk(self, port, mode):
        at = f"host=127.0.0.1 port={port} user=postgres sslmode={mode} " \
             f"sslrootcert={self.certificate}"
        psql = (programs.program("psql"), at, "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1")
        rows = b"".join(b"%d\t%s\n" % (i, hashlib.sha256(b"%d" % i).hexdigest().encode())
                        for i in range(ROWS))
        self.run_program(*psql, "-c", f"create table t{port} (i int primary key, x text)")
        self.run_program(*psql, "-c", f"copy t{port} from stdin", input=rows)
        self.assertEqual(self.run_program(*psql, "-c",
                                          f"copy (select * from t{port} order by i) to stdout"),
                         rows)
        return self.run_program(
            *psql, "-c", "select ssl from pg_stat_ssl where pid = pg_backend_pid()").strip()

    def test_its_own_tls_passes_through(self):
        relay = self.start(listener("db", 0, self.server_port))
        self.assertEqual(self.talk(int(relay.listens[0].rpartition(":")[2]), "verify-full"), b"t")

    def test_the_relays_tls_around_it(self):
        relay, port = self.tunnel(self.server_port)
        self.assertEqual(self.talk(port, "disable"), b"f")
        self.assertEqual(self.handshakes(relay, "secret"), 4)


class Mariadb(Certified, programs.Traffic):
    def setUp(self):
        super().setUp()
        self.certify()
        self.server_port = free_port()
        user = "mysql" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        data = self.root + "/data"
        os.mkdir(data, 0o700)
        if os.getuid() == 0:
            for each in data, self.certificate, self.key:
                shutil.chown(each, user)
        daemon = programs.program("mariadbd")
        install = programs.program("mariadb-install-db")
        self.run_program(install, "--no-defaults", f"--user={user}", f"--datadir={data}",
                         "--auth-root-authentication-method=normal", "--skip-test-db")
        self.serve([daemon, "--no-defaults", f"--user={user}", f"--datadir={data}",
                    "--bind-address=127.0.0.1", f"--port={self.server_port}",
                    f"--socket={data}/socket", f"--pid-file={data}/pid",
                    f"--ssl-cert={self.certificate}", f"--ssl-key={self.key}"], self.server_port)

    def talk(self, port, *options):
        client = (programs.program("mariadb"), "--no-defaults", "-h", "127.0.0.1", "-P", str(port),
                  "-u", "root", "-N", "-B", *options)
        said = self.run_program(*client, "-e", "show status like 'Ssl_version'")
        self.run_program(*client, "-e", f"create database d{port}; create table d{port}.t "
                         "(i int primary key, x varchar(64))")
        values = ",".join(f"({i},'{hashlib.sha256(b'%d' % i).hexdigest()}')" for i in range(ROWS))
        self.run_program(*client, f"d{port}", input=f"insert into t values {values};".encode())
        got = self.run_program(*client, f"d{port}", "-e", "select * from t order by i")
        self.assertEqual(got, b"".join(b"%d\t%s\n" % (i, hashlib.sha256(b"%d" % i).hexdigest().encode())
                                       for i in range(ROWS)))
        return said

    def test_its_own_tls_passes_through(self):
        relay = self.start(listener("db", 0, self.server_port))
        self.assertIn(b"TLSv1", self.talk(int(relay.listens[0].rpartition(":")[2]),
                                          f"--ssl-ca={self.certificate}",
                                          "--ssl-verify-server-cert"))

    def test_the_relays_tls_around_it(self):
        relay, port = self.tunnel(self.server_port)
        self.assertNotIn(b"TLSv1", self.talk(port, "--skip-ssl"))
        self.assertEqual(self.handshakes(relay, "secret"), 4)


if __name__ == "__main__":
    for name in "chromium", "nginx", "curl", "psql", "postgres", "initdb", "mariadb", "mariadbd":
        if not programs.program(name):
            sys.exit(f"{name} is not installed; scripts/setup test installs it")
    unittest.main()
