# SPDX-License-Identifier: MIT
"""
What systemd_test.sh runs as root in the Debian that it has booted: the service of the package.

Arguments: the package, and the same with a later version.
"""
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

PACKAGE, LATER = sys.argv[1:3]
PATIENCE = 60
UNIT = "sennit-relay.service"
CONFIG = "/etc/sennit-relay/relay.toml"
DEFAULTS = "/etc/default/sennit-relay"
LOGS = "/var/log/sennit-relay"
EXAMPLES = "/usr/share/doc/sennit-relay/examples"


def run(*words, timeout=PATIENCE):
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise AssertionError(f"{words} exits with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def fails(*words):
    """Returns what a command says that must fail."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if not done.returncode:
        raise AssertionError(f"{words} succeeds: {done.stdout}")
    return done.stdout + done.stderr


def systemctl(*words):
    return run("systemctl", *words)


def show(name, unit=UNIT):
    return systemctl("show", "--value", "--property", name, unit).strip()


def eventually(holds, what):
    until = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError("waited too long for " + what)
        time.sleep(0.02)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Backend:
    """Answers each line with its name and the line."""

    def __init__(self, name):
        self.name = name
        self.door = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.address = "127.0.0.1:%d" % self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.door.accept()
            threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client):
        try:
            with client, client.makefile("rwb") as file:
                for line in file:
                    file.write(self.name.encode() + b":" + line)
                    file.flush()
        except OSError:
            pass


def connect(port=8080):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def ask(client):
    """Returns the name of the backend that answers."""
    client.sendall(b"hello\n")
    said = b""
    while not said.endswith(b":hello\n"):
        more = client.recv(100)
        if not more:
            raise EOFError
        said += more
    return said.partition(b":")[0].decode()


class Load:
    """Clients that connect, ask and leave until the end of the block; none may fail."""

    def __init__(self, case):
        self.case = case
        self.over = threading.Event()
        self.faults = []
        self.counts = [0] * 4
        self.threads = [threading.Thread(target=self.work, args=(n,)) for n in range(4)]

    def work(self, nth):
        while not self.over.is_set():
            try:
                with connect() as client:
                    ask(client)
                self.counts[nth] += 1
            except (OSError, EOFError) as fault:
                self.faults.append(repr(fault))

    def goes_on(self):
        before = sum(self.counts)
        eventually(lambda: self.faults or sum(self.counts) > before + 20, "clients")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()
        self.case.assertEqual(self.faults, [])


def first():
    """The first process, which systemd knows as the main one."""
    return int(show("MainPID"))


def relays():
    """The processes of the service but the first."""
    with open("/sys/fs/cgroup" + show("ControlGroup") + "/cgroup.procs", encoding="ascii") as file:
        return {int(line) for line in file} - {first()}


def journal(*words):
    return run("journalctl", "--no-pager", f"--unit={UNIT}",
               f"_SYSTEMD_INVOCATION_ID={show('InvocationID')}", *words)


class Service(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.one, cls.two = Backend("one"), Backend("two")
        # Installing it starts and enables nothing.
        run("dpkg", "--install", PACKAGE)
        assert show("ActiveState") == "inactive", show("ActiveState")
        assert show("UnitFileState") == "disabled", show("UnitFileState")

    def configure(self, backend=None, drain="1h", more=""):
        write(CONFIG, f'drain = "{drain}"\nadmin = "127.0.0.1:9090"\n'
              f'access_log = "{LOGS}/access.log"\n'
              '[listeners.web]\naddress = "127.0.0.1:8080"\ngroup = "web"\n'
              f'[groups.web]\nbackends = ["{(backend or self.one).address}"]\n{more}')
        write(DEFAULTS, f'SENNIT_RELAY_OPTIONS="--config {CONFIG}"\n')

    def start(self, **options):
        self.configure(**options)
        self.addCleanup(systemctl, "stop", UNIT)
        systemctl("start", UNIT)

    def break_configuration(self):
        with open(CONFIG, encoding="utf-8") as file:
            good = file.read()
        write(CONFIG, good.replace('drain = "1h"', 'drain = "soon"'))
        return lambda: write(CONFIG, good)

    def hand_over(self, how):
        """Returns the process that has begun to serve."""
        count = lambda: journal().count("handed over to process")
        before, handovers = relays(), count()
        how()
        eventually(lambda: count() > handovers, "a handover")
        (newest,) = relays() - before
        return newest

    def test_starts_with_the_file_of_the_package(self):
        shutil.copy("/root/default", DEFAULTS)
        self.addCleanup(systemctl, "stop", UNIT)
        systemctl("start", UNIT)
        admin = http.client.HTTPConnection("127.0.0.1", 9090, timeout=PATIENCE)
        self.addCleanup(admin.close)
        for path in "/ready", "/healthz":
            admin.request("GET", path)
            answer = admin.getresponse()
            answer.read()
            self.assertEqual(answer.status, 200, path)
        for process in first(), *relays():
            with open(f"/proc/{process}/status", encoding="ascii") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            self.assertNotIn("0", status["Uid"].split())
            # Only ports below 1024: CAP_NET_BIND_SERVICE is 10.
            for name in "CapEff", "CapPrm", "CapBnd":
                self.assertEqual(int(status[name], 16), 1 << 10, name)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        # docs/relay-operation.md has this number; the scale ends at 100.
        run("systemd-analyze", "security", "--no-pager", "--threshold=16", UNIT)

    def test_reload(self):
        self.start()
        with connect() as lasting:
            self.assertEqual(ask(lasting), "one")
            self.configure(self.two)
            systemctl("reload", UNIT)

            def new_backend():
                with connect() as client:
                    return ask(client) == "two"

            eventually(new_backend, "the new configuration")
            repair = self.break_configuration()
            fails("systemctl", "reload", UNIT)
            self.assertEqual(show("ActiveState"), "active")
            self.assertTrue(new_backend())
            self.assertIn('drain: "soon" is not a duration', journal())
            repair()
            systemctl("reload", UNIT)
            self.assertEqual(ask(lasting), "one")
        self.assertEqual(show("NRestarts"), "0")

    def test_an_upgrade_hands_over(self):
        self.start()
        process = first()
        old = [connect() for _ in range(50)]
        try:
            for client in old:
                ask(client)
            with Load(self) as load:
                load.goes_on()
                for package in LATER, PACKAGE:
                    newest = self.hand_over(lambda package=package: run(
                        "dpkg", "--install", package))
                    load.goes_on()
                    systemctl("reload", UNIT)
                    load.goes_on()
            for client in old:
                self.assertEqual(ask(client), "one")
        finally:
            for client in old:
                client.close()
        eventually(lambda: relays() == {newest}, "the old processes to end")
        self.assertEqual((first(), show("ActiveState"), show("NRestarts")),
                         (process, "active", "0"))
        # stderr is the journal, so its entries have the fields of the events.
        entry = journal("--output=json", "--lines=1", "SENNIT_EVENT=handed_over")
        self.assertIn(f'"SENNIT_PID":"{newest}"', entry.replace(" ", ""))

    def test_an_upgrade_that_does_not_serve(self):
        self.start()
        with connect() as client:
            ask(client)
            before = relays()
            repair = self.break_configuration()
            run("dpkg", "--install", LATER)
            eventually(lambda: "SENNIT_EVENT=not_handed_over" in journal("--output=export"),
                       "the event")
            self.assertEqual(relays(), before)
            with connect() as other:
                self.assertEqual((ask(client), ask(other)), ("one", "one"))
            repair()
            self.hand_over(lambda: systemctl("kill", "--kill-whom=main", "--signal=USR2", UNIT))
            self.assertEqual(ask(client), "one")
        run("dpkg", "--install", PACKAGE)

    def test_stop_lets_connections_finish(self):
        self.start()
        with connect() as old:
            ask(old)
            self.hand_over(lambda: systemctl("kill", "--kill-whom=main", "--signal=USR2", UNIT))
            with connect() as new, subprocess.Popen(["systemctl", "stop", UNIT]) as stop:
                ask(new)
                eventually(lambda: show("ActiveState") == "deactivating", "the stop")
                eventually(lambda: journal().count("may finish") == 3, "both to drain")
                self.assertEqual((ask(old), ask(new)), ("one", "one"))
                self.assertIsNone(stop.poll())
                old.close()
                new.close()
                self.assertEqual(stop.wait(PATIENCE), 0)
        self.assertEqual((show("ActiveState"), show("Result")), ("inactive", "success"))

    def test_stop_cuts_connections_after_the_drain(self):
        self.start(drain="1s")
        with connect() as client:
            ask(client)
            systemctl("stop", UNIT)
            with self.assertRaises(ConnectionResetError):
                client.recv(1)
        self.assertEqual(show("Result"), "success")

    def test_a_relay_that_dies_is_started_again(self):
        self.start()
        with connect() as client:
            ask(client)
            (relay,) = relays()
            os.kill(relay, signal.SIGKILL)
            eventually(lambda: show("NRestarts") == "1" and show("ActiveState") == "active",
                       "the restart")
        with connect() as client:
            self.assertEqual(ask(client), "one")
        systemctl("reset-failed", UNIT)

    def test_a_start_with_a_file_that_is_not_valid(self):
        """It is not tried again and again, after which systemd would refuse to start it."""
        self.configure()
        repair = self.break_configuration()
        fails("systemctl", "start", UNIT)
        self.assertEqual((show("ActiveState"), show("ExecMainStatus"), show("NRestarts")),
                         ("failed", "2", "0"))
        repair()
        self.addCleanup(systemctl, "stop", UNIT)
        systemctl("start", UNIT)
        with connect() as client:
            self.assertEqual(ask(client), "one")

    def test_sockets_of_systemd(self):
        more = ""
        for name, address in (("low", "127.0.0.1:443"), ("app", "unix:/run/app.sock"),
                              ("datagrams", "udp:127.0.0.1:5300")):
            more += f'[listeners.{name}]\naddress = "{address}"\ngroup = "web"\n'
        self.configure(more=more)
        unit = "/etc/systemd/system/sennit-relay.socket"
        with open(EXAMPLES + "/sennit-relay.socket", encoding="utf-8") as file:
            text = file.read()
        self.assertIn("ListenStream=8080\n", text)
        write(unit, text.replace(
            "ListenStream=8080\n", "ListenStream=127.0.0.1:8080\nListenStream=127.0.0.1:443\n"
            "ListenStream=/run/app.sock\nListenDatagram=127.0.0.1:5300\n"))
        self.addCleanup(systemctl, "daemon-reload")
        self.addCleanup(os.remove, unit)
        systemctl("daemon-reload")
        self.addCleanup(systemctl, "stop", os.path.basename(unit), UNIT)
        systemctl("start", os.path.basename(unit))
        self.assertEqual(show("ActiveState"), "inactive")
        for port in 8080, 443:  # the first one starts it
            with connect(port) as client:
                self.assertEqual(ask(client), "one")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect("/run/app.sock")
            self.assertEqual(ask(client), "one")
        with Load(self) as load:
            load.goes_on()
            systemctl("restart", UNIT)
            load.goes_on()
            self.hand_over(lambda: systemctl("kill", "--kill-whom=main", "--signal=USR2", UNIT))
            load.goes_on()
            systemctl("stop", UNIT)
            load.goes_on()
        self.assertNotIn("socket_unused", journal("--output=export"))
        self.assertTrue(os.path.exists("/run/app.sock"))

    def test_its_own_folders_and_a_low_port(self):
        self.start(more='[listeners.low]\naddress = "127.0.0.1:443"\ngroup = "web"\n'
                   '[listeners.app]\naddress = "unix:/run/sennit-relay/app.sock"\ngroup = "web"\n')
        self.hand_over(lambda: systemctl("kill", "--kill-whom=main", "--signal=USR2", UNIT))
        with connect(443) as client:
            self.assertEqual(ask(client), "one")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect("/run/sennit-relay/app.sock")
            self.assertEqual(ask(client), "one")
        lines = lambda: os.path.getsize(LOGS + "/access.log")
        eventually(lines, "the log")
        shutil.copy(EXAMPLES + "/sennit-relay.logrotate", "/etc/logrotate.d/sennit-relay")
        run("logrotate", "--force", "/etc/logrotate.d/sennit-relay")
        eventually(lambda: os.path.exists(LOGS + "/access.log") and not lines(), "a new log")
        self.assertTrue(os.path.getsize(LOGS + "/access.log.1"))
        with connect() as client:
            self.assertEqual(ask(client), "one")
        eventually(lines, "the new log's first line")


class Uninstalled(unittest.TestCase):
    """Unittest runs the classes in the order of their names."""

    def test_removal_stops_it_and_the_purge_leaves_nothing(self):
        systemctl("start", UNIT)
        process = first()
        run("dpkg", "--remove", "sennit-relay")
        self.assertFalse(os.path.exists(f"/proc/{process}"))
        self.assertTrue(os.path.exists(LOGS + "/access.log"))
        run("dpkg", "--purge", "sennit-relay")
        left = run("find", "/etc", "/usr", "/var/log", "/var/lib/private", "/run", "-name",
                   "*sennit*", "-not", "-path", "/etc/sennit-relay", "-not", "-path",
                   "/etc/logrotate.d/*")
        self.assertEqual(left, "")
        self.assertEqual(re.findall("sennit", systemctl("list-unit-files", "--no-pager")), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
