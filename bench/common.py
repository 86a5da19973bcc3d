# SPDX-License-Identifier: MIT
"""
Shared by the benchmarks: builds the other runtimes' programs, and reports their absence; reads the
CPU time of processes; answers connections; formats figures.

A peer is built with its own compiler (go, cargo, ...). With SENNIT_BENCH_PEERS=none in the
environment these compilers count as missing: the gate runs each benchmark for a moment, and would
spend most of that time on building what it is compared with.
"""
import os
import random
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

TICK = os.sysconf("SC_CLK_TCK")


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


# ---- processes ----

def process_stat(pid):
    """The fields of /proc/PID/stat after the name, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None


def children(pid):
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += [int(each) for each in file.read().split()]
    except OSError:
        pass
    return found


def cpu_seconds(pid):
    """User and kernel CPU seconds of a process and of its living children. The kernel knows their
    sum exactly, and divides it by what it finds at each tick."""
    fields = process_stat(pid)
    sums = [int(fields[11]) / TICK, int(fields[12]) / TICK] if fields else [0, 0]
    for child in children(pid):
        sums = [a + b for a, b in zip(sums, cpu_seconds(child))]
    return sums


def family(pid):
    """A process and its living children."""
    return [pid] + [each for child in children(pid) for each in family(child)]


def free_port():
    """A port below the range for outgoing connections, of which a run may take thousands."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def reserve_port():
    """A socket with a port for a program that sets SO_REUSEADDR. While the socket is open, the
    system gives the port to nobody else; the program gets it because the socket does not listen."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


class Server:
    """A running server. Its command prints its address or port, unless the port is given."""

    def __init__(self, name, command, cpus, port=None, environment=None):
        self.name, self.port = name, port
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cpus)), *command], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        if port is None:
            said = self.process.stdout.readline()
            if not said:
                sys.exit(f"{os.path.basename(sys.argv[0])}: {name} did not start")
            self.port = int(said.strip().rsplit(":", 1)[-1])
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"{os.path.basename(sys.argv[0])}: {name} does not listen")

    def cpu_seconds(self):
        return sum(cpu_seconds(self.process.pid))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def most_descriptors():
    """Raises the limit of descriptors to the most that this process may have, and returns it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, 65536),) * 2)
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


# ---- figures ----

def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(values):
    return f"{number(statistics.median(values))} ({number(min(values))}..{number(max(values))})"


def answer(listener):
    """A server without end, as a process of its own: sends back what comes, until clients close."""
    epoll, open_ = select.epoll(), {}
    epoll.register(listener, select.EPOLLIN)
    while True:
        for fd, _ in epoll.poll():
            if fd == listener.fileno():
                conn, _ = listener.accept()
                open_[conn.fileno()] = conn
                epoll.register(conn, select.EPOLLIN)
                continue
            try:
                data = open_[fd].recv(4096)
                if data:
                    open_[fd].sendall(data)
                    continue
            except OSError:
                pass
            open_.pop(fd).close()
