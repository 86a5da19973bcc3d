#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""MariaDB's client in hooked tasks: 100 connections with queries that take a while."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

servers.program("mariadb")
daemon = servers.tool("mariadbd")
install = servers.tool("mariadb-install-db")
user = servers.as_user("mysql")
with servers.folder() as scratch:
    data = scratch + "/data"
    os.mkdir(data, 0o700)
    if user:
        shutil.chown(scratch, "mysql")
        shutil.chown(data, "mysql")
    subprocess.run([install, "--no-defaults", f"--datadir={data}", "--skip-test-db",
                    "--auth-root-authentication-method=normal"], cwd="/", check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=servers.PATIENCE, **user)
    with servers.Server(lambda port: [
            daemon, "--no-defaults", f"--datadir={data}", f"--port={port}",
            "--bind-address=127.0.0.1", f"--socket={scratch}/socket", "--max-connections=200",
            f"--pid-file={scratch}/pid"],
            servers.accepts, user) as server:
        servers.run_with_few_threads("mariadb", str(server.port), servers.scaled(100))
