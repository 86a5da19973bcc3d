# SPDX-License-Identifier: MIT
"""
The examples tls-server and tls-client as processes. Importing this skips the test where they, or
the openssl command, are missing.
"""
import os
import shutil
import subprocess
import sys
import unittest

EXAMPLES = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples")
SERVER = os.path.join(EXAMPLES, "example-tls-server")
CLIENT = os.path.join(EXAMPLES, "example-tls-client")
LAUNCHER = os.environ.get("SENNIT_LAUNCHER", "").split()
PATIENCE = 120

if not os.path.exists(SERVER) or not os.path.exists(CLIENT):
    print("skipped: libsennit-tls or the examples were not built")
    sys.exit(77)
if not shutil.which("openssl"):
    print("skipped: there is no openssl command")
    sys.exit(77)


class ExampleCase(unittest.TestCase):
    def start(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)

        def stop():
            process.kill()
            process.wait()
            process.stdout.close()

        self.addCleanup(stop)
        return process

    def serve_until_ended(self, *arguments):
        """Starts tls-server with a certificate, a key and what else it takes; returns its process
        and its port."""
        server = self.start(*LAUNCHER, SERVER, "127.0.0.1:0", *arguments,
                            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        line = server.stdout.readline()
        self.assertTrue(line.startswith("listening on "), line)
        return server, int(line.rsplit(":", 1)[1])
