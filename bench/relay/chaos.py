#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
chaos.py BUILD_DIR [--seconds S] [--rate N] [--seed N] [--only NAME,..]: clients of sennit-relay, of
sennit-relay as process 1 of a container, and of HAProxy, in one run, while the backends and the
relays change.

The backend is a name. Every second an endpoint of it comes or goes: most leave the name service
three seconds before they stop listening, as in Kubernetes, the others stop immediately. From time
to time one drops packets for ten seconds, or gives wrong answers, which its health check reports
too. Every five seconds the configuration is reloaded, and every ten seconds sennit-relay hands over
to a new process. All proxies have the same endpoints, timeouts, checks and number of tries.

The clients count the failures. Each client sends N requests a second, each over a connection of its
own, whether or not the earlier ones were answered, and counts those that failed: refused, reset,
cut (an answer that ends too early), late (not within ten seconds) or wrong. Others keep a
connection to a backend that stays, and ask once a second; none of these may end. The row "none" is
a client that connects to that backend directly: it shows what this program, on one thread, adds to
the latencies.

Runs in namespaces of its own, in which it is the name service. Exits with 1 if a relay dies or a
lasting connection breaks, and with 77 where there are no namespaces.
"""
import argparse
import asyncio
import glob
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from common import our_program  # noqa: E402

NAME = "pool.test"
PORT = 8080
STABLE = "127.0.1.250"
ENDPOINTS = [f"127.0.1.{n}" for n in range(1, 13)]
FEWEST = 4
LASTING = 10
LATE = 10.0
INSIDE = "SENNIT_CHAOS_INSIDE"
FILES = {
    "/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:5\n",
    "/etc/nsswitch.conf": "hosts: files dns\nservices: files\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
}

RELAY = """
# {version}
[listeners.pool]
address = "127.0.0.1:{port}"
group = "pool"
connect_timeout = "4s"

[listeners.stable]
address = "127.0.0.1:{lasting_port}"
group = "stable"

[groups.pool]
balance = "round-robin"
attempt_timeout = "1s"
resolve = "1s"
backends = ["{name}:{backend_port}"]
[groups.pool.check]
interval = "1s"
timeout = "1s"
fall = 2
rise = 1
http = "GET /health"
status = 200

[groups.stable]
backends = ["{stable}:{backend_port}"]
"""

HAPROXY = """
# {version}
global
    maxconn 2000
    stats socket {folder}/haproxy.sock mode 600 level admin expose-fd listeners
    server-state-file {folder}/haproxy.state
defaults
    mode tcp
    timeout connect 1s
    timeout check 1s
    timeout client 10m
    timeout server 10m
    retries 3
    option redispatch 1
    load-server-state-from-file global
resolvers names
    nameserver here 127.0.0.1:53
    accepted_payload_size 8192
    timeout resolve 1s
    timeout retry 1s
    hold valid 1s
    hold obsolete 0s
listen pool
    bind 127.0.0.1:{port}
    balance roundrobin
    option httpchk GET /health
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 observe layer4 error-limit 5 on-error mark-down
    server-template pool 1-16 {name}:{backend_port} check resolvers names init-addr last,none
listen stable
    bind 127.0.0.1:{lasting_port}
    server stable {stable}:{backend_port}
