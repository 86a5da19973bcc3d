#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
wait.py BUILD_DIR [--runs N] [--seconds S] [--levels none,slight,full,copy] [--histograms]
        [--no-benchstat]: request latency of an HTTP server that collects garbage all the time, with
        the waiting policy, with pure spinning (SENNIT_WAIT_SPIN=1), and in Go at GOGC=10.

Server and clients are one process (wait.c, wait.go), which has as many processors as there are
CPUs. The levels are the load that competes for these CPUs:

    none    nothing
    slight  one process that computes
    full    as many as there are CPUs
    copy    a second copy of the whole

The three take turns at each level in each run, so that other load on the machine affects all of
them. The results are kept in BUILD_DIR/bench/wait, a file for each, and benchstat compares them.
The last table, in Markdown, is docs/waiting.md's: medians, their spread as benchstat reports it,
and p. Without benchstat (a Go module, fetched once) there are only medians and ranges.
BENCH_WAIT_RUNS and BENCH_WAIT_SECONDS in the environment are the defaults of --runs (10) and
--seconds (1).

--histograms prints instead how long the waits for scans took, at each level, in one run each with
spinning and with the policy. It also prints the sums of these waits, of "scan owner", and of
"lease". In the last a thread waits until the monitor has changed the status of a task, the only
such change that a thread can wait for.
"""
import argparse
import csv
import io
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from common import built, compiler, loudly  # noqa: E402

LEVELS = ["none", "slight", "full", "copy"]
# The last version that Go 1.19, Debian 12's, can build.
BENCHSTAT = "golang.org/x/perf/cmd/benchstat@v0.0.0-20230113213139-801c7ef9e5c5"
CPUS = len(os.sched_getaffinity(0))
QUANTILES = {"p50": "Latency-50", "p95": "Latency-95", "p99": "Latency-99", "p999": "Latency-99.9"}
# The process ends by itself after a time, in case this script has been killed.
COMPUTE = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\n" \
          "while time.monotonic() < end: pass"


def contestants(build, kept):
    """The command and the environment of each contestant."""
    ours = [os.path.join(build, "bench/bench-wait")]
    if not os.path.exists(ours[0]):
        sys.exit(f"wait.py: there is no {ours[0]}; make benches builds it if http_parser is installed "
                 "(Debian: libhttp-parser-dev; scripts/setup bench installs it)")
    procs = {"SENNIT_PROCS": str(CPUS)}
    found = {"spin": (ours, {**procs, "SENNIT_WAIT_SPIN": "1"}), "policy": (ours, procs)}
    go = os.path.join(kept, "go")
    if built("Go", "go", ["go", "build", "-o", go, os.path.join(HERE, "wait.go")]):
        found["go"] = ([go], {"GOMAXPROCS": str(CPUS), "GOGC": "10"})
    return found


def benchstat(kept):
    """The program, or None after reporting why there is none."""
    program = shutil.which("benchstat") or os.path.join(kept, "benchstat")
    if os.path.exists(program):
        return program
    if not compiler("go"):
        loudly("NO benchstat: there is no go to build it with")
        return None
    made = subprocess.run(["go", "install", BENCHSTAT], capture_output=True, text=True, check=False,
                          env={**os.environ, "GOBIN": kept})
    if made.returncode != 0:
        loudly(f"NO benchstat:\n{made.stderr[-2000:]}")
        return None
    return program


# ---- running ----

class Beside:
    """Runs a level's competing load for the duration of a with block."""

    def __init__(self, level, contestant, seconds):
        command, environment = contestant
        compute = [sys.executable, "-c", COMPUTE, str(seconds + 30)]
        # The copy starts before the measured one and ends after it.
        copy = [*command, f"--seconds={seconds + 30}", "--name=beside"]
        self.commands = {"none": [], "slight": [compute], "full": [compute] * CPUS,
                         "copy": [copy]}[level]
        self.environment = environment
        self.processes = []

    def __enter__(self):
        for command in self.commands:
            self.processes.append(subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, **self.environment}))

    def __exit__(self, *_):
        for process in self.processes:
            ended = process.poll() is not None
            process.send_signal(signal.SIGKILL)
            process.wait()
            if ended:
                sys.exit(f"wait.py: what ran beside has ended by itself: {process.args}")


