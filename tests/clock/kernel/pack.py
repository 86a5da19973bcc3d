#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pack.py OUTPUT NAME=FILE...: makes an initramfs (a cpio archive of the kind "newc") with the
files, which are executable, the folders /proc and /sys, and the console, without which init prints
nothing."""
import sys


def entry(out, name, mode, data=b"", device=(0, 0)):
    encoded = name.encode() + b"\0"
    entry.inode += 1
    fields = [entry.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0]
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    for part in (header + encoded, data):
        out.write(part + b"\0" * (-len(part) % 4))


entry.inode = 0

if len(sys.argv) < 3:
    sys.exit(__doc__)
with open(sys.argv[1], "wb") as out:
    for folder in ("dev", "proc", "sys"):
        entry(out, folder, 0o040755)
    entry(out, "dev/console", 0o020600, device=(5, 1))
    for argument in sys.argv[2:]:
        name, _, path = argument.partition("=")
        with open(path, "rb") as file:
            entry(out, name, 0o100755, file.read())
    entry(out, "TRAILER!!!", 0)
