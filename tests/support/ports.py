# SPDX-License-Identifier: MIT
"""
Ports for servers that cannot choose one themselves. They are below the range from which the system
chooses, unless that begins at 20000 or before, so that no connection or listener of another test
gets one before the server listens. A test that asks at the same moment may still be given the same one, which is unlikely.
"""
import contextlib
import errno
import random
import socket


def free_ports(number, host="127.0.0.1"):
    """So many in a row."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        least = int(file.read().split()[0])
    for _ in range(100):
        first = random.randrange(10000, (least if least > 20000 else 65536) - number)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + number):
                    stack.enter_context(socket.socket()).bind((host, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
        return range(first, first + number)
    raise RuntimeError("100 ports in a row are in use")


def free_port(host="127.0.0.1"):
    return free_ports(1, host)[0]