def run(contestant, level, seconds, more=None):
    """Runs a contestant at a level. Returns what it printed, on both outputs."""
    command, environment = contestant
    with Beside(level, contestant, seconds):
        try:
            done = subprocess.run([*command, f"--seconds={seconds}", f"--name={level}"],
                                  capture_output=True, text=True, check=False, timeout=seconds + 30,
                                  env={**os.environ, **environment, **(more or {})})
        except subprocess.TimeoutExpired:
            sys.exit(f"wait.py: {command[0]} takes too long at level {level}")
    if done.returncode != 0 or not done.stdout.startswith("BenchmarkHTTP/"):
        sys.exit(f"wait.py: {command[0]} at level {level}: status {done.returncode}: {done.stderr}")
    return done.stdout, done.stderr


def parse(line):
    """{unit: value} of a line in Go's format."""
    fields = line.split()[2:]
    return {unit: float(value) for value, unit in zip(fields[::2], fields[1::2])}


# ---- the table ----

def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def compared(program, files, names):
    """{(level, quantile): (spread of the first, of the second, p)}, by benchstat."""
    done = subprocess.run([program, "-format", "csv", *(f"{name}={files[name]}" for name in names)],
                          capture_output=True, text=True, check=True)
    found, unit = {}, None
    for row in csv.reader(io.StringIO(done.stdout)):
        if len(row) > 1 and row[0] == "" and row[1].endswith("-sec"):
            unit = row[1][:-len("-sec")]
        elif len(row) > 1 and row[0] == "":
            unit = None
        elif unit and len(row) >= 7 and row[0].startswith("HTTP/level="):
            found[(row[0].split("=")[1], unit)] = (row[2], row[4], row[6].split(" ")[0])
    return found


TITLES = {"spin": "spinning", "policy": "policy", "go": "Go, GOGC=10"}


def print_table(results, files, program, levels):
    others = [name for name in ("spin", "go") if name in results]
    against = {name: compared(program, files, [name, "policy"]) for name in others} if program else {}
    print("| level | latency | policy |"
          + "".join(f" {TITLES[name]} | policy to {TITLES[name].split(',')[0]} |" for name in others))
    print("| --- | --- | --- |" + " --- | --- |" * len(others))
    for level in levels:
        for quantile, title in QUANTILES.items():
            unit = f"{quantile}-ns"
            values = {name: [each[unit] for each in results[name][level]] for name in results}
            middle = {name: statistics.median(values[name]) for name in values}

            def cell(name, spread):
                around = f"± {spread}" if spread else \
                    f"({duration(min(values[name]))} to {duration(max(values[name]))})"
                return f" {duration(middle[name])} {around} |"
            pairs = {name: against[name][(level, quantile)] if program else ("", "", "")
                     for name in others}
            line = f"| {level} | {title} |" + cell("policy", pairs[others[0]][1])
            for name in others:
                change = (middle["policy"] / middle[name] - 1) * 100
                told = f" ({pairs[name][2]})" if pairs[name][2] else ""
                line += cell(name, pairs[name][0]) + f" {change:+.0f} %{told} |"
            print(line)


def print_frequencies(results, levels):
    """How many requests and collections each contestant had."""
    print("\n| level |" + "".join(f" {TITLES[name]} |" for name in results))
    print("| --- |" + " --- |" * len(results))
    for level in levels:
        line = f"| {level} |"
        for name in results:
            middle = {unit: statistics.median(each[unit] for each in results[name][level])
                      for unit in ("ns/op", "B/op", "GC/s", "B/GC")}
            line += f" {1e9 / middle['ns/op']:,.0f} requests/s of {middle['B/op'] / 1024:.1f} KiB, " \
                    f"{middle['GC/s']:,.0f} collections/s, one in {middle['B/GC'] / 1024:,.0f} KiB |"
        print(line)


