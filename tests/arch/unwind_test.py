# SPDX-License-Identifier: MIT
#
# A debugger can unwind from every instruction of the context switch: through the frames of the
# context that is being left until the stack pointer changes, and then through those of the parked
# context that continues. The test steps through RoundingTest of arch/switch in gdb, because that
# test writes the floating-point control registers too. Under an emulator it uses the emulator's gdb
# stub.
import os
import subprocess
import sys
import tempfile

GDB_SCRIPT = r"""
import gdb
import os

for line in ("pagination off", "confirm off", "width 0", "debuginfod enabled off"):
    gdb.execute("set " + line)
gdb.execute("break sn_arch_switch")
if os.environ["STUB"]:
    gdb.execute("target remote " + os.environ["STUB"])
    gdb.execute("continue", to_string=True)
else:
    gdb.execute("run", to_string=True)

steps = bad = switches = 0
ends = set()
while gdb.selected_inferior().pid and switches < 4:
    switches += 1
    while gdb.newest_frame().name() == "sn_arch_switch":
        names = []
        frame = gdb.newest_frame()
        while frame is not None and len(names) < 60:
            names.append(frame.name() or "??")
            frame = frame.older()
        whole = names[-1] == "sn_arch_task_start" or "main" in names
        if not whole or "??" in names[:names.index("main") if "main" in names else None]:
            bad += 1
            print("BAD", gdb.execute("x/i $pc", to_string=True).strip(), names)
        ends.add("main" if "main" in names else names[-1])
        steps += 1
        gdb.execute("stepi", to_string=True)
    if switches < 4:
        gdb.execute("continue", to_string=True)
print("RESULT %d steps, %d bad, ends %s" % (steps, bad, " ".join(sorted(ends))))
gdb.execute("kill")
"""


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def main():
    if os.environ["SENNIT_SANITIZE"]:
        skip("sanitizers have frames of their own")
    launcher = os.environ["SENNIT_LAUNCHER"].split()
    gdb = "gdb-multiarch" if launcher else "gdb"
    program = os.path.join(os.environ["SENNIT_BUILD_DIR"], "tests/arch/arch-switch-test")
    command = [program, "--gtest_filter=RoundingTest.*"]
    with tempfile.TemporaryDirectory() as scratch:
        script = os.path.join(scratch, "script.py")
        with open(script, "w", encoding="ascii") as file:
            file.write(GDB_SCRIPT)
        stub = os.path.join(scratch, "stub") if launcher else ""
        emulator = None
        prepare = []
        if launcher:
            emulator = subprocess.Popen(
                [launcher[0], "-g", stub, *launcher[1:], *command], stdout=subprocess.DEVNULL)
            while not os.path.exists(stub) and emulator.poll() is None:
                pass
            prepare = ["-ex", "set sysroot " + launcher[-1]]
        try:
            done = subprocess.run(
                [gdb, "-nx", "-batch", *prepare, "-x", script, "--args", *command],
                env={**os.environ, "STUB": stub}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
                check=False)
        except FileNotFoundError:
            skip("no " + gdb)
        finally:
            if emulator:
                emulator.kill()
                emulator.wait()
    result = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not result:
        print(done.stdout)
        if "ptrace" in done.stdout:
            skip("gdb may not trace here")
        sys.exit(1)
    print("\n".join(line for line in done.stdout.splitlines() if line.startswith(("BAD", "RES"))))
    good = " 0 bad, ends main sn_arch_task_start" in result[0]
    sys.exit(0 if good and int(result[0].split()[1]) > 40 else 1)


main()
