#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
syscall.py BUILD_DIR [--rounds N]: the cost of a blocking bracket, beside Go's.

Runs bench-blocking-syscall and Go's own BenchmarkSyscall and BenchmarkSyscallWork (the tests of its
runtime package, built from the installed Go's source) in turn, for 1, 2 and 4 processors, and
prints for each the median, the fastest and the slowest run, and the ratio of the medians. It does
so twice: for elapsed time, as Go's benchmarks count, and for CPU time, which other programs on a
busy machine disturb less. Go's CPU time is that of its process, less that of a run of one
iteration.

The raw results stay in BUILD_DIR/bench-blocking/{sennit,go}.txt, and benchstat compares them if it
is available. Exits with 1 if something fails. Without Go it reports that loudly and measures sennit
alone.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from common import compiler, loudly, our_program  # noqa: E402

BENCHSTAT = "golang.org/x/perf/cmd/benchstat@latest"
BENCHMARKS = ("Syscall", "SyscallWork")
PROCESSORS = (1, 2, 4)
ITERATIONS = {"Syscall": 10_000_000, "SyscallWork": 2_500_000}  # Go's: 0.4 s on a quiet machine
SECONDS = 0.4  # ours

LINE = re.compile(r"^Benchmark\w+(?:-\d+)?\s+\d+\s+([\d.e+]+) ns/op(?:\s+([\d.e+]+) cpu-ns/op)?", re.M)


def run(command, **kwargs):
    """The output and the CPU seconds of a process."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **kwargs)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"syscall.py: {' '.join(command)} exited with {process.returncode}")
    return output, usage.ru_utime + usage.ru_stime


class Go:
    def __init__(self, directory):
        root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True)
        self.source = os.path.join(root.stdout.strip(), "src", "runtime")
        self.program = os.path.join(directory, "runtime.test")
        subprocess.run(["go", "test", "-c", "-o", self.program, "runtime"], check=True)

    def once(self, benchmark, processors, iterations):
        return run([self.program, "-test.run", "^$", "-test.bench", f"^Benchmark{benchmark}$",
                    "-test.cpu", str(processors), "-test.benchtime", f"{iterations}x"],
                   cwd=self.source)

    def measure(self, benchmark, processors):
        n = ITERATIONS[benchmark]
        _, idle = self.once(benchmark, processors, 1)
        output, cpu = self.once(benchmark, processors, n)
        match = LINE.search(output)
        if not match:
            sys.exit(f"syscall.py: no result in what Go printed:\n{output}")
        return match[0], float(match[1]), (cpu - idle) * 1e9 / n


def ours(program, benchmark, processors):
    output, _ = run([program, benchmark, str(SECONDS), str(processors)])
    match = LINE.search(output)
    return match[0], float(match[1]), float(match[2])


def spread(values):
    return f"{statistics.median(values):8.2f} ({min(values):.2f} to {max(values):.2f})"


def table(title, column, results):
    print(f"\n{title}, ns per operation: median (fastest to slowest)")
    print(f"{'benchmark':<16} {'sennit':<28} {'go':<28} {'go / sennit':>11}")
    for benchmark in BENCHMARKS:
        for processors in PROCESSORS:
            a = [r[column] for r in results["sennit", benchmark, processors]]
            b = [r[column] for r in results.get(("go", benchmark, processors), ())]
            ratio = f"{statistics.median(b) / statistics.median(a):10.1f}x" if b else "not run"
            print(f"{benchmark + '-' + str(processors):<16} {spread(a):<28} "
                  f"{spread(b) if b else 'not run':<28} {ratio:>11}")


def benchstat(directory, files):
    tool = shutil.which("benchstat")
    command = [tool] if tool else ["go", "run", BENCHSTAT]
    result = subprocess.run(command + files, cwd=directory, capture_output=True, text=True)
    if result.returncode != 0:
        loudly("benchstat could not be had, so the medians above are all there is: "
               + (result.stderr.strip().splitlines() or ["no reason given"])[-1])
    else:
        print("\nbenchstat:\n" + result.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", help="a build directory, such as build/release")
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    program = our_program(arguments.build, "bench/blocking/bench-blocking-syscall")
    kept = os.path.abspath(f"{arguments.build}/bench-blocking")
    os.makedirs(kept, exist_ok=True)
    results, lines = {}, {"sennit": [], "go": []}

    with tempfile.TemporaryDirectory() as scratch:
        go = None
        if compiler("go"):
            go = Go(scratch)
            version = subprocess.run(["go", "version"], capture_output=True, text=True).stdout
            print(f"{version.strip()}, {arguments.rounds} rounds, in turn", flush=True)
        else:
            loudly("NOT COMPARED WITH GO: there is no go in the PATH")
        for _ in range(arguments.rounds):
            for benchmark in BENCHMARKS:
                for processors in PROCESSORS:
                    each = [("sennit", ours(program, benchmark, processors))]
                    if go:
                        each.append(("go", go.measure(benchmark, processors)))
                    for side, (line, wall, cpu) in each:
                        results.setdefault((side, benchmark, processors), []).append((wall, cpu))
                        lines[side].append(line)

    table("time that passed", 0, results)
    table("CPU time", 1, results)
    files = []
    for side, text in lines.items():
        if text:
            files.append(f"{side}.txt")
            with open(f"{kept}/{side}.txt", "w", encoding="utf-8") as file:
                file.write("goos: linux\npkg: runtime\n" + "\n".join(text) + "\n")
    if go:
        benchstat(kept, [f"go={kept}/go.txt", f"sennit={kept}/sennit.txt"])


if __name__ == "__main__":
    main()
