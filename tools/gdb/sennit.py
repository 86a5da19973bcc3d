# SPDX-License-Identifier: MIT
"""
Teaches gdb about sennit's tasks, in a live process and in a core file.

    (gdb) source tools/gdb/sennit.py
    (gdb) sennit tasks          all tasks: id, name, state, what they wait for
    (gdb) sennit bt 17          the backtrace of the task with that id
    (gdb) sennit bt all         of every task

A running task is in its thread's backtrace. A parked task is in none, because its registers are
saved on its stack. For the duration of a backtrace, an unwinder in this file therefore makes the
parked task the caller of the selected thread's innermost frame. Nothing is written to the process,
which a core file would not allow. The program's own call-frame information does the rest, up to the
task's entry function.

The library must have its debugging information.
"""
import re

import gdb
import gdb.unwinder

STATES = ("free", "new", "runnable", "running", "parked", "blocking", "returning", "ended")
PARKED, RUNNABLE = 4, 2

# Where sn_arch_switch() leaves the registers, in words from the saved stack pointer up (see
# arch/registers.h), how many words that is, and the names of the stack pointer and the program
# counter.
LAYOUTS = {
    "i386:x86-64": (
        {"r15": 1, "r14": 2, "r13": 3, "r12": 4, "rbx": 5, "rbp": 6, "rip": 7}, 8, "rsp", "rip"),
    "i386": ({"edi": 2, "esi": 3, "ebx": 4, "ebp": 5, "eip": 6}, 7, "esp", "eip"),
    "aarch64": (
        {"x29": 0, "pc": 1, "x30": 1, **{"x%d" % (19 + i): 2 + i for i in range(10)}},
        22, "sp", "pc"),
    "riscv:rv64": (
        {"pc": 25, "ra": 25, "fp": 24, "s1": 23, **{"s%d" % i: 24 - i for i in range(2, 12)}},
        26, "sp", "pc"),
    # Sixteen words of floating-point registers come first.
    "arm": ({**{"r%d" % (4 + i): 17 + i for i in range(8)}, "lr": 25, "pc": 25}, 26, "sp", "pc"),
}

# The portable switch notes a place in itself, from which call-frame information leads on. There the
# stack pointer is among the words.
PORTABLE = {
    "i386:x86-64": ({"rip": 0, "rsp": 1, "rbp": 2}, None, "rsp", "rip"),
    "s390:64-bit": ({"pc": 0, "r15": 1}, None, "r15", "pc"),
    "powerpc:common64": ({"pc": 0, "r1": 1}, None, "r1", "pc"),
}


def layout(architecture):
    name = architecture.name()
    # Elsewhere this is an inline function.
    if gdb.lookup_global_symbol("sn_arch_prepare") is not None and name in PORTABLE:
        return PORTABLE[name]
    if name.startswith("arm"):
        name = "arm"
    if name not in LAYOUTS:
        raise gdb.GdbError("sennit: unsupported architecture: " + name)
    return LAYOUTS[name]


def the_global(name):
    symbol = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
    if symbol is None:
        raise gdb.GdbError(
            "sennit: no symbol %s; is the library's debugging information loaded?" % name)
    return symbol.value()


def number(value):
    """The value of an integer, which may be atomic."""
    return int(value.cast(value.type.unqualified()))


def tasks():
    """Every task's block, found by walking the slabs, as the library does itself."""
    if not gdb.selected_inferior().threads():
        raise gdb.GdbError("sennit: there is no process and no core file")
    word = gdb.lookup_type("uintptr_t")
    slab = the_global("all_block_slabs").cast(gdb.lookup_type("struct sn_block_slab").pointer())
    while int(slab) != 0:
        for i in range(slab["blocks"].type.range()[1] + 1):
            task = slab["blocks"][i]
            state = number(task["word"]["status"])
            if STATES[state] not in ("free", "new") and number(task["id"]) != 0:
                low, high = (int(task["stack"][end].cast(word)) for end in ("low", "high"))
                yield task, state, low, high
        slab = slab["next"]


def text(chars):
    out = ""
    for i in range(chars.type.range()[1] + 1):
        c = number(chars[i])
        if c == 0:
            break
        out += chr(c & 255)
    return out


