#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The files that are shipped with the program: the example configuration has every key of the manual
and is valid, with and without its comments; so is the one for Kubernetes, whose times fit; the
health check of the container works; the main process of the systemd service stays during a
handover; and bash completes commands, groups and backends.

Environment: as traffic.py, and SENNIT_SOURCE_DIR.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from traffic import BUILD, LAUNCHER, PATIENCE, Backend, RelayByConfig

SOURCE = os.environ["SENNIT_SOURCE_DIR"]
PROGRAM = os.path.join(BUILD, "tools/relay/sennit-relay")


def text_of(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def run(*arguments, **environment):
    return subprocess.run([*LAUNCHER, PROGRAM, *arguments], capture_output=True, text=True,
                          timeout=PATIENCE, check=False, env=os.environ | environment)


def uncommented(example):
    """The example, including the keys that are commented out."""
    return re.sub(r"^#([a-z_]+ = |\[)", r"\1", example, flags=re.MULTILINE)


def without_folders(example):
    """Replaces the log's folder, which has to exist, by one that does."""
    return example.replace("/var/log/sennit-relay/", "/tmp/")


def with_files(example, folder):
    """Replaces the files of TLS, which have to exist, too."""
    def run_openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=PATIENCE,
                       cwd=folder)

    run_openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-days", "60", "-subj", "/CN=example", "-keyout", "other.key", "-out", "other.pem")
    for name in "index.txt", "ca.cnf":
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            if name == "ca.cnf":
                file.write("[ca]\ndefault_ca=c\n[c]\ndatabase=index.txt\ndefault_md=sha256\n"
                           "default_crl_days=30\n")
    run_openssl("ca", "-config", "ca.cnf", "-cert", "other.pem", "-keyfile", "other.key", "-gencrl",
                "-out", "crl.pem")
    with open(os.path.join(folder, "site.pem"), "wb") as site:
        for name in "other.pem", "other.key":
            with open(os.path.join(folder, name), "rb") as file:
                site.write(file.read())
    for name, like in ("ca", "other"), ("client-ca", "other"), ("client-crl", "crl"):
        shutil.copy(os.path.join(folder, like + ".pem"), os.path.join(folder, name + ".pem"))
    return example.replace("/etc/sennit-relay/", folder + "/")


def embedded(manifest):
    """The value of `relay.toml: |`."""
    lines = manifest.split("  relay.toml: |\n")[1].splitlines()
    taken = []
    for line in lines:
        if line and not line.startswith("    "):
            break
        taken.append(line[4:])
    return "\n".join(taken) + "\n"