# ---- the histograms ----

SITES = ("scan", "scan owner", "lease")
HEAD = re.compile(r"^(\w[\w ]*): (\d+) waits for ")
TOTALS = re.compile(r"^# (\d+) slept, longest (.*?), together (.*?);")
BUCKET = re.compile(r"^ *(\S+ \w+) - +\S+ \w+ \[ *(\d+)\]")


def sites_of(text):
    """{site: (its totals in words, {lower end of bucket: count})}, from SENNIT_WAIT_STATS' output."""
    found, site, waits = {}, None, None
    for line in text.splitlines():
        if head := HEAD.match(line):
            site, waits = head.groups()
        elif totals := TOTALS.match(line):
            slept, longest, together = totals.groups()
            found[site] = (f"{waits}: {together}, longest {longest}, {slept} slept", {})
        elif bucket := BUCKET.match(line):
            found[site][1][bucket.group(1)] = int(bucket.group(2))
    return found


def nanoseconds(text):
    value, unit = text.split()
    return float(value) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]


def print_histograms(found, levels, seconds):
    columns = [(level, name) for level in levels for name in ("spin", "policy")]
    sites = {}
    for level, name in columns:
        _, text = run(found[name], level, seconds, {"SENNIT_WAIT_STATS": "1"})
        sites[(level, name)] = sites_of(text)
    head = "".join(f" {level}, {TITLES[name]} |" for level, name in columns)
    rule = " ---: |" * len(columns)
    print(f"waits for a scan, {seconds:g} s each, by how long they took, from\n\n| |{head}\n| ---: |{rule}")
    scans = {column: sites[column].get("scan", ("", {}))[1] for column in columns}
    for bucket in sorted({each for counts in scans.values() for each in counts}, key=nanoseconds):
        counts = "".join(f" {scans[column].get(bucket) or ''} |" for column in columns)
        print(f"| {bucket} |{counts}")
    print(f"\n| |{head}\n| --- |{rule}")
    for site in SITES:
        print(f"| {site} |" + "".join(f" {sites[column].get(site, ('none',))[0]} |"
                                      for column in columns))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=os.environ.get("BENCH_WAIT_RUNS", "10"))
    parser.add_argument("--seconds", type=float, default=os.environ.get("BENCH_WAIT_SECONDS", "1"))
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--histograms", action="store_true")
    parser.add_argument("--no-benchstat", action="store_true")
    options = parser.parse_args()
    levels = options.levels.split(",")
    for level in levels:
        if level not in LEVELS:
            parser.error(f"unknown level {level}; there are {', '.join(LEVELS)}")
    build = os.path.abspath(options.build)
    kept = os.path.join(build, "bench/wait")
    os.makedirs(kept, exist_ok=True)
    found = contestants(build, kept)
    if options.histograms:
        print_histograms(found, levels, options.seconds)
        return 0

    program = None if options.no_benchstat or options.runs < 2 else benchstat(kept)
    files = {name: os.path.join(kept, f"{name}.txt") for name in found}
    for path in files.values():
        open(path, "w", encoding="utf-8").close()
    results = {name: {level: [] for level in levels} for name in found}
    for _ in range(options.runs):
        for level in levels:
            for name, contestant in found.items():
                line, _ = run(contestant, level, options.seconds)
                results[name][level].append(parse(line))
                with open(files[name], "a", encoding="utf-8") as file:
                    file.write(line)

    if program:
        subprocess.run([program, *(f"{name}={files[name]}" for name in files)], check=True)
    print(f"\n{options.runs} runs of {options.seconds:g} s each, {CPUS} CPUs\n")
    print_table(results, files, program, levels)
    print_frequencies(results, levels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
