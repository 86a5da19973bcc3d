#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The programs of `make bench-tls` work: each serves each load for a moment. The test asserts no
figures.
"""
import os
import re
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["SENNIT_SOURCE_DIR"], os.environ["SENNIT_BUILD_DIR"]
SERVERS = {
    "file": ["sennit", "Go", "nginx", "nginx with sendfile"],
    "stream": ["sennit", "Go"],
    "sink": ["sennit", "Go"],
    "new": ["sennit", "Go", "nginx", "bare OpenSSL", "OpenSSL alone"],
    "idle": ["sennit", "Go", "nginx", "HAProxy"],
}
ROWS = {
    "new": ["ECDSA P-256", "RSA-2048", "resumed"],
    "idle": ["memory"],
}
SIZES = ["1 KiB", "4 KiB", "16 KiB", "64 KiB", "1024 KiB"]


def tls(build, *arguments):
    return subprocess.run([sys.executable, f"{SOURCE}/bench/tls/tls.py", build, *arguments],
                          capture_output=True, text=True, timeout=280, check=False)


class Bench(unittest.TestCase):
    def test_measures_each_server_under_each_load(self):
        done = tls(BUILD, "--quick")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        missing = [name.lower() for name in re.findall(r"NOT COMPARED WITH (\w+)", done.stdout)]
        for what, names in SERVERS.items():
            table = re.search(rf"(?ms)^{what}: .*?(?=^$|\Z)", done.stdout)
            self.assertTrue(table, done.stdout)
            for row in ROWS.get(what, SIZES):
                for name in names:
                    if name.split()[0].lower() not in missing:
                        self.assertRegex(table.group(0),
                                         rf"(?m)^{row} +{name} +[1-9]\d* \(\d+ to \d+\)")

    def test_an_unknown_load_is_an_error(self):
        done = tls(BUILD, "--what=nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there are file, ", done.stderr)

    def test_fails_without_the_programs(self):
        done = tls("/nowhere")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("make benches builds it", done.stderr)


if __name__ == "__main__":
    unittest.main()
