# SPDX-License-Identifier: MIT
#
# gdb with tools/gdb/sennit.py shows a backtrace of every task, which ends at the task's entry: in a
# live process, in a core file that gdb has made, and in one that the kernel has made.
import os
import re
import resource
import subprocess
import sys
import tempfile

SOURCE = os.environ["SENNIT_SOURCE_DIR"]
PROGRAM = os.path.join(os.environ["SENNIT_BUILD_DIR"], "tests/debug/debugged")

# For each task of debugged.c, its state, and the functions that have to be in its backtrace,
# innermost first.
EXPECTED = {
    "main": ("(running|blocking)", ["first", "first_main"]),
    "receives": ("parked in a channel", ["sn_park", "sn_chan_recv", "debugged_receives"]),
    "locks": ("parked in a mutex", ["sn_park", "sn_mutex_lock", "debugged_locks"]),
    "sleeps": ("parked in a time", ["sn_park", "sn_sleep", "debugged_sleeps"]),
    "recurses": ("parked in a time",
                 ["sn_park", "sn_sleep", "debugged_sleeps"] + 40 * ["debugged_recurses"]),
    "blocks": ("(running|blocking)", ["debugged_blocks"]),
    "brackets": ("(running|blocking)", ["debugged_brackets"]),
    "unborn": ("(runnable|parked in a channel)", []),
}

# One processor, so that the last task does not begin, unless the debugger has stopped the first for
# long.
ENVIRONMENT = {**os.environ, "SENNIT_PROCS": "1", "LC_ALL": "C"}


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def gdb(*commands, arguments, **more):
    words = ["gdb", "-nx", "-batch"]
    # The checked build sends itself SIGSYS: src/wait/system_call.c.
    for command in ("set debuginfod enabled off", "set pagination off", "set confirm off",
                    "set width 0", "handle SIGSYS nostop noprint pass", "source " + os.path.join(SOURCE, "tools/gdb/sennit.py"),
                    *commands):
        words += ["-ex", command]
    try:
        return subprocess.run(
            words + arguments, env={**ENVIRONMENT, **more}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=250,
            check=False).stdout
    except FileNotFoundError:
        skip("no gdb")


def frames(text):
    """The names of the functions, whether there is an address before them or not."""
    return re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+) \(", text, re.M)


def mistakes(text):
    # In the order of the slabs.
    parts = re.split(r'^task (\d+) "(\w*)" ([a-z ]+)\n', text, flags=re.M)[1:]
    seen = {}
    for _, name, state, body in zip(parts[0::4], parts[1::4], parts[2::4], parts[3::4]):
        seen[name] = (state, body)
    for name, (state, wanted) in EXPECTED.items():
        if name not in seen:
            yield "no task " + name
            continue
        names = frames(seen[name][1])
        # Where stacks are scarce, the task has a stack from the spawn on, with two frames.
        if seen[name][1] == "the task has not started\n\n" and name == "unborn":
            continue
        if not re.fullmatch(state, seen[name][0]):
            yield "%s is %s" % (name, seen[name][0])
        if not names or names[-1] != "sn_arch_task_start":
            yield "%s ends at %s" % (name, names[-1:])
        if wanted and names[-2:-1] != ["sn_task_live"]:
            yield "%s begins at %s" % (name, names[-2:-1])
        # The frames in which the debugger has stopped do not belong to this task.
        if name != "main" and {"debugged_inlined", "debugged_all_here"} & set(names):
            yield "%s begins with frames of another" % name
        if "??" in names or "stopped" in seen[name][1]:
            yield "%s breaks off" % name
        # The calls that remain after inlining, in this order.
        at = 0
        for function in wanted:
            if function not in names[at:]:
                yield "%s: no %s after frame %d" % (name, function, at)
                break
            at = names.index(function, at) + 1
        numbers = [int(n) for n in re.findall(r"^#(\d+)", seen[name][1], re.M)]
        if numbers != list(range(len(numbers))):
            yield "%s: frames %s" % (name, numbers)
    if set(seen) - set(EXPECTED):
        yield "unexpected tasks: %s" % sorted(set(seen) - set(EXPECTED))


def check(what, text):
    found = list(mistakes(text))
    for mistake in found:
        print("%s: %s" % (what, mistake))
    if found:
        print(text)
        sys.exit(1)
    print("%s: %d backtraces" % (what, len(EXPECTED)))


def kernels_core(scratch):
    """The core's path, or None if cores are not written to the current folder."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        if re.match(r"[|/]|\s*$", file.read()):
            return None
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        return None

    def allow():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)

    subprocess.run([PROGRAM], env=ENVIRONMENT, cwd=scratch, preexec_fn=allow, timeout=100,
                   stderr=subprocess.DEVNULL, check=False)
    cores = os.listdir(scratch)
    if len(cores) != 1:
        print("no core of the kernel's, though its pattern promises one:", cores)
        sys.exit(1)
    return os.path.join(scratch, cores[0])


def main():
    if os.environ["SENNIT_SANITIZE"]:
        skip("sanitizers have frames of their own, and reserve more memory than a core should have")
    text = gdb("sennit tasks", "sennit bt all", arguments=[PROGRAM])
    if text.count("sennit: there is no process and no core file") != 2 or "Python" in text:
        print("without a process gdb prints:", text)
        sys.exit(1)
    with tempfile.TemporaryDirectory() as scratch:
        # These guards are mappings of their own. Where gdb cannot read a page, it leaves out a
        # megabyte around it from its core files. The kernel does not.
        core = os.path.join(scratch, "of-gdb")
        text = gdb("break debugged_inlined", "run", "sennit bt all",
                   "generate-core-file " + core, "kill", arguments=["--args", PROGRAM],
                   SENNIT_STACK_GUARD="mprotect")
        if "ptrace" in text:
            skip("gdb may not trace here")
        check("live", text)
        one = gdb("sennit bt 99999", arguments=[PROGRAM, core])
        if "no such task" not in one:
            print("an unknown task:", one)
            sys.exit(1)
        check("in gdb's core", gdb("sennit bt all", arguments=[PROGRAM, core]))
        os.unlink(core)
        core = kernels_core(scratch)
        if core:
            check("in the kernel's core", gdb("sennit bt all", arguments=[PROGRAM, core]))


main()
