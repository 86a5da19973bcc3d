#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
relay.py BUILD_DIR [--rounds N] [--seconds S] [--chunks KIB,..] [--what bulk,short,closed,paced]
         [--only NAME,..]: sennit-relay beside other relays, in one run.

Every relay runs between the same sender and sink, on this machine's loopback: bulk, one connection
that sends chunks of one size as fast as it can; short, a connection per small request; closed,
1,000 persistent connections with a pending small request on each; paced, 10,000 requests per second
over them. The relays take turns in every round, so that other load on the machine affects all of
them. The tables have the medians over the rounds, with the lowest and the highest value.

sennit-relay runs with its defaults; the peers run as their manuals recommend, with the settings in
this file, and with several settings where results differ. CPU is user and system time of all of a
relay's processes. A peer that is not installed has a row that says so. Exits with 1 if a relay
fails: lost bytes and a wrong answer are failures.
"""
import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from common import (TICK, cell, children, compiler, free_port, our_program,  # noqa: E402
                    process_stat, write)

GIB = 1 << 30
CHUNKS = [1, 4, 16, 64, 1024]
CONNECTIONS = {"short": 64, "closed": 1000, "paced": 1000}
RATE = 10000

HAPROXY = """
global
    maxconn 4000
    {globals}
defaults
    mode tcp
    timeout connect 5s
    timeout client 10m
    timeout server 10m
listen relay
    bind 127.0.0.1:{port}
    {options}
    server sink 127.0.0.1:{sink}
"""
SPLICE = "option splice-request\n    option splice-response"

NGINX = """
{module}
daemon off;
pid {folder}/nginx.pid;
error_log stderr crit;
worker_processes auto;
events {{ worker_connections 8192; }}
stream {{
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        proxy_pass 127.0.0.1:{sink};
    }}
}}
"""
NGINX_MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"


def haproxy(options="", globals_=""):
    """Runs HAProxy in the foreground, with its default number of threads unless globals_ sets
    another."""
    def command(folder, port, sink):
        text = HAPROXY.format(port=port, sink=sink, options=options, globals=globals_)
        return [shutil.which("haproxy"), "-db", "-f",
                write(os.path.join(folder, "haproxy.cfg"), text)]
    return command if shutil.which("haproxy") else "haproxy is not installed"


def nginx():
    def command(folder, port, sink):
        module = f"load_module {NGINX_MODULE};" if os.path.exists(NGINX_MODULE) else ""
        text = NGINX.format(module=module, folder=folder, port=port, sink=sink)
        return [shutil.which("nginx"), "-p", folder, "-e", "stderr", "-c",
                write(os.path.join(folder, "nginx.conf"), text)]
    if not shutil.which("nginx"):
        return "nginx is not installed"
    version = subprocess.run(["nginx", "-V"], capture_output=True, text=True, check=False).stderr
    if "--with-stream=dynamic" in version and not os.path.exists(NGINX_MODULE):
        return "libnginx-mod-stream is not installed"
    return command if "--with-stream" in version else "this nginx has no stream module"


def go(kept):
    if not compiler("go"):
        return "there is no go"
    program = os.path.join(kept, "go-relay")
    built = subprocess.run(["go", "build", "-o", program, os.path.join(HERE, "relay.go")],
                           capture_output=True, text=True, check=False)
    if built.returncode != 0:
        return f"does not build: {built.stderr[-300:]}"
    return lambda folder, port, sink: [program, str(port), str(sink)]


def socat():
    """Runs socat with buffers of 64 KiB, because its default of 8 KiB is slower."""
    def command(folder, port, sink):
        return [shutil.which("socat"), "-b", "65536",
                f"TCP4-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,backlog=4096,nodelay",
                f"TCP4:127.0.0.1:{sink},nodelay"]
    return command if shutil.which("socat") else "socat is not installed"


def contestants(build, kept):
    """For each relay its name, its command or the reason why there is none, and its environment."""
    relay = our_program(build, "tools/relay/sennit-relay", "build")
    loop = our_program(build, "bench/relay/bench-relay-loop")

    def sennit(folder, port, sink):
        return [relay, f"127.0.0.1:{port}", f"127.0.0.1:{sink}"]

    def bare(how):
        return lambda folder, port, sink: [loop, how, str(port), str(sink)]
    return [
        ("none (direct)", None, {}),
        ("sennit-relay", sennit, {}),
        ("sennit-relay, userspace", sennit, {"SENNIT_PIPES": "0"}),
        ("HAProxy", haproxy(), {}),
        ("HAProxy, splice forced", haproxy(SPLICE), {}),
        ("HAProxy, splice forced, 1 MiB pipes, one thread",
         haproxy(SPLICE, "tune.pipesize 1048576\n    nbthread 1"), {}),
        ("nginx stream", nginx(), {}),
        ("Go io.Copy", go(kept), {}),
        ("socat", socat(), {}),
        ("c-splice", bare("splice"), {}),
        ("c-copy", bare("copy"), {}),
    ]


# ---- processes ----

def family_ticks(pid):
    """CPU ticks of a process, of its living children, and of those that it has waited for."""
    fields = process_stat(pid)
    own = sum(map(int, fields[11:15])) if fields else 0
    return own + sum(family_ticks(child) for child in children(pid))


def settled_ticks(pid, processes):
    """CPU ticks, read once the relay's processes per connection have ended."""
    until = time.monotonic() + 10
    while len(children(pid)) > processes and time.monotonic() < until:
        time.sleep(0.02)
    return family_ticks(pid)


