#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The files of TLS: files that change while the relay runs, or that cannot be used; certificates that
expire; and sessions, which are resumed across a reload, for new certificates and after a handover,
but not where the client would have to show another certificate.

Environment: as for traffic.py.
"""
import os
import resource
import signal
import ssl
import subprocess
import time

from tls_case import PROGRAM, Case, run
from tls_peers import Door, replace
from traffic import LAUNCHER, PATIENCE, eventually


class Renewed(Case):
    """New files, and sessions that outlive the files and the process that made them."""

    def begin(self, more=""):
        self.site = f"{self.root}/site"
        replace(self.site + ".both", self.a + ".both")
        self.start(f'tls = {{ certificate = "{self.site}.both"{more} }}')

    def serial(self):
        client = self.client()
        found = client.tls.getpeercert()["serialNumber"]
        self.accept().close()
        client.close()
        return found

    def metric(self, name):
        lines = [line for line in self.relay.get("/metrics").splitlines() if line.startswith(name)]
        self.assertEqual(len(lines), 1, lines)
        return int(lines[0].rpartition(" ")[2])

    def test_a_file_that_changes_is_read_again(self):
        self.begin()
        first = self.serial()
        name = 'sennit_relay_tls_certificate_not_after_seconds{listener="in",name="a.test"}'
        until = self.metric(name)
        newer = self.ca.sign("a.test", "DNS:a.test", days=80, into="newer")
        open_one, behind = self.client(), self.accept()
        replace(self.site + ".both", newer + ".both")
        self.event("tls_reloaded", '"listener":"in"')
        self.assertNotEqual(self.serial(), first)
        self.assertAlmostEqual(self.metric(name) - until, 40 * 86400, delta=3600)
        open_one.send(b"still")
        self.assertEqual(behind.read(), b"still")

        # A bad file changes nothing, and is reported once.
        second = self.serial()
        with open(self.site + ".both", "w") as file:
            file.write("-----BEGIN nonsense\n")
        self.event("tls_not_reloaded", "listeners.in.tls.certificate: ")
        self.assertEqual(self.serial(), second)
        # A key of another certificate.
        with open(self.site + ".both", "w") as both:
            for part in self.a + ".pem", self.b + ".key":
                with open(part) as file:
                    both.write(file.read())
        eventually(lambda: len(self.event("tls_not_reloaded")) == 2, "the second event")
        self.relay.process.send_signal(signal.SIGHUP)
        self.event("config_error", "the key does not belong to the certificate")
        self.event("not_reloaded")
        self.assertEqual(self.serial(), second)
        replace(self.site + ".both", self.a + ".both")
        self.relay.process.send_signal(signal.SIGHUP)
        self.event("reloaded")
        self.assertEqual(self.serial(), first)

    def test_a_file_that_could_not_be_read_is_tried_again(self):
        """Without another change, because what keeps it from being read may pass."""
        self.begin()
        first = self.serial()
        newer = self.ca.sign("a.test", "DNS:a.test", days=80, into="newer3")
        pid = self.relay.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        replace(self.site + ".both", newer + ".both")
        self.event("tls_not_reloaded", "Too many open files")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        self.event("tls_reloaded", '"listener":"in"')
        self.assertEqual(len(self.event("tls_not_reloaded")), 1)
        self.assertNotEqual(self.serial(), first)

    def test_nothing_is_parsed_before_all_files_could_be_read(self):
        """One that stays unreadable would otherwise have all others parsed again and again."""
        authorities = f"{self.root}/authorities.pem"
        replace(authorities, self.ca.pem)
        self.begin(f', client_certificate = "optional", client_ca = "{authorities}"')
        os.unlink(authorities)
        replace(self.site + ".both", self.a + ".pem")  # without its key
        self.event("tls_not_reloaded", "listeners.in.tls.client_ca: ")
        replace(authorities, self.ca.pem)
        self.event("tls_not_reloaded", "listeners.in.tls.certificate: ")
        self.assertEqual(len(self.event("tls_not_reloaded")), 2)

    def test_a_folder_that_could_not_be_listed_is_tried_again(self):
        """Changes of the files in it would not be noticed without its list."""
        folder = f"{self.root}/folder"
        os.mkdir(folder)
        replace(folder + "/12345678.0", self.ca.pem)
        self.start(group=f'tls = {{ ca = "{folder}" }}')
        pid = self.relay.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        replace(folder + "/12345678.1", self.ca.pem)
        self.event("tls_not_reloaded", "groups.g.tls.ca: \\\"" + folder + "\\\" cannot be listed")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        self.event("tls_reloaded", '"group":"g"')

    def test_certificates_that_end_soon(self):
        self.ca.sign("a.test", "DNS:a.test", days=1, into="short")
        self.start(f'tls = {{ certificate = "{self.root}/short.both" }}')
        # A certificate for one day: only in 18 hours will a quarter of it be left.
        self.assertNotIn("certificate_expiring", self.events())
        self.relay.stop()
        old = self.root + "/old"
        self.ca.openssl("req", *self.ca.key(old + ".key"), "-subj", "/CN=a.test", "-out",
                        old + ".csr")
        index = self.root + "/ca2.index"
        open(index, "w").close()
        with open(self.root + "/ca2.cnf", "w") as file:
            file.write(f"[ca]\ndefault_ca=c\n[c]\ndatabase={index}\ndefault_md=sha256\n"
                       f"new_certs_dir={self.root}\nrand_serial=yes\npolicy=p\n"
                       "[p]\ncommonName=supplied\n")
        signer = ("ca", "-batch", "-config", self.root + "/ca2.cnf", "-cert", self.ca.pem,
                  "-keyfile", self.root + "/ca.key", "-in", old + ".csr", "-notext")
        self.ca.openssl(*signer, "-startdate", "20200101000000Z", "-enddate", "20210101000000Z",
                        "-out", old + ".pem")
        self.start(f'tls = {{ certificate = "{old}.pem", key = "{old}.key" }}')
        self.event("certificate_invalid", "has expired at 2021-01-01")
        said = subprocess.run([*LAUNCHER, PROGRAM, "--config", self.file, "--check"],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("warning: listeners.in.tls: the certificate", said.stderr)

    def revoke_all(self, *lists, extensions=""):
        """A file with several lists, the first of them with these extensions."""
        text = ""
        for terms in lists:
            crl = self.ca.revoke(terms=terms, extensions="" if text else extensions)
            with open(crl) as file:
                text += file.read()
        with open(crl + ".new", "w") as file:
            file.write(text)
        os.rename(crl + ".new", crl)

    def test_revocation_lists_that_end_soon(self):
        later = ("-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20490101000000Z")
        past = ("-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20210101000000Z")
        crl = self.ca.revoke(terms=later)
        self.begin(f', client_certificate = "required", client_ca = "{self.ca.pem}", '
                   f'client_crl = "{crl}"')
        name = 'sennit_relay_tls_revocation_list_next_update_seconds{listener="in",name="ca"}'
        self.assertEqual(self.metric(name), 2493072000)
        self.assertEqual([each["name"] for each in self.relay.status()["revocation_lists"]], ["ca"])
        self.assertEqual([each["name"] for each in self.relay.status()["certificates"]],
                         ["a.test"])
        # Of two lists of one issuer, the one counts that is good for longer.
        self.revoke_all(past, later)
        eventually(lambda: len(self.event("tls_reloaded")) == 1, "the event")
        self.assertEqual(self.metric(name), 2493072000)
        # But one that leaves a gap before it does not count yet.
        future = ("-crl_lastupdate", "20480101000000Z", "-crl_nextupdate", "20490101000000Z")
        soon = ("-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20470101000000Z")
        self.revoke_all(future, past, soon)
        eventually(lambda: len(self.event("tls_reloaded")) == 2, "the second event")
        self.assertEqual(self.metric(name), 2429913600)
        self.assertNotIn("revocation_list_", self.events())
        # A list for other certificates does not replace it.
        self.revoke_all(past, later, extensions="issuingDistributionPoint=@p\n[p]\nonlyCA=TRUE")
        eventually(lambda: len(self.event("tls_reloaded")) == 3, "the third event")
        self.event("revocation_list_invalid", '"name":"ca","not_after":"2021-01-01')
        self.ca.revoke(terms=later)
        eventually(lambda: len(self.event("tls_reloaded")) == 4, "the fourth event")
        self.ca.revoke(terms=past)
        eventually(lambda: len(self.event("revocation_list_invalid")) == 2, "the second one")
        # A quarter of an hour is left of this one.
        now = time.time()
        at = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(now + s)) for s in (-9000, 900)]
        self.ca.revoke(terms=("-crl_lastupdate", at[0], "-crl_nextupdate", at[1]))
        self.event("revocation_list_expiring", '"listener":"in","file":"' + crl)
        said = subprocess.run([*LAUNCHER, PROGRAM, "--config", self.file, "--check"],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertIn("warning: listeners.in.tls: the revocation list", said.stderr)

    def resumes(self, session, nth=0, context=None, name="a.test", door=None):
        client = self.client(name, context=context, session=session, nth=nth)
        client.send(b"x")
        backend = (door or self.door).accept()
        self.addCleanup(backend.close)
        self.assertEqual(backend.read(), b"x")
        backend.send(b"y")
        self.assertEqual(client.read(), b"y")  # a ticket comes with it
        found = client.tls.session_reused, client.tls.session
        client.close()
        return found

    def test_sessions_are_resumed(self):
        self.begin()
        context = self.ca.client()
        reused, session = self.resumes(None, context=context)
        self.assertFalse(reused)
        reused, session = self.resumes(session, context=context)
        self.assertTrue(reused)
        newer = self.ca.sign("a.test", "DNS:a.test", days=80, into="newer2")
        replace(self.site + ".both", newer + ".both")
        self.relay.process.send_signal(signal.SIGHUP)
        self.event("reloaded")
        reused, session = self.resumes(session, context=context)
        self.assertTrue(reused, "after a reload with another certificate")
        listener = self.relay.status()["listeners"][0]
        self.assertEqual((listener["tls_full"], listener["tls_resumed"]), (1, 2))
        if LAUNCHER:
            return
        with open(self.file, "w") as file:
            file.write(self.text.replace("drain = 0", "drain = 0\nhandover_drain = 0"))
        self.relay.process.send_signal(signal.SIGUSR2)
        pid = int(self.event("handed_over")[0].partition('"pid":')[2].partition(",")[0])
        self.addCleanup(os.kill, pid, signal.SIGTERM)
        self.relay.process.wait(PATIENCE)
        reused, session = self.resumes(session, context=context)
        self.assertTrue(reused, "after a handover")

    def test_a_resumed_session_has_the_route_of_its_name(self):
        second = Door()
        self.addCleanup(second.close)
        self.start(f'tls = {{ certificate = ["{self.a}.both", "{self.b}.both"] }}\n'
                   'sni = { "b.test" = "second" }',
                   more=f'[groups.second]\nbackends = ["{second.address}"]\n')
        for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
            context = self.ca.client(version=version)
            for name, door, other in (("b.test", second, self.door), ("a.test", self.door, second)):
                _, session = self.resumes(None, context=context, name=name, door=door)
                reused, session = self.resumes(session, context=context, name=name, door=door)
                self.assertTrue(reused, (version, name))
                # The name in the hello counts, whatever the ticket says.
                name = "a.test" if name == "b.test" else "b.test"
                self.resumes(session, context=context, name=name, door=other)

    def test_sessions_do_not_get_around_certificates(self):
        self.start(f'tls = {{ certificate = "{self.a}.both" }}',
                   more=f'[listeners.strict]\naddress = "127.0.0.1:0"\ngroup = "g"\n'
                        f'tls = {{ certificate = "{self.a}.both", client_ca = "{self.ca.pem}", '
                        f'client_certificate = "required" }}')
        context = self.ca.client()
        _, session = self.resumes(None, context=context)
        self.assertTrue(self.resumes(session, context=context)[0])
        _, session = self.resumes(None, context=context)
        with self.assertRaises((ssl.SSLError, OSError)):
            client = self.client(context=context, session=session, nth=1)
            client.send(b"x")
            while client.read():
                pass
        eventually(lambda: self.ended(1) == {"tls_failed": 1}, "it to be refused")

    def test_sessions_end_with_an_authority_of_a_folder(self):
        folder = self.root + "/authorities"
        os.mkdir(folder)
        replace(folder + "/ca.pem", self.ca.pem)
        self.ca.openssl("rehash", folder)
        self.begin(f', client_certificate = "required", client_ca = "{folder}"')
        context = self.ca.client(self.alice + ".both")
        _, session = self.resumes(None, context=context)
        reused, session = self.resumes(session, context=context)
        self.assertTrue(reused)
        # A file that is written in place does not change the folder.
        with open(folder + "/ca.pem", "a") as file:
            file.write("# a comment\n")
        self.event("tls_reloaded", '"listener":"in"')
        reused, session = self.resumes(session, context=context)
        self.assertFalse(reused, "the authorities may be others")
        for each in os.listdir(folder):
            os.unlink(f"{folder}/{each}")
        eventually(lambda: len(self.event("tls_reloaded")) == 2, "the second event")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            client = self.client(context=context, session=session)
            client.send(b"x")
            while client.read():
                pass
        eventually(lambda: self.ended().get("tls_failed") == 1, "it to be refused")


class Checked(Case):
    def check(self, listener="", group="", status=2):
        with open(self.root + "/check.toml", "w") as file:
            file.write('[listeners.in]\naddress = "127.0.0.1:0"\ngroup = "g"\n' + listener +
                       '\n[groups.g]\nbackends = ["127.0.0.1:9"]\n' + group)
        said = subprocess.run(
            [*LAUNCHER, PROGRAM, "--config", self.root + "/check.toml", "--check"],
            capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(said.returncode, status, said.stderr)
        return said.stderr

    def test_files_that_cannot_be_used(self):
        empty = self.root + "/empty"
        open(empty, "w").close()
        os.mkfifo(self.root + "/fifo")
        for certificate, key, reason in (
                (self.root + "/none", self.a + ".key", "cannot be read: No such file"),
                (self.a + ".pem", self.root + "/none", "cannot be read: No such file"),
                (self.root, self.a + ".key", "cannot be read: Is a directory"),
                (self.root + "/fifo", self.a + ".key", "is not a regular file"),
                (empty, self.a + ".key", "has nothing in PEM"),
                (self.a + ".key", self.a + ".key", "certificate cannot be read"),
                (self.a + ".pem", self.a + ".pem", "key cannot be read"),
                (self.a + ".pem", self.b + ".key", "the key does not belong to the certificate")):
            said = self.check(f'tls = {{ certificate = "{certificate}", key = "{key}" }}')
            self.assertIn("check.toml:4:23: listeners.in.tls.certificate: ", said)
            self.assertIn(reason, said)
            self.assertEqual(said.count("\n"), 1, said)
        for bad, reason in ((f'"{self.root}/none"', "cannot be read"),
                            (f'{{ certificate = "{self.a}.pem", key = "{self.b}.key" }}',
                             "the key does not belong to the certificate")):
            said = self.check(f'tls = {{ certificate = ["{self.a}.both", {bad}, '
                              f'"{self.b}.both"] }}')
            self.assertIn("listeners.in.tls.certificate[1]: ", said)
            self.assertIn(reason, said)
        for key in "ca", "crl":
            self.assertIn(f"groups.g.tls.{key}: ",
                          self.check(group=f'tls = {{ {key} = "{empty}" }}'))
        self.assertIn("groups.g.tls.certificate: ",
                      self.check(group=f'tls = {{ certificate = "{empty}" }}'))
        required = f'certificate = "{self.a}.both", client_certificate = "required"'
        self.assertIn("listeners.in.tls.client_ca: ",
                      self.check(f'tls = {{ {required}, client_ca = "{empty}" }}'))
        self.assertIn("listeners.in.tls.client_crl: ",
                      self.check(f'tls = {{ {required}, client_ca = "{self.ca.pem}", '
                                 f'client_crl = "{self.a}.pem" }}'))
        self.check(f'tls = {{ certificate = "{self.a}.both" }}', f'tls = {{ ca = "{self.root}" }}',
                   status=0)


if __name__ == "__main__":
    run("openssl")
