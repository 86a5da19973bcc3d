#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libpq's blocking interface in hooked tasks: 1,000 of them over 100 connections."""
import glob
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

servers.program("libpq")
programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
if not programs:
    servers.skip("there is no PostgreSQL")
programs = programs[-1]
user = servers.as_user("postgres")
with servers.folder() as scratch:
    data = scratch + "/data"
    os.mkdir(data, 0o700)
    if user:
        shutil.chown(data, "postgres")
    subprocess.run([programs + "/initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N",
                    "--locale=C"], cwd="/", check=True, stdout=subprocess.DEVNULL,
                   timeout=servers.PATIENCE, **user)

    def ready(port):
        return subprocess.run([programs + "/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)],
                              check=False, timeout=servers.PATIENCE).returncode == 0

    with servers.Server(lambda port: [
            programs + "/postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-c",
            "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=120"],
            ready, user) as server:
        where = f"host=127.0.0.1 port={server.port} user=postgres"
        servers.run_with_few_threads("libpq", where, servers.scaled(1000))
        # By a name, which is looked up.
        where = f"host=localhost port={server.port} user=postgres"
        servers.run_with_few_threads("libpq", where, servers.scaled(200))
