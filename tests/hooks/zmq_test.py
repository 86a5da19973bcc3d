#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libzmq in hooked tasks: 500 of them wait for replies. Its receive tries, reads errno, polls,
tries again and reads errno, whose address the compiler keeps. This works because a task continues
on its thread. With SENNIT_HOOKS_STAY=0 it does not, which shows that the test would notice."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

TASKS = servers.scaled(500)

servers.program("zmq")
# Far longer than the machine ever keeps a thread waiting.
servers.run_with_few_threads("zmq", "inproc://server", TASKS, SENNIT_HOOKS_STAY="600000")
servers.fails_if_tasks_move("zmq", "inproc://server", TASKS, "Resource temporarily unavailable")
