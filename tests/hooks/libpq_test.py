#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libpq's blocking interface in hooked tasks: 1,000 of them over 100 connections."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

servers.program("libpq")
with servers.postgresql(120) as port:
    where = f"host=127.0.0.1 port={port} user=postgres"
    servers.run_with_few_threads("libpq", where, servers.scaled(1000))
    # With a name that has to be looked up.
    where = f"host=localhost port={port} user=postgres"
    servers.run_with_few_threads("libpq", where, servers.scaled(200))
