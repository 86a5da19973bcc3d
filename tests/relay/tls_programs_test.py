#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: gate
"""
Programs that people use, with TLS: a browser and curl, with HTTP/2 over TLS that ends at the relay;
curl, nghttp and h2load with HTTP/2, and nginx and nghttpd, where TLS ends at the relay, ends and
begins again there, or passes through by its name; PostgreSQL and MariaDB, whose own TLS passes
through the relay, and whose plain protocol goes through two listeners of it with TLS in between.
These two begin their TLS inside their own protocol, so a relay cannot end it.

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
BY_NAME = """
[listeners.web]
address = "127.0.0.1:0"
sni = {{ "localhost" = "web" }}
[groups.web]
backends = ["127.0.0.1:{to}"]
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
             "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", self.key,
             "-out", self.certificate],
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
                                   "%{http_version}", "-o", self.root + "/got",
                                   f"{self.url}/{name}")
            self.assertEqual(got, b"2")
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


class Http2(Certified, programs.Web):
    test_a_page_in_a_browser = test_http2_by_h2load = test_a_websocket_stays_open = None

    def setUp(self):
        super().setUp()
        self.certify()
        self.files = {f"{i}.bin": os.urandom(1 + 12000 * i) for i in range(12)}
        self.files["small"], self.files["large"] = os.urandom(1024), os.urandom(1 << 20)

    def serve_nghttpd(self, tls):
        port = free_port()
        self.write_files(self.files)
        self.serve([programs.program("nghttpd"), "-a", "127.0.0.1", "-d", self.root + "/www",
                    *(() if tls else ("--no-tls",)), str(port),
                    *((self.key, self.certificate) if tls else ())], port)
        return port

    def serve_nginx(self, tls):
        if not tls:
            return self.serve_files(self.files, "http2")
        return self.serve_files(self.files, "ssl http2", f"ssl_certificate {self.certificate}; "
                                f"ssl_certificate_key {self.key};")

    def ask_all(self, url):
        """Compares what curl and nghttp get with the files, then loads the server."""
        for name, content in self.files.items():
            said = self.run_program("curl", "-sS", "--http2", "--cacert", self.certificate, "-w",
                                    "%{http_version}", "-o", self.root + "/got", f"{url}/{name}")
            self.assertEqual(said, b"2")
            with open(self.root + "/got", "rb") as file:
                self.assertEqual(file.read(), content)
        # One connection, and a stream for each file.
        nghttp, h2load = programs.program("nghttp"), programs.program("h2load")
        got = self.run_program(nghttp, *(f"{url}/{name}" for name in self.files))
        self.assertEqual(len(got), sum(map(len, self.files.values())))
        for name in "large", "11.bin":
            self.assertEqual(self.run_program(nghttp, f"{url}/{name}"), self.files[name])
        for name, clients, streams, requests in ("small", 50, 10, 5000), ("large", 10, 5, 100):
            said = self.run_program(h2load, "-c", str(clients), "-m", str(streams), "-n",
                                    str(requests), f"{url}/{name}").decode()
            self.assertIn("Application protocol: h2\n", said)
            self.assertIn(f"{requests} succeeded, 0 failed, 0 errored, 0 timeout", said)

    def check(self, serve, ends=True, begins=False):
        """The relay ends TLS, and may begin it again to the server; or passes it through."""
        to = serve(begins or not ends)
        if ends:
            relay = self.start(listener(
                "web", 0, to, self.ends_tls % ', alpn = ["h2"]',
                f'tls = {{ ca = "{self.certificate}", name = "localhost" }}' if begins else ""))
        else:
            relay = self.start(BY_NAME.format(to=to))
        self.ask_all("https://localhost:" + relay.listens[0].rpartition(":")[2])
        # These clients and servers end TLS without a close_notify, because HTTP/2 has lengths.
        of = self.finish(relay, least=len(self.files) + 63,
                         causes=programs.GOOD | {"client_reset", "server_reset"})
        self.assertEqual(of["tls_full"] + of["tls_resumed"], of["accepted"] if ends else 0)

    def test_nginx_behind_tls_that_ends_at_the_relay(self):
        self.check(self.serve_nginx)

    def test_nginx_behind_tls_that_begins_again_at_the_relay(self):
        self.check(self.serve_nginx, begins=True)

    def test_nginx_behind_tls_that_passes_through(self):
        self.check(self.serve_nginx, ends=False)

    def test_nghttpd_behind_tls_that_ends_at_the_relay(self):
        self.check(self.serve_nghttpd)

    def test_nghttpd_behind_tls_that_begins_again_at_the_relay(self):
        self.check(self.serve_nghttpd, begins=True)

    def test_nghttpd_behind_tls_that_passes_through(self):
        self.check(self.serve_nghttpd, ends=False)


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
    for name in ("chromium", "nginx", "curl", "nghttp", "nghttpd", "h2load", "psql", "postgres",
                 "initdb", "mariadb", "mariadbd"):
        if not programs.program(name):
            sys.exit(f"{name} is not installed; scripts/setup test installs it")
    unittest.main()
