# SPDX-License-Identifier: MIT
"""
Shared by the benchmarks: builds the other runtimes' programs, and reports their absence.

A peer is built with its own compiler (go, cargo, ...). With SENNIT_BENCH_PEERS=none in the
environment these compilers count as missing: the gate runs each benchmark for a moment, and would
spend most of that time on building what it is compared with.
"""
import os
import shutil
import subprocess
import sys


def loudly(text):
    print(f"\n*** {text} ***\n", flush=True)


def our_program(build, program, target="benches"):
    """The path of a program of this repository, which must have been built."""
    path = os.path.abspath(os.path.join(build, program))
    if not os.path.exists(path):
        sys.exit(f"{os.path.basename(sys.argv[0])}: there is no {path}; make {target} builds it")
    return path


def compiler(tool):
    """The path of a peer's compiler, or None."""
    return None if os.environ.get("SENNIT_BENCH_PEERS") == "none" else shutil.which(tool)


def built(name, tool, command, folder=None):
    """Whether the peer could be built. Reports a missing tool or a failed build."""
    if not compiler(tool):
        loudly(f"NOT COMPARED WITH {name}: there is no {tool}")
        return False
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        loudly(f"NOT COMPARED WITH {name}: it does not build:\n{result.stderr[-2000:]}")
        return False
    return True
