#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""OpenSSL with SSL_set_fd() in hooked tasks: they park inside SSL_read(). Its queue of errors
belongs to the thread. If other tasks leave errors there, only a pinned task, or one without hooks,
can distinguish the end of a connection from an error."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position


def mistaken(said):
    return int(re.search(r"(\d+) ends mistaken", said)[1])


said = servers.run_with_few_threads("openssl", "on", servers.scaled(1000))
if mistaken(said):
    servers.fail("an end was mistaken, though no task has left an error")
tasks = servers.scaled(200)
for safe in ("off+queue", "pin+queue"):
    if mistaken(servers.run("openssl", safe, tasks)):
        servers.fail(f"{safe}: an end was mistaken for another task's error")
# docs/hooks.md warns of this; how often it happens depends on the machine.
servers.run("openssl", "on+queue", tasks)