def describe(task, state):
    line = '%d "%s" %s' % (number(task["id"]), text(task["name"]), STATES[state])
    if state == PARKED:
        reason = task["waits_for"].cast(gdb.lookup_type("char").pointer())
        if int(reason) != 0:
            line += " in " + reason.string()
    return line


class Innermost(gdb.unwinder.Unwinder):
    """While a task is set, makes it the caller of the innermost frame."""

    def __init__(self):
        super().__init__("sennit-task")
        self.task = None
        self.at = None

    def __call__(self, pending):
        if self.task is None:
            return None
        words, size, sp, pc = layout(pending.architecture())
        here = (int(pending.read_register(sp)), int(pending.read_register(pc)))
        if here != self.at:
            return None
        saved = int(self.task["context"]["sp"])
        word = gdb.lookup_type("unsigned long")
        # The frame pretends to be on the task's stack, because gdb stops at frames that are out of
        # order.
        info = pending.create_unwind_info(
            FrameId(gdb.Value(saved).cast(word), gdb.Value(here[1]).cast(word)))
        for register, offset in words.items():
            at = gdb.Value(saved + offset * word.sizeof).cast(word.pointer())
            info.add_saved_register(register, at.dereference())
        if size is not None:
            info.add_saved_register(sp, gdb.Value(saved + size * word.sizeof).cast(word))
        return info


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


unwinder = Innermost()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)


def frames_of(task):
    """The backtrace of a parked task, taken as the older frames of the selected thread."""
    frame = gdb.newest_frame()
    _, _, sp, pc = layout(frame.architecture())
    unwinder.at = (int(frame.read_register(sp)), int(frame.read_register(pc)))
    unwinder.task = task
    gdb.invalidate_cached_frames()
    try:
        # Leaves out the first frame, which is the selected thread's, and the functions that are
        # inlined there, because gdb shows each of them as a separate frame.
        first = 1
        frame = gdb.newest_frame()
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
            first += 1
        lines = gdb.execute("backtrace", to_string=True)
        lines = re.split(r"^#(?=%d )" % first, lines, maxsplit=1, flags=re.M)
        return re.sub(r"^#(\d+) {0,2}", lambda m: "#%-3d" % (int(m[1]) - first), "#" + lines[-1],
                      flags=re.M)
    finally:
        unwinder.task = None
        gdb.invalidate_cached_frames()


def thread_of(low, high):
    """Selects the thread whose stack pointer is in that range. Returns False if there is none."""
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        frame = gdb.newest_frame()
        sp = int(frame.read_register(layout(frame.architecture())[2]))
        if low <= sp < high:
            return True
    return False


def backtrace(task, state, low, high):
    if state == STATES.index("ended"):
        return "the task has ended\n"
    if int(task["context"]["sp"]) == 0:
        return "the task has not started\n"
    if state in (PARKED, RUNNABLE):
        return frames_of(task)
    before = gdb.selected_thread()
    try:
        if thread_of(low, high):
            return gdb.execute("backtrace", to_string=True)
        return "no thread runs on its stack\n"
    finally:
        before.switch()


class Sennit(gdb.Command):
    """Inspects sennit's tasks: sennit tasks, sennit bt ID, sennit bt all."""

    def __init__(self):
        super().__init__("sennit", gdb.COMMAND_STACK, prefix=True)


class Tasks(gdb.Command):
    """Lists all tasks: id, name, state, and what they wait for."""

    def __init__(self):
        super().__init__("sennit tasks", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for task, state, _, _ in tasks():
            print("task " + describe(task, state))


class Backtrace(gdb.Command):
    """Prints the backtrace of the task with the given id, or of all tasks."""

    def __init__(self):
        super().__init__("sennit bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = None if argument == "all" else int(gdb.parse_and_eval(argument or "0"))
        found = False
        for task, state, low, high in tasks():
            if wanted in (None, number(task["id"])):
                found = True
                print("task " + describe(task, state))
                print(backtrace(task, state, low, high))
        if not found:
            raise gdb.GdbError("sennit: no such task; \"sennit tasks\" lists all")


Sennit()
Tasks()
Backtrace()
