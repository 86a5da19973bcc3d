#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Apache Portable Runtime in hooked tasks: 500 of them wait for datagrams, several at each
socket. It tries, reads errno, polls, tries again and reads errno, whose address the compiler
keeps. With SENNIT_HOOKS_STAY=0 it finds another thread's, which shows that the test would
notice."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

TASKS = servers.scaled(500)

servers.program("apr")
# Far longer than the machine ever keeps a thread waiting.
servers.run_with_few_threads("apr", "127.0.0.1", TASKS, SENNIT_HOOKS_STAY="600000")
servers.fails_if_tasks_move("apr", "127.0.0.1", TASKS, "nothing received")
