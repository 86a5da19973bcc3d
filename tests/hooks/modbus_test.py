#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libmodbus in hooked tasks: 500 of them ask a server, and ask again when no answer has come. In
between, libmodbus keeps the address of errno while it sleeps. With SENNIT_HOOKS_STAY=0 the task
does not find ETIMEDOUT in errno, which shows that the test would notice."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

TASKS = servers.scaled(500)

program = servers.program("modbus")
with servers.Server(lambda port: [*servers.LAUNCHER, program, "serve", str(port)],
                    servers.accepts) as server:
    where = str(server.port)
    servers.run_with_few_threads("modbus", where, TASKS, SENNIT_HOOKS_STAY="600000")
    servers.fails_if_tasks_move("modbus", where, TASKS, "not ETIMEDOUT")