"""


def enter():
    """Becomes a process with a network, a name service and processes of its own."""
    if os.environ.get(INSIDE):
        return
    for form in (["unshare"], ["unshare", "--user", "--map-root-user"]):
        words = [*form, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            os.environ[INSIDE] = "yes"
            os.execvp(words[0], [*words, sys.executable, *sys.argv])
    print("skipped: namespaces are not permitted here")
    sys.exit(77)


def furnish(folder):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for path, text in FILES.items():
        mine = os.path.join(folder, os.path.basename(path))
        with open(mine, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["mount", "--bind", mine, path], check=True)


class NameServer(asyncio.DatagramProtocol):
    """Answers with the addresses that NAME has now, for one second."""

    def __init__(self):
        self.addresses = []
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        end, labels = 12, []
        while data[end]:
            labels.append(data[end + 1:end + 1 + data[end]].decode())
            end += 1 + data[end]
        kind = struct.unpack_from("!H", data, end + 1)[0]
        question = data[12:end + 5]
        here = ".".join(labels).lower() == NAME
        found = self.addresses if here and kind == 1 else []
        head = data[:2] + struct.pack("!HHHHH", 0x8580 | (0 if here else 3), 1, len(found), 0, 0)
        answers = b"".join(struct.pack("!HHHIH", 0xC00C, 1, 1, 1, 4) + socket.inet_aton(each)
                           for each in found)
        self.transport.sendto(head + question + answers, addr)


class Endpoint:
    """An HTTP server at one address. is_wrong: whether it gives wrong answers."""

    def __init__(self, address):
        self.address = address
        self.is_wrong = False
        self.server = None
        self.fillers = []

    async def start(self):
        self.server = await asyncio.start_server(self.talk, self.address, PORT, backlog=512,
                                                 reuse_address=True)

    async def talk(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                last = b"connection: close" in head.lower()
                status = "500 Wrong" if self.is_wrong else "200 OK"
                body = "wrong" if self.is_wrong else f"from {self.address}"
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n"
                             f"Connection: {'close' if last else 'keep-alive'}\r\n\r\n"
                             f"{body}".encode())
                await writer.drain()
                if last:
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def stop(self):
        """Stops listening. Requests that have come are answered."""
        for each in self.fillers:
            each.close()
        self.fillers = []
        if self.server:
            self.server.close()
            self.server = None

    def be_silent(self):
        """Fills the backlog, so that the kernel drops packets of further connections."""
        self.stop()
        listener = socket.socket()
        self.fillers.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.address, PORT))
        listener.listen(0)
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((self.address, PORT))
            self.fillers.append(filler)


class Director:
    """Makes the endpoints come and go. `members` are those that are not leaving."""

    def __init__(self, names, seed):
        self.names = names
        self.random = random.Random(seed)
        self.all = {address: Endpoint(address) for address in ENDPOINTS}
        self.members = []
        self.leaving = set()
        self.afflicted = None
        self.happened = dict.fromkeys(("come", "gone", "gone at once", "silent", "wrong"), 0)

    async def begin(self):
        for address in ENDPOINTS[:FEWEST + 2]:
            await self.come(address)

    async def come(self, address):
        await self.all[address].start()
        self.members.append(address)
        self.names.addresses = list(self.members)

    async def leave(self, address, at_once):
        self.leaving.add(address)
        self.members.remove(address)
        if at_once:
            self.all[address].stop()
            await asyncio.sleep(1)
        self.names.addresses = list(self.members)
        if not at_once:
            await asyncio.sleep(3)
            self.all[address].stop()
        self.leaving.remove(address)

    async def afflict(self, address, how):
        endpoint = self.all[address]
        self.afflicted = address
        if how == "silent":
            endpoint.be_silent()
        endpoint.is_wrong = how == "wrong"
        await asyncio.sleep(10)
        if how == "silent":
            endpoint.stop()
            await endpoint.start()
        endpoint.is_wrong = False
        self.afflicted = None

    async def direct(self, until):
        tasks = set()
        second = 0

        def start(work):
            tasks.add(task := asyncio.ensure_future(work))
            task.add_done_callback(tasks.discard)

        while time.monotonic() < until:
            await asyncio.sleep(1)
            second += 1
            absent = [each for each in ENDPOINTS
                      if each not in self.members and each not in self.leaving]
            present = [each for each in self.members if each != self.afflicted]
            if second % 15 == 5 and not self.afflicted:
                how = ("silent", "wrong")[second // 15 % 2]
                self.happened[how] += 1
                start(self.afflict(self.random.choice(present), how))
            elif absent and (len(present) <= FEWEST or self.random.random() < 0.5):
                self.happened["come"] += 1
                await self.come(self.random.choice(absent))
            else:
                at_once = self.random.random() < 0.25
                self.happened["gone at once" if at_once else "gone"] += 1
                start(self.leave(self.random.choice(present), at_once))
        for task in list(tasks):
            task.cancel()


class Proxy:
    """A process between the clients and the endpoints, with two ports."""

    def __init__(self, name, folder, port):
        self.name, self.port, self.lasting_port = name, port, port + 1
        self.folder = os.path.join(folder, str(port))
        os.mkdir(self.folder)
        self.file = os.path.join(self.folder, "config")
        self.version = 0
        self.process = None
        self.reloads = self.handovers = 0

    def write(self, template):
        self.version += 1
        with open(self.file + ".new", "w", encoding="utf-8") as file:
            file.write(template.format(port=self.port, lasting_port=self.lasting_port, name=NAME,
                                       stable=STABLE, backend_port=PORT, folder=self.folder,
                                       version=self.version))
        os.rename(self.file + ".new", self.file)

    def start(self, words):
        with open(os.path.join(self.folder, "log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def is_alive(self):
        return self.process.poll() is None

    def stop(self):
        self.process.kill()
        self.process.wait()


class SennitRelay(Proxy):
    def __init__(self, name, folder, port, build, wrapper=()):
        super().__init__(name, folder, port)
        self.write(RELAY)
        self.start([*wrapper, build + "/tools/relay/sennit-relay", "--supervise", "--config",
                    self.file])
        self.is_wrapped = bool(wrapper)

    def first(self):
        """The id of the process that stays while others replace each other."""
        if not self.is_wrapped:
            return self.process.pid
        for file in glob.glob(f"/proc/{self.process.pid}/task/*/children"):
            with open(file, encoding="utf-8") as children:
                for word in children.read().split():
                    return int(word)
        raise OSError("the container is empty")

    async def change(self, second):
        if second % 10 == 0:
            os.kill(self.first(), signal.SIGUSR2)
            self.handovers += 1
        elif second % 5 == 0:
            self.write(RELAY)
            os.kill(self.first(), signal.SIGHUP)
            self.reloads += 1


class HAProxy(Proxy):
    def __init__(self, name, folder, port):
        super().__init__(name, folder, port)
        self.write(HAPROXY)
        with open(os.path.join(self.folder, "haproxy.state"), "w", encoding="utf-8"):
            pass
        self.start([shutil.which("haproxy"), "-W", "-db", "-f", self.file])

    async def change(self, second):
        if second % 5:
            return
        # HAProxy's manual asks for this, so that a new process knows the servers' addresses and
        # health.
        reader, writer = await asyncio.open_unix_connection(self.folder + "/haproxy.sock")
        writer.write(b"show servers state\n")
        state = await reader.read()
        writer.close()
        with open(self.folder + "/haproxy.state", "wb") as file:
            file.write(state)
        self.write(HAPROXY)
        os.kill(self.process.pid, signal.SIGUSR2)
        self.reloads += 1


class Direct:
    """Stands for a relay, but connects clients directly to the endpoint that stays."""

    name, port, lasting_port = "none", PORT, PORT
    reloads = handovers = 0

    @staticmethod
    def is_alive():
        return True

    @staticmethod
    def stop():
        pass

    @staticmethod
    def log():
        return ""

    async def change(self, second):
        pass


class Clients:
    def __init__(self, of):
        self.of = of
        self.host = STABLE if isinstance(of, Direct) else "127.0.0.1"
        self.failed = dict.fromkeys(("refused", "reset", "cut", "late", "wrong"), 0)
        self.latencies = []
        self.broken = []
        self.asked = 0

    async def exchange(self):
        reader, writer = await asyncio.open_connection(self.host, self.of.port)
        try:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return await reader.read()
        finally:
            writer.close()

    async def ask(self):
        began = time.monotonic()
        self.asked += 1
        try:
            answer = await asyncio.wait_for(self.exchange(), LATE)
            self.latencies.append(time.monotonic() - began)
            if b"\r\n\r\nwrong" in answer:
                self.failed["wrong"] += 1
            elif b"\r\n\r\nfrom 127." not in answer:
                self.failed["cut"] += 1
        except asyncio.TimeoutError:
            self.failed["late"] += 1
        except ConnectionRefusedError:
            self.failed["refused"] += 1
        except OSError:
            self.failed["reset"] += 1

    async def last(self, over):
        """A connection that sends requests until the end."""
        try:
            reader, writer = await asyncio.open_connection(self.host, self.of.lasting_port)
            while not over.is_set():
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                await asyncio.sleep(1)
            writer.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            self.broken.append(f"{type(error).__name__}: {error}")

    async def crowd(self, rate, until):
        over = asyncio.Event()
        lasting = [asyncio.ensure_future(self.last(over)) for _ in range(LASTING)]
        pending = set()
        due = time.monotonic()
        while time.monotonic() < until:
            pending.add(task := asyncio.ensure_future(self.ask()))
            task.add_done_callback(pending.discard)
            due += 1 / rate
            await asyncio.sleep(max(0, due - time.monotonic()))
        if pending:
            await asyncio.wait(list(pending))
        over.set()
        await asyncio.wait(lasting)

    def row(self):
        worst = sorted(self.latencies) or [0.0]
        at = [worst[int(part * (len(worst) - 1))] * 1000 for part in (0.5, 0.99, 0.999, 1)]
        return (f"| {self.of.name} | {self.asked} | {sum(self.failed.values())} | "
                + " | ".join(str(count) for count in self.failed.values())
                + " | " + " | ".join(f"{each:.0f}" for each in at)
                + f" | {len(self.broken)} of {LASTING} | {self.of.reloads} | "
                f"{self.of.handovers} |")


async def eventually_serves(proxy):
    until = time.monotonic() + 60
    while time.monotonic() < until and proxy.is_alive():
        clients = Clients(proxy)
        await clients.ask()
        if not any(clients.failed.values()):
            return True
        await asyncio.sleep(0.1)
    print(f"{proxy.name} does not serve: {proxy.log()[-2000:]}", file=sys.stderr)
    return False


async def change_all(proxies, until):
    second = 0
    while time.monotonic() < until:
        await asyncio.sleep(1)
        second += 1
        for proxy in proxies:
            try:
                await proxy.change(second)
            except OSError as error:
                print(f"{proxy.name}: {error}", file=sys.stderr)


async def run(options, folder):
    _, names = await asyncio.get_running_loop().create_datagram_endpoint(
        NameServer, local_addr=("127.0.0.1", 53))
    stable = Endpoint(STABLE)
    await stable.start()
    director = Director(names, options.seed)
    await director.begin()

    container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    makers = {
        "sennit-relay": lambda n, at: SennitRelay(n, folder, at, options.build),
        "sennit-relay-pid1": lambda n, at: SennitRelay(n, folder, at, options.build,
                                                             container),
        "HAProxy": lambda n, at: HAProxy(n, folder, at),
        "none": lambda n, at: Direct(),
    }
    proxies = []
    try:
        for n, (name, make) in enumerate(makers.items()):
            if options.only and name not in options.only:
                continue
            if name == "HAProxy" and not shutil.which("haproxy"):
                print("HAProxy is left out: it is not installed")
                continue
            proxies.append(make(name, 20000 + 10 * n))
        if not all([await eventually_serves(each) for each in proxies]):
            return False
        until = time.monotonic() + options.seconds
        clients = [Clients(each) for each in proxies]
        await asyncio.gather(director.direct(until), change_all(proxies, until),
                             *(each.crowd(options.rate, until) for each in clients))
        died = [each for each in proxies if not each.is_alive()]
    finally:
        for each in proxies:
            each.stop()
        stable.stop()
        for each in director.all.values():
            each.stop()

    print(f"{options.seconds:.0f} s, seed {options.seed}; endpoints: "
          + ", ".join(f"{count} {what}" for what, count in director.happened.items()))
    print("| client of | requests | failed | refused | reset | cut | late | wrong | p50 ms | p99 | "
          "p99.9 | worst | lasting broken | reloads | handovers |")
    print("| " + "--- | " * 15)
    good = True
    for each in clients:
        print(each.row())
        if each.of.name.startswith("sennit") and (each.broken or each.of in died):
            good = False
            print(f"{each.of.name}: {each.broken} {each.of.log()[-4000:]}", file=sys.stderr)
    return good


def main():
    parser = argparse.ArgumentParser(description="Clients of relays whose backends keep changing.")
    parser.add_argument("build")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[],
                        help="of sennit-relay, sennit-relay-pid1, HAProxy, none")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    our_program(options.build, "tools/relay/sennit-relay", "build")
    enter()
    with tempfile.TemporaryDirectory() as folder:
        furnish(folder)
        try:
            good = asyncio.run(run(options, folder))
        finally:
            for path in FILES:
                subprocess.run(["umount", path], check=False)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