def kill_all(relay):
    """Kills what is left of a session."""
    try:
        os.killpg(relay.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    relay.wait(PATIENCE)


def seconds(text, key):
    return int(re.search(rf'^{key} = "(\d+)s"$', text, re.MULTILINE)[1])


class Configurations(unittest.TestCase):
    def check(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            said = run("--config", file.name, "--check")
        without = re.sub("^expect_regex = .*$", "", text, flags=re.MULTILINE)
        if "built without PCRE2" in said.stderr and without != text:
            self.check(without)
            return
        self.assertEqual(said.returncode, 0, said.stderr)

    def test_the_example_is_good(self):
        example = without_folders(text_of("packaging/sennit-relay.toml"))
        self.check(example)
        # The lists, the certificates and the token that it names have to exist, too.
        with tempfile.TemporaryDirectory() as folder:
            for name, text in [("allow", "10.0.0.0/8"), ("deny", "::1"), ("names", "a.example")]:
                with open(f"{folder}/{name}.txt", "w", encoding="utf-8") as file:
                    file.write(text + "\n")
            token = os.open(f"{folder}/token", os.O_WRONLY | os.O_CREAT, 0o600)
            with os.fdopen(token, "w", encoding="utf-8") as file:
                file.write("0123456789abcdef\n")
            self.check(with_files(uncommented(example), folder))

    def test_the_example_has_every_key(self):
        manual = text_of("docs/relay-reference.md")
        rows = re.search(r"\| key \| default \| meaning \|\n(.*?)\n\n", manual, re.DOTALL)[1]
        keys = set()
        for row in rows.splitlines():
            cell = row.split("|")[1]
            keys |= {name.rpartition(".")[2] for name in re.findall(r"`([a-z_.]+)`", cell)}
        self.assertGreater(len(keys), 50)
        example = uncommented(text_of("packaging/sennit-relay.toml"))
        for key in sorted(keys):
            there = re.search(rf"(^|[{{, ]){key} = |^\[.*\.{key}\]$", example, re.MULTILINE)
            self.assertTrue(there, f"{key} is not in the example")

    def test_the_manual_page_of_the_file_is_that_of_the_manual(self):
        made = subprocess.run([os.path.join(SOURCE, "scripts/relay-manual"), "--check"],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((made.returncode, made.stderr), (0, ""))

    def test_the_one_for_kubernetes_is_good(self):
        manifest = text_of("packaging/kubernetes.yaml")
        settings = embedded(manifest)
        self.check(settings)
        grace = int(re.search(r"terminationGracePeriodSeconds: (\d+)", manifest)[1])
        self.assertGreater(grace, seconds(settings, "stop_delay") + seconds(settings, "drain"))
        ports = re.findall(r"containerPort: (\d+)", manifest)
        self.assertEqual(ports, re.findall(r'"[^"]*:(\d+)"', settings)[1::-1])

    def test_the_manifest_is_yaml(self):
        try:
            import yaml  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("there is no PyYAML")
        parts = list(yaml.safe_load_all(text_of("packaging/kubernetes.yaml")))
        self.assertEqual([part["kind"] for part in parts],
                         ["ConfigMap", "Deployment", "Service", "Service"])
        pod = parts[1]["spec"]["template"]
        self.assertEqual(parts[1]["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"])
        names = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        self.assertEqual({parts[2]["spec"]["ports"][0]["targetPort"], "admin"}, names)
        self.assertEqual(parts[3]["spec"]["clusterIP"], "None")


class Service(unittest.TestCase):
    def test_the_main_process_stays(self):
        """systemd hears nothing of another main process, for which it would not wait."""
        unit = dict(re.findall(r"^(\w+)=(.*)$", text_of("packaging/sennit-relay.service"),
                               re.MULTILINE))
        self.assertEqual((unit["Type"], unit["NotifyAccess"], unit["KillMode"]),
                         ("notify", "all", "mixed"))
        words = unit["ExecStart"].split()
        self.assertEqual((words[0], words[-1]),
                         ("/usr/bin/sennit-relay", "$SENNIT_RELAY_OPTIONS"))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.settimeout(PATIENCE)
        manager.bind(f"{folder.name}/notify")
        relay = subprocess.Popen([PROGRAM, *words[1:-1], "127.0.0.1:0", "127.0.0.1:9"],
                                 stdout=subprocess.DEVNULL, start_new_session=True,
                                 env=os.environ | {"NOTIFY_SOCKET": f"{folder.name}/notify"})
        self.addCleanup(kill_all, relay)
        self.assertEqual(manager.recv(4096), b"READY=1")
        relay.send_signal(signal.SIGUSR2)
        self.assertEqual(manager.recv(4096), b"READY=1")
        relay.send_signal(signal.SIGTERM)
        self.assertEqual(manager.recv(4096), b"STOPPING=1")
        self.assertEqual(relay.wait(PATIENCE), 0)
        manager.setblocking(False)
        self.assertRaises(BlockingIOError, manager.recv, 4096)


class Running(unittest.TestCase):
    def setUp(self):
        self.backend = Backend()
        self.addCleanup(self.backend.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.control = f"unix:{folder.name}/control"
        self.relay = RelayByConfig(
            f'drain = 0\nadmin = "127.0.0.1:0"\ncontrol = "{self.control}"\n'
            '[listeners.web]\naddress = "127.0.0.1:0"\ngroup = "web"\n'
            f'[groups.web]\nbackends = ["{self.backend.address}", "10.0.0.7:80"]\n'
            '[listeners.a]\naddress = "127.0.0.1:0"\ngroup = "other_web"\n'
            '[groups.other_web]\nbackends = ["[::1]:80"]\n'
            '[listeners.b]\naddress = "127.0.0.1:0"\ngroup = "files"\n'
            f'[groups.files]\nbackends = ["unix:{folder.name}/$(touch $MARK)"]\n')
        self.mark = f"{folder.name}/mark"
        self.addCleanup(self.relay.stop)

    def test_the_health_check_of_the_container(self):
        recipe = text_of("packaging/Containerfile")
        words = re.findall(r'"([^"]*)"', re.search(r"\n\tCMD (\[.*\])\n", recipe)[1])
        self.assertEqual(words[0], "sennit-relay")
        words = [self.relay.admin if word == "127.0.0.1:9090" else word for word in words[1:]]
        said = run(*words)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.relay.stop()
        self.assertEqual(run(*words).returncode, 1)

    def complete(self, *words):
        """The completions that bash would offer for the last word."""
        script = (f'source "{SOURCE}/packaging/sennit-relay.bash"\n'
                  'COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))\n'
                  '_sennit_relay; printf "%s\\n" "${COMPREPLY[@]}"\n')
        path = os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"]
        said = subprocess.run(["bash", "--norc", "-c", script, "bash", "sennit-relay", *words],
                              capture_output=True, text=True, timeout=PATIENCE, check=True,
                              env=os.environ | {"PATH": path, "MARK": self.mark,
                                                "SENNIT_RELAY_CONTROL": self.control})
        return said.stdout.splitlines() if said.stdout != "\n" else []

    def test_bash_completes(self):
        self.assertEqual(self.complete("c"), ["ctl"])
        self.assertIn("--access-log-format", self.complete("--acc"))
        self.assertEqual(self.complete("ctl", "dr"), ["drain"])
        self.assertEqual(self.complete("ctl", "drain", ""), ["files", "other_web", "web"])
        self.assertEqual(self.complete("ctl", "drain", "w"), ["web"])
        self.assertEqual(self.complete("ctl", "drain", "other_web", "["), ["[::1]:80"])
        self.assertEqual(self.complete("ctl", "drain", "web", "10"), ["10.0.0.7:80"])
        self.assertEqual(len(self.complete("ctl", "weight", "web", "")), 2)
        self.assertEqual(self.complete("ctl", "--at", self.control, "kill", "--group", "w"), ["web"])
        self.assertIn("--client", self.complete("ctl", "kill", "--"))
        self.relay.stop()
        self.assertEqual(self.complete("ctl", "drain", ""), [])

    def test_bash_runs_nothing_that_a_name_says(self):
        for words in (["drain", "files", ""], ["kill", "--backend", "unix:"]):
            offered = self.complete("ctl", *words)
            self.assertEqual(len(offered), 1)
            self.assertFalse(os.path.exists(self.mark))
            # A completion becomes a part of a command line.
            subprocess.run(["bash", "-c", f": {offered[0]}"], timeout=PATIENCE, check=True,
                           env=os.environ | {"MARK": self.mark})
            self.assertFalse(os.path.exists(self.mark))


if __name__ == "__main__":
    if LAUNCHER:
        print("skipped: it is the same in every build")
        sys.exit(77)
    unittest.main(verbosity=2)
