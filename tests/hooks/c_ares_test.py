#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""c-ares in hooked tasks, each with a channel of its own that waits in select(), against dnsmasq."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

servers.program("c-ares")
os.environ["PATH"] += ":/usr/sbin"
dnsmasq = servers.tool("dnsmasq")
with servers.Server(lambda port: [
        dnsmasq, "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=",
        "--group=", "--pid-file=", "--listen-address=127.0.0.1", "--bind-interfaces",
        "--dns-forward-max=2000", f"--port={port}", "--local=/test/",
        *(f"--host-record=host{i}.test,192.0.2.{i}" for i in range(50))],
                    servers.accepts) as server:
    servers.run_with_few_threads("c-ares", str(server.port), servers.scaled(300))
