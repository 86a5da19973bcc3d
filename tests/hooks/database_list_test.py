#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libsennit-hooks.so replaces each function of the C library that may ask the name service.

The test disassembles the C library, and follows calls, jumps and addresses of functions back from
those that ask a module, such as __nss_lookup_function(), to the functions to which a program can be
linked. Each of them has to be replaced, or to be listed here. One in a new version of glibc is
found in this way, whatever its name. The list is the same for all machines, so the test reads
x86_64's library only."""
import bisect
import collections
import os
import re
import subprocess
import sys

# Without a hook: src/hooks/database.h says why.
NOT_REPLACED = {"glob", "glob64", "getaddrinfo_a"}
ASKS_A_MODULE = re.compile(r"__nss_(lookup|lookup_function|next|next2|database_get)")
HOOKS = os.path.join(os.environ["SENNIT_BUILD_DIR"], "src/hooks/libsennit-hooks.so")

SYMBOL = re.compile(r"\s*\d+: ([0-9a-f]+)\s+\S+\s+(?:FUNC|IFUNC)\s+\S+\s+\S+\s+\d+ ([^@\s]+)(\S*)")
FRAME = re.compile(r" FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)")
BRANCH = re.compile(r"\s*([0-9a-f]+):\s(?:\w+ )*?(?:call|j\w+) +([0-9a-f]+)\b")
ADDRESS = re.compile(r"\s*([0-9a-f]+):\slea .*# ([0-9a-f]+)\b")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(path):
    """The addresses, names and versions of the functions that a library exports."""
    for line in output("readelf", "--dyn-syms", "--wide", path).splitlines():
        if match := SYMBOL.match(line):
            yield int(match[1], 16), match[2], match[3]


class Code:
    """Which functions of a library refer to which."""

    def __init__(self, path):
        frames = output("objdump", "--dwarf=frames", path)
        self.ends = {int(begin, 16): int(end, 16) for begin, end in FRAME.findall(frames)}
        self.begins = sorted(self.ends)
        self.referring = collections.defaultdict(set)
        for line in output("objdump", "-d", "--no-show-raw-insn", path).splitlines():
            if match := BRANCH.match(line):
                self.note(int(match[1], 16), int(match[2], 16))
            elif match := ADDRESS.match(line):
                # Other addresses are of data, or within a function.
                if int(match[2], 16) in self.ends:
                    self.note(int(match[1], 16), int(match[2], 16))

    def function(self, address):
        i = bisect.bisect_right(self.begins, address) - 1
        return self.begins[i] if i >= 0 and address < self.ends[self.begins[i]] else None

    def note(self, source, target):
        self.referring[self.function(target)].add(self.function(source))

    def all_referring(self, functions):
        found, todo = set(functions), list(functions)
        while todo:
            new = self.referring[todo.pop()] - found - {None}
            found |= new
            todo += new
        return found


def linkable(version):
    """Whether new programs can be linked to it, and not only the C library's own modules."""
    return version.startswith("@@") and version != "@@GLIBC_PRIVATE"


def main():
    if os.environ["SENNIT_ARCH"] != "x86_64":
        print("skipped: the list is the same as for x86_64")
        sys.exit(77)
    library = output(os.environ["CC"], "-print-file-name=libc.so.6").strip()
    exported = list(symbols(library))
    asking = Code(library).all_referring(
        {address for address, name, _ in exported if ASKS_A_MODULE.fullmatch(name)})
    names = {name for address, name, version in exported
             if address in asking and linkable(version)}
    print(f"{len(names)} functions of {library} may ask the name service")
    # Functions that call others in different ways, so that the test does not pass because it has
    # read nothing.
    for name in ("getpwnam_r", "getpwent", "innetgr", "gethostid", *NOT_REPLACED):
        if name not in names:
            sys.exit(f"FAILED: {name} was not found: the C library has changed, or the test is "
                     "wrong")
    missing = names - NOT_REPLACED - {name for _, name, _ in symbols(HOOKS)}
    if missing:
        sys.exit("FAILED: these need a hook, or a reason in src/hooks/database.h why not: "
                 + " ".join(sorted(missing)))


main()
