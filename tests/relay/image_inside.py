# SPDX-License-Identifier: MIT
"""
What image_test.sh runs in a network and with mounts of its own: the image in crun, as the image and
the manifest of Kubernetes say. The cases share the ports of the image, so they run one by one.

Arguments: the folder with the files of the image, and the image's configuration. Environment: as
for traffic.py, and SENNIT_SOURCE_DIR.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from packaging_test import embedded, text_of
from traffic import PATIENCE, Backend, ask, eventually

ROOT = sys.argv[1]
with open(sys.argv[2], encoding="utf-8") as FILE:
    IMAGE = json.load(FILE)
USER = dict(zip(("uid", "gid"), map(int, IMAGE["User"].split(":"))))
# An address of the pod, under which the kubelet asks.
POD = "10.10.10.10"


class Container:
    """The image with a configuration file. Its root is read-only, and it has no privileges."""

    def __init__(self, case, text):
        self.folder = tempfile.mkdtemp()
        case.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        os.mkdir(f"{self.folder}/settings", 0o755)
        self.configure(text)
        subprocess.run(["crun", "spec"], cwd=self.folder, check=True, timeout=PATIENCE)
        with open(f"{self.folder}/config.json", encoding="utf-8") as file:
            spec = json.load(file)
        spec["root"] = {"path": ROOT, "readonly": True}
        spec["process"] |= {"terminal": False, "user": USER, "capabilities": {},
                            "noNewPrivileges": True, "env": IMAGE["Env"],
                            "args": IMAGE["Entrypoint"] + IMAGE["Cmd"]}
        spec["process"].pop("rlimits", None)
        linux = spec["linux"]
        linux.pop("resources", None)
        linux["namespaces"] = [one for one in linux["namespaces"]
                               if one["type"] in ("pid", "ipc", "uts", "mount")]
        spec["mounts"] = [one for one in spec["mounts"] if one["destination"] != "/sys/fs/cgroup"]
        spec["mounts"].append({"destination": "/etc/sennit-relay", "type": "bind",
                               "source": f"{self.folder}/settings", "options": ["bind", "ro"]})
        with open(f"{self.folder}/config.json", "w", encoding="utf-8") as file:
            json.dump(spec, file)
        self.output = open(f"{self.folder}/output", "w+", encoding="utf-8")
        case.addCleanup(self.output.close)
        self.runtime = ["crun", f"--root={self.folder}/state", "--cgroup-manager=disabled"]
        self.process = subprocess.Popen([*self.runtime, "run", "relay"], cwd=self.folder,
                                        stdin=subprocess.PIPE, stdout=self.output,
                                        stderr=self.output)
        self.process.stdin.close()
        case.addCleanup(self.process.wait)
        case.addCleanup(self.crun, "delete", "--force", "relay", check=False)
        eventually(lambda: self.count("serving") or self.process.poll() is not None, "the relay")
        if self.process.poll() is not None:
            raise AssertionError("it does not start: " + self.said())

    def configure(self, text):
        with open(f"{self.folder}/settings/relay.toml", "w", encoding="utf-8") as file:
            file.write(text)

    def crun(self, *words, check=True):
        # crun gives its standard descriptors to the user of the container, which must not happen
        # to this machine's /dev/null.
        return subprocess.run([*self.runtime, *words], capture_output=True, text=True, input="",
                              timeout=PATIENCE, check=check)

    def said(self):
        with open(f"{self.folder}/output", encoding="utf-8") as file:
            return file.read()

    def count(self, event):
        return self.said().count(f'"event":"{event}"')

    def execute(self, *words):
        """Runs a command in the container as its user, as a health check is run. Returns its exit
        status."""
        return self.crun("exec", f"--user={IMAGE['User']}", "relay", *words,
                         check=False).returncode

    def send(self, name):
        self.crun("kill", "relay", name)


def status_of(url, host=None):
    request = urllib.request.Request(url, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def connect():
    return socket.create_connection(("127.0.0.1", 8080), timeout=PATIENCE)


class Image(unittest.TestCase):
    def setUp(self):
        self.backend = Backend()
        self.addCleanup(self.backend.close)

    def settings(self, backend=None, admin="127.0.0.1:9090"):
        return (f'drain = "1h"\nadmin = "{admin}"\nevents = "json"\n'
                '[listeners.web]\naddress = ":8080"\ngroup = "web"\n'
                f'[groups.web]\nbackends = ["{(backend or self.backend).address}"]\n')

    def test_it_serves_without_privileges(self):
        relay = Container(self, self.settings())
        with connect() as client:
            self.assertEqual(ask(client, 1000), 1000)
        pid = json.loads(relay.crun("state", "relay").stdout)["pid"]
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual(status["NSpid"].split()[-1], "1")
        self.assertEqual(status["Uid"].split(), [str(USER["uid"])] * 4)
        self.assertEqual((int(status["CapPrm"], 16), status["NoNewPrivs"]), (0, "1"))
        self.assertNotEqual(relay.execute("touch", "/file"), 0)
        self.assertNotEqual(relay.execute("touch", "/etc/sennit-relay/relay.toml"), 0)
        relay.send(IMAGE["StopSignal"])
        self.assertEqual(relay.process.wait(PATIENCE), 0)

    def test_the_health_check(self):
        kind, *words = IMAGE["Healthcheck"]["Test"]
        self.assertEqual(kind, "CMD")
        relay = Container(self, self.settings())
        self.assertEqual(relay.execute(*words), 0)
        relay.send("KILL")
        relay.process.wait(PATIENCE)
        relay = Container(self, self.settings(admin="127.0.0.1:9091"))
        self.assertEqual(relay.execute(*words), 1)

    def test_it_is_reloaded_and_replaced_with_a_connection(self):
        other = Backend()
        self.addCleanup(other.close)
        relay = Container(self, self.settings())
        with connect() as client:
            self.assertEqual(ask(client, 1000), 1000)
            relay.configure(self.settings(other))
            relay.send("HUP")
            eventually(lambda: relay.count("reloaded") == 1, "the reload")
            relay.configure("this is no file\n")
            relay.send("HUP")
            eventually(lambda: relay.count("not_reloaded") == 1, "the other")
            relay.configure(self.settings(other))
            for count in 1, 2:
                relay.send("USR2")
                eventually(lambda count=count: relay.count("handed_over") == count, "a handover")
                with connect() as new:
                    self.assertEqual(ask(new, 1000), 1000)
                self.assertEqual(ask(client, 1000), 1000)
            self.assertIsNone(relay.process.poll())
            relay.send("TERM")
            eventually(lambda: relay.count("draining") == 5, "all to drain")
            self.assertEqual(ask(client, 1000), 1000)
        self.assertEqual(relay.process.wait(PATIENCE), 0)

    def test_a_configuration_that_is_not_valid(self):
        with self.assertRaisesRegex(AssertionError, "does not start: .*toml:1:1: x: unknown key"):
            Container(self, "x = 1\n")

    def test_the_manifest(self):
        manifest = text_of("packaging/kubernetes.yaml")
        probes = dict(re.findall(r"(\w+)Probe:\n +httpGet: \{ path: (\S+), port: admin \}",
                                 manifest))
        self.assertEqual(set(probes), {"readiness", "liveness"})
        self.assertEqual(int(re.search(r"runAsUser: (\d+)", manifest)[1]), USER["uid"])
        ports = dict(re.findall(r"name: (\w+), containerPort: (\d+)", manifest))
        self.assertEqual({f"{port}/tcp" for port in ports.values()}, set(IMAGE["ExposedPorts"]))

        def status(probe):
            at = f"{POD}:{ports['admin']}"
            return status_of(f"http://{at}{probes[probe]}", host=at)

        # As it is. There is no name service here, as if the application was not there yet.
        text = embedded(manifest)
        relay = Container(self, text)
        self.assertEqual((status("liveness"), status("readiness")), (200, 200))
        for name in "TERM", "TERM":  # the second one ends the delay
            relay.send(name)
        self.assertEqual(relay.process.wait(PATIENCE), 0)
        # With a backend.
        text, changed = re.subn(r"backends = .*\n", f'backends = ["{self.backend.address}"]\n',
                                text.partition("[groups.web.check]")[0])
        self.assertEqual(changed, 1)
        relay = Container(self, text)
        self.assertEqual((status("liveness"), status("readiness")), (200, 200))
        with connect() as client:
            self.assertEqual(ask(client, 1000), 1000)
            relay.send("TERM")
            # It serves on until the cluster has noticed.
            eventually(lambda: status("readiness") == 503, "the stop")
            self.assertEqual(status("liveness"), 200)
            with connect() as new:
                self.assertEqual(ask(new, 1000), 1000)
            relay.send("TERM")
            self.assertEqual(ask(client, 1000), 1000)
        self.assertEqual(relay.process.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
