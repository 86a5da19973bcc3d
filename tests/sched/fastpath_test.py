#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: musl
"""
Entering and leaving the runtime is as cheap as the design says, which the test checks in the
disassembly.

The inline functions of the public header (sn_enter_blocking, sn_exit_blocking, both in a loop) are
compiled by GCC and by Clang as in a program, with and without position independence. From a release
build of the library, the test reads sn_pin() and sn_unpin(), which do little but enter and leave.
None of these functions may have a locked instruction, an exchange with memory, a fence or a system
call. The only function that they may call is the slow path, and there must be a path that makes
every store and calls nothing. On i386 the thread's lease is found by a call (see blocking.h), which
is allowed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = """
#include <sennit/blocking.h>
void enter(void);
void leave(void);
void many(int n);
void enter(void) { sn_enter_blocking(); }
void leave(void) { sn_exit_blocking(); }
void many(int n)
{
	while (n-- > 0) {
		sn_enter_blocking_as("name");
		sn_exit_blocking();
	}
}
"""
# For each function, the least number of stores to memory on its fast path (not counting the stack).
STORES = {"enter": 1, "leave": 4, "many": 5}
LIBRARY_STORES = {"sn_pin": 4, "sn_unpin": 4}  # pinned already, and twice
LIBRARY_CALLS = {"sn_thread_pin", "sn_thread_unpin"}

SLOW_PATH = {"sn_private_lease_lost"}
if os.environ["SENNIT_ARCH"] == "i386":
    FINDS_LEASE = {"sn_private_current_slow", "__x86.get_pc_thunk.ax", "__x86.get_pc_thunk.bx",
                   "__x86.get_pc_thunk.cx", "__x86.get_pc_thunk.dx", "__x86.get_pc_thunk.si",
                   "__x86.get_pc_thunk.di", "__x86.get_pc_thunk.bp"}
else:
    FINDS_LEASE = set()

FORBIDDEN = re.compile(r"^(lock|mfence|syscall|sysenter|int|cmpxchg|xadd|xacquire|xrelease)")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
RELOCATION = re.compile(r"^\s+[0-9a-f]+: R_\w+\s+(\S+?)(?:[-+]0x[0-9a-f]+)?$")


def fail(text):
    print(f"FAILED: {text}", file=sys.stderr)
    sys.exit(1)


class Instruction:
    def __init__(self, address, text):
        self.address, self.text, self.relocation = address, text.split("#")[0].strip(), None
        self.name = self.text.split()[0]

    def target(self):
        """The target of a jump within the function; None if it leaves the function."""
        match = re.search(r"\s([0-9a-f]+) <", self.text)
        return int(match[1], 16) if match and not self.relocation else None

    def finds_itself(self):
        """A call to the next instruction: how Clang finds its own address on i386."""
        match = re.search(r"\s([0-9a-f]+) <", self.text)
        return bool(match) and not self.relocation and int(match[1], 16) == self.address + 5

    def calls(self):
        return (self.name == "call" and not self.finds_itself()) or (
            self.name == "jmp" and self.relocation)

    def callee(self):
        if self.relocation:
            return self.relocation
        match = re.search(r"<([^>+]+)>", self.text)
        return match[1] if match else self.text

    def stores(self):
        operands = self.text.partition(" ")[2]
        return (operands.endswith(")") and not re.search(r"%[er]sp\)$", operands)
                and not re.match(r"(cmp|test|lea|call|jmp|j|nop|push|mul|div)", self.name)
                and (not self.name.startswith("mov") or "," in operands))


def functions(path):
    output = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", path], capture_output=True,
                            text=True, check=True).stdout
    found, current = {}, None
    for line in output.splitlines():
        if match := FUNCTION.match(line):
            current = found.setdefault(match[1], [])
        elif match := RELOCATION.match(line):
            current[-1].relocation = match[1].removesuffix("@plt")
        elif (match := INSTRUCTION.match(line)) and match[2].strip():
            current.append(Instruction(int(match[1], 16), match[2]))
    return found


def most_stores_without_call(code):
    """The largest number of stores on a loop-free path without calls from the entry to a return."""
    at = {instruction.address: i for i, instruction in enumerate(code)}
    best = -1

    def walk(i, stores, seen):
        nonlocal best
        while i is not None and i < len(code):
            if i in seen:
                return
            seen = seen | {i}
            instruction = code[i]
            if instruction.calls() and instruction.callee() not in FINDS_LEASE:
                return
            stores += instruction.stores()
            if instruction.name.startswith("ret"):
                best = max(best, stores)
                return
            if instruction.name == "jmp":
                i = at.get(instruction.target())
                continue
            if instruction.name.startswith("j"):
                if (target := at.get(instruction.target())) is not None:
                    walk(target, stores, seen)
            i += 1

    walk(0, 0, frozenset())
    return best


def check(what, found, wanted, callees=frozenset()):
    for name, stores in wanted.items():
        if name not in found:
            fail(f"{what}: there is no {name}")
        for part in (name, f"{name}.cold"):
            for instruction in found.get(part, ()):
                if FORBIDDEN.match(instruction.name) or (
                        instruction.name.startswith("xchg") and "(" in instruction.text):
                    fail(f"{what}: {part} has: {instruction.text}")
                if instruction.calls():
                    callee = instruction.callee()
                    if (callee not in SLOW_PATH | FINDS_LEASE | callees
                            and not callee.startswith((".text", name))):
                        fail(f"{what}: {part} calls {callee}")
        most = most_stores_without_call(found[name])
        if most < stores:
            fail(f"{what}: {name} has no way through without a call that makes {stores} stores"
                 f" (the most on one is {most})")
    print(f"{what}: {', '.join(wanted)}: as it should be")


def main():
    if os.environ["SENNIT_ARCH"] not in ("x86_64", "i386"):
        print("reads x86 only")
        sys.exit(77)
    flags = os.environ["CFLAGS"].split() + ["-O2", "-Wall", "-Wextra", "-Werror"]
    include = os.path.join(os.environ["SENNIT_SOURCE_DIR"], "include")
    compilers = [c for c in ("gcc", "clang-14") if shutil.which(c)]
    if not compilers:
        fail("there is neither gcc nor clang-14")
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, "bracket.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        for compiler in compilers:
            for position in ("-fPIC", "-fno-pic"):
                binary = os.path.join(scratch, "bracket.o")
                subprocess.run([compiler, *flags, position, f"-I{include}", "-c", source, "-o",
                                binary], check=True)
                check(f"{compiler} {position}", functions(binary), STORES)
    build = os.environ["SENNIT_BUILD_DIR"]
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
        checked = re.search(r"^SENNIT_DEBUG:BOOL=(ON|TRUE|1)$", cache.read(), re.M)
    if os.environ["SENNIT_SANITIZE"] or checked:
        print("the library is built with checks: not looked at")
        return
    check("library", functions(os.path.join(build, "src", "libsennit.a")), LIBRARY_STORES,
          LIBRARY_CALLS)


if __name__ == "__main__":
    main()
