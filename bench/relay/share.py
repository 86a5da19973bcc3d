#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
share.py NUMBER PORT COMMAND..: runs a command NUMBER times, each with the same listening socket,
127.0.0.1:PORT, as systemd would hand it over: descriptor 3, LISTEN_FDS and LISTEN_PID.

Ends when the first of them ends, with its status.
"""
import argparse
import os
import socket
import sys


def start(command):
    pid = os.fork()
    if pid == 0:
        os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
        os.execv(command[0], command)
    return pid


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("port", type=int)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("there is no command")
    listener = socket.create_server(("127.0.0.1", options.port), backlog=4096)
    if listener.fileno() != 3:
        os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)
    for _ in range(options.number):
        start(options.command)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]) & 127)


if __name__ == "__main__":
    main()
