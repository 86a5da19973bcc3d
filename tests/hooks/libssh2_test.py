#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libssh2's blocking interface in hooked tasks: 40 sessions, each with a command and a file."""
import os
import pwd
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

servers.program("libssh2")
daemon = servers.tool("sshd")
keygen = servers.tool("ssh-keygen")
user = pwd.getpwuid(os.getuid()).pw_name
if os.getuid() == 0:
    with open("/etc/shadow", encoding="ascii") as accounts:
        if any(line.startswith("root:!") for line in accounts):
            servers.skip("root's account is locked, so sshd does not let it in")
    os.makedirs("/run/sshd", 0o755, exist_ok=True)  # as the system's start script does
with servers.folder() as scratch:
    for key in ("key", "host"):
        subprocess.run([keygen, "-q", "-m", "PEM", "-t", "ecdsa", "-N", "", "-f",
                        f"{scratch}/{key}"], check=True, timeout=servers.PATIENCE)
    with open(f"{scratch}/file", "wb") as file:
        file.write(os.urandom(200000))
    with servers.Server(lambda port: [
            daemon, "-D", "-f", "/dev/null", "-h", f"{scratch}/host", "-p", str(port),
            "-o", "ListenAddress=127.0.0.1", "-o", "PidFile=none", "-o", "StrictModes=no",
            "-o", f"AuthorizedKeysFile={scratch}/key.pub", "-o", "UsePAM=no",
            "-o", "PermitRootLogin=yes", "-o", "MaxStartups=1000",
            "-o", "Subsystem=sftp internal-sftp"], servers.accepts) as server:
        where = f"{server.port} {user} {scratch}"
        servers.run_with_few_threads("libssh2", where, servers.scaled(40))
