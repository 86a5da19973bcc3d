#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SQLite in hooked tasks, of which it does not know: 100 of them write to one database."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

servers.program("sqlite")
tasks = servers.scaled(100)
with servers.folder() as scratch:
    servers.run("sqlite", scratch + "/database", tasks)
