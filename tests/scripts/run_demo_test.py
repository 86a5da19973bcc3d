#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
scripts/run-demo, with programs that only listen: it starts both, whatever form an address has, says
what to type, and ends them on SIGTERM. It says why if an address is taken or a program missing.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_ports  # noqa: E402

SOURCE = pathlib.Path(os.environ["SENNIT_SOURCE_DIR"])
LISTENS = """#!/usr/bin/env python3
import signal, socket, sys
host, _, port = sys.argv[1].rpartition(":")
host = host.strip("[]") or "0.0.0.0"
listener = socket.create_server((host, int(port)),
                                family=socket.AF_INET6 if ":" in host else socket.AF_INET)
signal.sigwait({signal.SIGTERM})
"""


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(SOURCE / "scripts/run-demo", self.root / "scripts")
        release = self.root / "build/release"
        for program in ("tools/relay/sennit-relay", "examples/example-demo-upstream"):
            path = release / program
            path.parent.mkdir(parents=True)
            path.write_text(LISTENS)
            path.chmod(0o755)

    def start(self, relay, upstream):
        return subprocess.Popen([self.root / "scripts/run-demo"], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE,
                                env={**os.environ, "RELAY": relay, "UPSTREAM": upstream})

    def test_each_form_of_an_address(self):
        for form, typed in (("127.0.0.1:{}", "127.0.0.1:{}"), ("[::1]:{}", "[::1]:{}"),
                            (":{}", "127.0.0.1:{}"), ("localhost:{}", "localhost:{}")):
            if "::1" in form and not has_ipv6():
                continue
            relay, upstream = free_ports(2, "")
            with self.subTest(form), self.start(form.format(relay), f"127.0.0.1:{upstream}") as demo:
                said = ""
                for line in demo.stdout:
                    said += line
                    if line.startswith("Ctrl-C"):
                        break
                demo.send_signal(signal.SIGTERM)
                rest, errors = demo.communicate(timeout=60)
                self.assertEqual(errors, "", said + rest)
                self.assertEqual(re.findall(r"curl (\S+)", said), [f"http://{typed.format(relay)}/"])
                for port in (relay, upstream):
                    with self.assertRaises(ConnectionRefusedError):
                        socket.create_connection(("127.0.0.1", port), 60)

    def test_an_address_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with self.start(f"127.0.0.1:{port}", "127.0.0.1:1") as demo:
                errors = demo.communicate(timeout=60)[1]
        self.assertEqual(demo.returncode, 1)
        self.assertIn(f"127.0.0.1:{port} is taken by another program", errors)

    def test_a_program_that_is_not_built(self):
        (self.root / "build/release/examples/example-demo-upstream").unlink()
        with self.start("127.0.0.1:1", "127.0.0.1:2") as demo:
            errors = demo.communicate(timeout=60)[1]
        self.assertEqual(demo.returncode, 1)
        self.assertIn("example-demo-upstream is not built", errors)


if __name__ == "__main__":
    unittest.main()