def listens(port):
    local = f"0100007F:{port:04X}"
    with open("/proc/net/tcp", encoding="ascii") as file:
        return any(fields[1] == local and fields[3] == "0A"
                   for fields in (line.split() for line in file))


class Relay:
    """A running relay with its measurements, or the reason why it is missing."""

    def __init__(self, name, command, environment, scratch):
        self.name, self.process, self.missing, self.results = name, None, None, {}
        self.sink = free_port()
        self.port = self.sink
        if command is None:
            return
        if isinstance(command, str):
            self.missing = command
            return
        self.port = free_port()
        folder = tempfile.mkdtemp(dir=scratch)
        with open(os.path.join(folder, "errors"), "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                command(folder, self.port, self.sink), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
                env={**os.environ, **environment})
        self.errors = errors.name
        until = time.monotonic() + 20
        while not listens(self.port):
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                sys.exit(f"relay.py: {name} does not start: {self.said()}")
            time.sleep(0.02)
        time.sleep(0.1)
        self.processes = len(children(self.process.pid))

    def said(self):
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            return file.read()[-1000:]

    def ticks(self):
        return settled_ticks(self.process.pid, self.processes) if self.process else 0

    def run(self, command, seconds):
        """Runs the command. Returns the numbers that it printed, and the CPU seconds that the relay
        took."""
        before = self.ticks()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60,
                                  check=False)
        except subprocess.TimeoutExpired:
            sys.exit(f"relay.py: {self.name}: {' '.join(command)} takes too long")
        if done.returncode != 0:
            sys.exit(f"relay.py: {self.name}: {' '.join(command)}: {done.stderr}")
        if self.process and self.process.poll() is not None:
            sys.exit(f"relay.py: {self.name} has ended: {self.said()}")
        return [int(each) for each in done.stdout.split()], (self.ticks() - before) / TICK

    def keep(self, key, value):
        self.results.setdefault(key, []).append(value)

    def stop(self):
        """Kills the relay's process group, which contains its children too."""
        if self.process:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()


# ---- measuring ----

def measure_bulk(relay, programs, chunk, seconds):
    (size, ns), cpu = relay.run([programs["ends"], str(chunk << 10), str(seconds), str(relay.port),
                                 str(relay.sink)], seconds)
    relay.keep(("MB/s", chunk), size / ns * 1e3)
    relay.keep(("CPU s per GiB", chunk), cpu * GIB / size)


def measure_load(relay, programs, what, seconds):
    command = [programs["load"], what, str(CONNECTIONS[what]), str(seconds), str(relay.port),
               str(relay.sink)] + ([str(RATE)] if what == "paced" else [])
    (done, counted, ns, p50, p99, p999), cpu = relay.run(command, seconds)
    relay.keep((what, "per second"), counted / ns * 1e9)
    relay.keep((what, "CPU us"), cpu * 1e6 / done)
    for name, value in (("p50", p50), ("p99", p99), ("p999", p999)):
        relay.keep((what, name), value / (1e3 if what == "paced" else 1e6))


def measure_round(relays, programs, what, chunks, seconds):
    if "bulk" in what:
        for chunk in chunks:
            for relay in relays:
                measure_bulk(relay, programs, chunk, seconds)
    for load in ("short", "closed", "paced"):
        if load in what:
            for relay in relays:
                measure_load(relay, programs, load, seconds)


# ---- the tables ----

def label(chunk):
    return f"{chunk >> 10}M" if chunk >= 1024 else f"{chunk}K"


def better(best, value, more):
    return best is None or (value > best if more else value < best)


def best_of(relays, key, more):
    """The best median, and the relay that has it."""
    best, whose = None, None
    for relay in relays:
        if key in relay.results:
            value = statistics.median(relay.results[key])
            if better(best, value, more):
                best, whose = value, relay.name
    return best, whose


