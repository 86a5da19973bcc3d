#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hiredis in hooked tasks: 500 connections, each of which waits in BLPOP."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

servers.program("hiredis")
redis = servers.tool("redis-server")
with servers.Server(lambda port: [redis, "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                                  "--appendonly", "no", "--tcp-backlog", "2000"],
                    servers.accepts) as server:
    servers.run_with_few_threads("hiredis", str(server.port), servers.scaled(500))