def ratio_rows(relays, columns):
    """sennit-relay's median divided by that of others."""
    ours = next((r for r in relays if r.name == "sennit-relay"), None)
    peers = [r for r in relays if not r.name.startswith(("none", "sennit", "c-"))]
    others = [("the best other relay", peers)]
    others += [(r.name, [r]) for r in relays
               if r.name in ("sennit-relay, userspace", "c-splice", "c-copy")]
    for name, among in others:
        cells = []
        for key, _, more in columns:
            best, whose = best_of(among, key, more)
            if ours is None or key not in ours.results or not best:
                cells.append("-")
                continue
            text = f"{statistics.median(ours.results[key]) / best:.2f}"
            cells.append(text + (f" ({whose})" if len(among) > 1 else ""))
        yield f"| sennit-relay / {name} | " + " | ".join(cells) + " |"


def table(title, relays, missing, columns):
    print(f"\n{title}\n")
    print("| relay | " + " | ".join(name for _, name, _ in columns) + " |")
    print("| --- " * (len(columns) + 1) + "|")
    for relay in relays:
        print(f"| {relay.name} | " + " | ".join(
            cell(relay.results[key]) if key in relay.results else "-" for key, _, _ in columns)
            + " |")
    for relay in missing:
        print(f"| {relay.name} | NOT MEASURED: {relay.missing} " + "|" * len(columns))
    for row in ratio_rows(relays, columns):
        print(row)


def print_tables(relays, missing, what, chunks):
    with_cpu = [r for r in relays if r.process]
    if "bulk" in what:
        table("Bulk, MB/s, by the sender's chunk", relays, missing,
              [(("MB/s", chunk), label(chunk), True) for chunk in chunks])
        table("Bulk, CPU seconds of the relay per GiB, by the sender's chunk", with_cpu, missing,
              [(("CPU s per GiB", chunk), label(chunk), False) for chunk in chunks])
    titles = {
        "short": f"Short connections, {CONNECTIONS['short']} at once: ms of one",
        "closed": f"Requests over {CONNECTIONS['closed']} connections, one under way on each: ms",
        "paced": f"Requests over {CONNECTIONS['paced']} connections, {RATE} a second: us",
    }
    for load, title in titles.items():
        if load in what:
            table(title, relays, missing,
                  [((load, "per second"), "a second", True), ((load, "CPU us"), "CPU us each", False),
                   ((load, "p50"), "p50", False), ((load, "p99"), "p99", False),
                   ((load, "p999"), "p99.9", False)])


def versions(programs=("haproxy", "nginx", "go", "socat")):
    for command in (["haproxy", "-v"], ["nginx", "-v"], ["go", "version"], ["socat", "-V"]):
        if command[0] in programs and shutil.which(command[0]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ersion" in line]
            print(lines[0] if lines else command[0])


def numbers(text):
    return [int(each) for each in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a build directory, such as build/release")
    parser.add_argument("--rounds", type=int, default=os.environ.get("BENCH_RELAY_ROUNDS") or 5)
    parser.add_argument("--seconds", type=float, help="of each measurement",
                        default=os.environ.get("BENCH_RELAY_SECONDS") or 0.7)
    parser.add_argument("--chunks", type=numbers, default=CHUNKS, help="KiB, with commas between")
    parser.add_argument("--what", default="bulk,short,closed,paced",
                        help="bulk, short, closed, paced, with commas between; default: all")
    parser.add_argument("--only", help="names of relays, with commas between; default: all")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    what = arguments.what.split(",")
    for each in what:
        if each not in ("bulk", *CONNECTIONS):
            parser.error(f"unknown measurement {each}; there are bulk, {', '.join(CONNECTIONS)}")
    programs = {"ends": os.path.join(build, "bench/copy/bench-copy-ends"),
                "load": os.path.join(build, "bench/relay/bench-relay-load")}
    kept = os.path.join(build, "bench/relay")
    wanted = contestants(build, kept)
    if arguments.only:
        # A name may contain a comma, so longer names are matched first.
        left, chosen = arguments.only, set()
        for name in sorted((name for name, _, _ in wanted), key=len, reverse=True):
            if name in left:
                chosen.add(name)
                left = left.replace(name, "")
        if left.strip(", "):
            parser.error(f"unknown relay: {left.strip(', ')}; there are "
                         + "; ".join(name for name, _, _ in wanted))
        wanted = [each for each in wanted if each[0] in chosen]
    versions()
    relays = []
    with tempfile.TemporaryDirectory() as scratch:
        # nginx's workers run as another user.
        os.chmod(scratch, 0o755)
        try:
            for name, command, environment in wanted:
                relays.append(Relay(name, command, environment, scratch))
            here = [r for r in relays if not r.missing]
            print(f"{arguments.rounds} rounds of {arguments.seconds} s each, in turn; "
                  f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before; medians, with lowest and "
                  "highest", flush=True)
            for _ in range(arguments.rounds):
                measure_round(here, programs, what, arguments.chunks, arguments.seconds)
        finally:
            for relay in relays:
                relay.stop()
    print_tables(here, [r for r in relays if r.missing], what, arguments.chunks)


if __name__ == "__main__":
    main()
