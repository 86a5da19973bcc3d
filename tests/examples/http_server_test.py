#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
examples/http-server with real clients: curl, sockets that send malformed, pipelined and slow
requests, PostgreSQL behind it, its limits, and its end after SIGTERM.
"""
import glob
import os
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_port  # noqa: E402

PROGRAM = os.path.join(os.environ["SENNIT_BUILD_DIR"], "examples/example-http-server")
LAUNCHER = os.environ.get("SENNIT_LAUNCHER", "").split()
PATIENCE = 120
# PostgreSQL does not run as root.
USER = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}


class Server:
    def __init__(self, *options, **more):
        self.process = subprocess.Popen(
            [*LAUNCHER, PROGRAM, "--listen", "127.0.0.1:0", *options], stdout=subprocess.PIPE,
            text=True, **more)
        self.terminated = False
        line = self.process.stdout.readline()
        if not line.startswith("listening on http") or ":" not in line:
            raise RuntimeError(f"did not start: {line!r}")
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends the server in order, so that sanitizers report what they have found."""
        self.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        if self.process.returncode != 0:
            raise AssertionError(f"the server has ended with {self.process.returncode}")

    def terminate(self):
        """Sends SIGTERM once, because after main() has returned, a second one would have its
        default action."""
        if not self.terminated:
            self.terminated = True
            self.process.terminate()

    def connect(self):
        return Client(self.port)

    def ask(self, *parts):
        """Sends the parts, and returns all bytes until the end of the connection."""
        with self.connect() as client:
            for part in parts:
                client.send(part)
            return client.rest()


class Client:
    def __init__(self, port, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, text):
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())

    def answer(self, body=True):
        """The status, the headers and the body of the next answer."""
        status = self.file.readline().split()
        headers = {}
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            headers[name.decode().lower()] = value.strip().decode()
        size = int(headers.get("content-length", 0)) if body else 0
        return int(status[1]) if status else None, headers, self.file.read(size)

    def rest(self):
        return self.file.read()


def get(path="/", more="", version="1.1"):
    return f"GET {path} HTTP/{version}\r\nHost: a\r\n{more}\r\n"


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


def eventually(check):
    until = time.monotonic() + PATIENCE
    while not check():
        if time.monotonic() > until:
            raise AssertionError(f"never: {check}")
        time.sleep(0.02)


def dump(server, said):
    """What the server reports about its tasks in the file of its stderr; it may be incomplete."""
    start = os.fstat(said.fileno()).st_size
    server.process.send_signal(signal.SIGQUIT)
    time.sleep(0.2)
    return os.pread(said.fileno(), 1 << 20, start).decode()


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--header-bytes", "2000", "--body-bytes", "100000")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_curl_gets_posts_and_asks_for_heads_on_one_connection(self):
        url = self.server.url
        with tempfile.NamedTemporaryFile() as body:
            # Large enough for curl to ask first whether it may send it.
            body.write(os.urandom(90000))
            body.flush()
            done = subprocess.run(
                ["curl", "-sS", "-v", url + "/", "-o", "-", "--next", "-sS", "-I", url + "/", "--next",
                 "-sS", "-H", "Expect: 100-continue", "--data-binary", "@" + body.name,
                 "-o", body.name + ".out", url + "/echo", "--next",
                 "-sS", "-H", "Transfer-Encoding: chunked", "--data-binary", "@" + body.name,
                 "-o", body.name + ".out2", url + "/echo"],
                capture_output=True, timeout=PATIENCE, check=True)
            for suffix in (".out", ".out2"):
                with open(body.name + suffix, "rb") as got, open(body.name, "rb") as sent:
                    self.assertEqual(got.read(), sent.read())
                os.unlink(body.name + suffix)
        self.assertIn(b"hello, world\n", done.stdout)
        self.assertIn(b"HTTP/1.1 200 OK", done.stdout)
        self.assertIn(b"Content-Length: 13", done.stdout)
        self.assertIn(b"Date: ", done.stdout)
        self.assertIn(b"100", done.stderr)
        self.assertIn(b"Re-using", done.stderr)

    def test_answers_pipelined_requests_in_order_and_together(self):
        with self.server.connect() as client:
            client.send("".join(f"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {len(str(i))}\r\n"
                                f"\r\n{i}" for i in range(1000)))
            for i in range(1000):
                self.assertEqual(client.answer()[::2], (200, str(i).encode()))

    def test_takes_a_request_byte_by_byte(self):
        with self.server.connect() as client:
            for each in ("POST http://a/echo?b HTTP/1.1\r\nhOsT: a\r\nTransfer-Encoding:  chunked \r\n\r\n"
                         "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: 1\r\nContent-Length: 9\r\n\r\n") * 2:
                client.send(each)
            for _ in range(2):
                self.assertEqual(client.answer()[::2], (200, b"abcde"))

    def test_keeps_connections_alive_as_the_version_says(self):
        self.assertIn(b"Connection: close", self.server.ask(get(version="1.0")))
        self.assertIn(b"Connection: close", self.server.ask("GET / HTTP/1.0\r\n\r\n"))
        self.assertIn(b"Connection: close", self.server.ask(get(more="Connection: close\r\n") + "XX"))
        with self.server.connect() as client:
            for _ in range(2):
                client.send(get(version="1.0", more="Connection: keep-alive\r\n"))
                status, headers, _ = client.answer()
                self.assertEqual((status, headers["connection"]), (200, "keep-alive"))

    def test_a_head_has_no_body(self):
        with self.server.connect() as client:
            client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + get("/nothing"))
            status, headers, _ = client.answer(body=False)
            self.assertEqual((status, headers["content-length"]), (200, "13"))
            self.assertEqual(client.answer()[0], 404)

    def test_says_which_methods_there_are(self):
        with self.server.connect() as client:
            client.send("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n" + get("/echo"))
            self.assertEqual([(each[0], each[1]["allow"]) for each in (client.answer(), client.answer())],
                             [(405, "GET, HEAD"), (405, "POST")])

    def test_an_upgrade_is_ignored(self):
        with self.server.connect() as client:
            client.send(get(more="Connection: upgrade\r\nUpgrade: websocket\r\n") + get())
            self.assertEqual([client.answer()[0] for _ in range(2)], [200, 200])

    def test_asks_for_a_body_only_when_it_takes_it(self):
        head = "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: "
        with self.server.connect() as client:
            client.send(head + "3\r\n\r\n")
            self.assertEqual(client.answer()[0], 100)
            client.send("abc")
            self.assertEqual(client.answer()[::2], (200, b"abc"))
        self.assertEqual(status_of(self.server.ask(head + "100001\r\n\r\n")), 413)

    def test_refuses_what_is_malformed_or_could_be_smuggled(self):
        post = "POST /echo HTTP/1.1\r\nHost: a\r\n"
        smuggled = "0\r\n\r\n" + get("/smuggled")
        for wrong, status in (
                ("\x16\x03\x01 this is TLS\r\n\r\n", 400),
                ("GET /\r\n\r\n", None),
                ("GET / HTTP/1.1\r\n\r\n", 400),
                ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
                ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
                ("GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n", None),
                ("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 400),
                ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rContent-Length: 44\r\n\r\n", 400),
                ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", None),
                ("GET / HTTP/7.9\r\nHost: a\r\n\r\n", None),
                ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
                (post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled, 400),
                (post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + smuggled, 400),
                (post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", 400),
                (post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400),
                (post + "Content-Length: 5, 5\r\n\r\nabcde", 400),
                (post + "Content-Length: +5\r\n\r\nabcde", 400),
                (post + "Content-Length: -1\r\n\r\n", 400),
                (post + "Content-Length: 99999999999999999999\r\n\r\n", 400),
                (post + "Transfer-Encoding: xchunked\r\n\r\n" + smuggled, None),
                (post + "Transfer-Encoding: chunked, identity\r\n\r\n" + smuggled, None),
                (post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + smuggled, 501),
                (post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled, None),
                ("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled, 400),
                (post + "Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n", 400),
                (post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400),
                (post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 400),
                (post + "Transfer-Encoding: chunked\r\n\r\n1" + "0" * 16 + "\r\n", 400),
                (post + "Expect: money\r\nContent-Length: 1\r\n\r\na", 417),
                ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501)):
            with self.subTest(wrong=wrong):
                got = self.server.ask(get() + wrong + get() * 3)
                first, _, second = got.partition(b"hello, world\n")
                self.assertEqual(status_of(first), 200)
                if status is None:
                    self.assertIn(status_of(second), (400, 501, 505))
                else:
                    self.assertEqual(status_of(second), status)
                # This is the last answer.
                self.assertEqual(second.count(b"HTTP/1.1 "), 1, got)
                self.assertIn(b"Connection: close", second)

    def test_refuses_what_exceeds_the_limits(self):
        post = "POST /echo HTTP/1.1\r\nHost: a\r\n"
        for wrong, status in (
                (get("/" + "x" * 3000), 431),
                (get(more="X: " + "x" * 3000 + "\r\n"), 431),
                (get(more="X: y\r\n" * 1000), 431),
                ("GET / HTTP/1.1\r\nHost: " + " " * 100000, 431),
                ("\r\n" * 100000, 431),
                (post + "Content-Length: 100001\r\n\r\n", 413),
                (post + "Transfer-Encoding: chunked\r\n\r\n" + ("1000\r\n" + "x" * 4096 + "\r\n") * 30, 413),
                (post + "Transfer-Encoding: chunked\r\n\r\n" + "1;" + "x" * 100000, 400),
                (post + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + "X: y\r\n" * 20000, 400)):
            with self.subTest(wrong=wrong[:80]):
                self.assertEqual(status_of(self.server.ask(wrong)), status)
        # Chunks of one byte, up to the limit, are fine.
        got = self.server.ask(post + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                              + "1\r\nx\r\n" * 100000 + "0\r\n\r\n")
        self.assertEqual(status_of(got), 200)
        self.assertTrue(got.endswith(b"x" * 100000))

    def test_survives_clients_that_reset_or_close_a_half(self):
        post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc"
        for i in range(200):
            with self.server.connect() as client:
                try:
                    client.send((post, get() * 500, "GET / HTTP/1.1\r\nHo", os.urandom(3000))[i % 4])
                    if i % 8 < 4:
                        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                 struct.pack("ii", 1, 0))
                    else:
                        client.socket.shutdown(socket.SHUT_WR)
                        client.rest()
                except (BrokenPipeError, ConnectionResetError):
                    pass
        self.assertEqual(status_of(self.server.ask(get(more="Connection: close\r\n"))), 200)

    @unittest.skipUnless(shutil.which("wrk"), "there is no wrk")
    def test_serves_a_load_without_an_error(self):
        done = subprocess.run(["wrk", "-t1", "-c100", "-d1", self.server.url], capture_output=True,
                              text=True, timeout=PATIENCE, check=True)
        self.assertNotIn("Non-2xx", done.stdout)
        self.assertNotIn("Socket errors", done.stdout)


class Limits(unittest.TestCase):
    def test_slow_clients_are_told(self):
        with Server("--header-time", "0.2", "--body-time", "0.2") as server:
            self.assertEqual(status_of(server.ask("GET / HTTP/1.1\r\nHost:")), 408)
            got = server.ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
            self.assertEqual(status_of(got), 408)
            # However often bytes come.
            with server.connect() as client:
                client.send("GET / HTTP/1.1\r\n")
                try:
                    while True:
                        client.send("X: y\r\n")
                        client.socket.settimeout(0.05)
                        try:
                            client.socket.recv(1, socket.MSG_PEEK)
                            break
                        except TimeoutError:
                            client.socket.settimeout(PATIENCE)
                    client.socket.settimeout(PATIENCE)
                    self.assertEqual(client.answer()[0], 408)
                except (BrokenPipeError, ConnectionResetError):
                    pass

    def test_each_head_has_the_time_of_a_head(self):
        """Requests that arrive in a row, in halves, do not share that time."""
        def served_for_longer_than_one_head():
            with server.connect() as client:
                half = len(get()) // 2
                client.send(get()[:half])
                until = time.monotonic() + 3
                while time.monotonic() < until:
                    client.send(get()[half:] + get()[:half])
                    if client.answer()[0] != 200:
                        return False  # on a loaded machine a single one may have taken too long
                    time.sleep(0.05)
                return True
        with Server("--header-time", "2") as server:
            eventually(served_for_longer_than_one_head)

    def test_idle_connections_end(self):
        with Server("--idle-time", "0.2") as server:
            self.assertEqual(server.ask(), b"")
            # On a loaded machine the request may come too late.
            eventually(lambda: self.ask_or_nothing(server).endswith(b"hello, world\n"))

    def test_a_quiet_connection_leaves_its_stack_and_is_served_again(self):
        with tempfile.TemporaryFile() as said, Server(stderr=said) as server, server.connect() as client:
            self.goes_quiet_and_back(server, said, client)

    def goes_quiet_and_back(self, server, said, client):
        """Dumps show which tasks have not begun."""
        for _ in range(2):
            client.send(get())
            self.assertEqual(client.answer()[0], 200)
            eventually(lambda: "waits for a descriptor to be readable, to begin" in dump(server, said))
        # For the rest of a request that has begun to arrive, the task waits as usual, as it does
        # for the listener.
        client.send(get()[:5])
        eventually(lambda: dump(server, said).count("waits for a descriptor to be readable, for") == 2)
        client.send(get()[5:])
        self.assertEqual(client.answer()[0], 200)
        eventually(lambda: "waits for a descriptor to be readable, to begin" in dump(server, said))
        server.terminate()
        self.assertEqual(client.rest(), b"")

    def test_quiet_connections_end_and_count_until_then(self):
        with Server("--idle-time", "4", "--connections", "1") as server, server.connect() as client:
            client.send(get())
            self.assertEqual(client.answer()[0], 200)
            began = time.monotonic()
            time.sleep(1.5)
            if time.monotonic() - began < 3:  # on a loaded machine it may have ended
                self.assertEqual(status_of(server.ask(get())), 503)
            self.assertEqual(client.rest(), b"")
            self.assertGreater(time.monotonic() - began, 3.5)
            eventually(lambda: self.ask_or_nothing(server).endswith(b"hello, world\n"))

    @staticmethod
    def ask_or_nothing(server):
        try:
            return server.ask(get())
        except (BrokenPipeError, ConnectionResetError):
            return b""

    def test_a_client_that_takes_no_answers_is_cut(self):
        with Server("--write-time", "0.2") as server, server.connect() as client:
            body = "x" * 60000
            request = f"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            with self.assertRaises((BrokenPipeError, ConnectionResetError)):
                for _ in range(10000):
                    client.send(request)

    def test_too_many_connections_get_503(self):
        with Server("--connections", "2") as server:
            with server.connect() as one, server.connect() as other:
                for each in (one, other):
                    each.send(get())
                    self.assertEqual(each.answer()[0], 200)
                self.assertEqual(status_of(server.ask(get())), 503)
            # There is room when they are gone.
            eventually(lambda: status_of(server.ask(get(more="Connection: close\r\n"))) == 200)

    def test_waits_when_there_are_no_descriptors(self):
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        with Server(preexec_fn=few, stderr=subprocess.PIPE) as server:
            said = server.process.stderr
            with said:
                clients = [server.connect() for _ in range(60)]
                self.assertEqual(said.readline(), "http-server: out of descriptors or memory\n")
                for each in clients:
                    each.send(get(more="Connection: close\r\n"))
                for each in clients:
                    self.assertEqual(status_of(each.rest()), 200)
                    each.__exit__()
                self.assertEqual(said.readline(), "http-server: accepting again\n")
                server.terminate()
                # No more lines than these, even if descriptors run short again in between.
                lines = said.read().splitlines()
                self.assertEqual(lines, ["http-server: out of descriptors or memory",
                                         "http-server: accepting again"] * (len(lines) // 2))


class Shutdown(unittest.TestCase):
    @staticmethod
    def begin(client, line):
        """Sends the head of a request; the server then waits for its body of one byte."""
        client.send(f"{line} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        return client.answer()[0]

    def test_requests_under_way_are_finished(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server("--grace", str(PATIENCE)) as server, server.connect() as idle, \
                    server.connect() as waits, server.connect() as sends:
                idle.send(get())
                self.assertEqual(idle.answer()[0], 200)
                self.assertEqual(self.begin(sends, "POST /echo"), 100)
                self.assertEqual(self.begin(waits, "GET /wait?ms=500"), 100)
                waits.send("x")
                server.process.send_signal(number)
                self.assertEqual(server.process.stdout.readline(), "shutting down\n")
                self.assertEqual(idle.rest(), b"")
                with self.assertRaises(ConnectionRefusedError):
                    server.connect()
                sends.send("y")
                status, headers, body = sends.answer()
                self.assertEqual((status, headers["connection"], body), (200, "close", b"y"))
                got = waits.rest()
                self.assertTrue(got.endswith(b"Connection: close\r\n\r\nwaited\n"), got)
                self.assertEqual(server.process.stdout.readline(), "all connections had ended\n")
                self.assertEqual(server.process.wait(PATIENCE), 0)

    def test_others_are_cut(self):
        with Server("--grace", "0.2") as server, server.connect() as waits, server.connect() as slow:
            self.assertEqual(self.begin(slow, "POST /echo"), 100)
            self.assertEqual(self.begin(waits, "GET /wait?ms=3600000"), 100)
            waits.send("x")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.stdout.readline(), "shutting down\n")
            waits.rest()
            slow.rest()
            self.assertEqual(server.process.stdout.readline(), "some connections were cut\n")
            self.assertEqual(server.process.wait(PATIENCE), 0)


class Database(unittest.TestCase):
    @staticmethod
    def tool(name):
        """The newest, instead of Debian's wrappers."""
        return (sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name)])[-1]

    def start(self, data, port):
        """PostgreSQL, or nothing if the port is taken."""
        postgres = subprocess.Popen(
            [self.tool("postgres"), "-D", data, "-p", str(port), "-h", "127.0.0.1",
             *("-c", "unix_socket_directories=", "-c", "fsync=off")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
            **USER)
        while postgres.poll() is None:
            if subprocess.run([self.tool("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)],
                              check=False).returncode == 0:
                return postgres
            time.sleep(0.1)
        return None

    def test_asks_postgresql_over_few_connections(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            os.chmod(folder, 0o755)
            data = folder + "/data"
            os.mkdir(data, 0o700)
            if USER:
                shutil.chown(data, "postgres")
            subprocess.run([self.tool("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-N",
                            "--locale=C"],
                           cwd="/", check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE, **USER)
            postgres = None
            while not postgres:
                port = free_port()
                postgres = self.start(data, port)
            try:
                where = f"host=127.0.0.1 port={port} user=postgres"
                with Server("--db", where, "--db-connections", "4") as server:
                    self.check(server)
                    postgres.send_signal(signal.SIGINT)
                    postgres.wait()
                    self.assertEqual(self.square(server, 1)[0], 500)
                    postgres = self.start(data, port)
                    self.assertEqual(self.square(server, 3), (200, b"9\n"))
            finally:
                postgres.send_signal(signal.SIGINT)
                postgres.wait()

    def square(self, server, n):
        with server.connect() as client:
            client.send(get(f"/db?n={n}"))
            return client.answer()[::2]

    def check(self, server):
        self.assertEqual(self.square(server, 7), (200, b"49\n"))
        for wrong in ("x", "", "99999999999999999999", "4294967296"):
            self.assertEqual(self.square(server, wrong)[0], 400)
        wrong = []

        def ask(number):
            with server.connect() as client:
                for i in range(20):
                    client.send(get(f"/db?n={number + i}"))
                    if (got := client.answer()[::2]) != (200, b"%d\n" % (number + i) ** 2):
                        wrong.append(got)
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(30)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(wrong, [])


class Tls(unittest.TestCase):
    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
    def test_curl_comes_with_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = folder + "/cert.pem", folder + "/key.pem"
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-days", "2", "-subj", "/CN=a", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                 "-out", cert], check=True, capture_output=True, timeout=PATIENCE)
            done = Options().run_with("--tls-cert", folder + "/none", "--tls-key", key)
            self.assertEqual(done.returncode, 1)
            if "there is no libsennit-tls" in done.stderr:
                self.skipTest("there is no libsennit-tls")
            self.assertIn("none", done.stderr)
            with Server("--tls-cert", cert, "--tls-key", key) as server:
                self.assertTrue(server.url.startswith("https://"))
                done = subprocess.run(
                    ["curl", "-sS", "--cacert", cert, server.url + "/", server.url + "/wait?ms=1"],
                    capture_output=True, text=True, timeout=PATIENCE, check=True)
                self.assertEqual(done.stdout, "hello, world\nwaited\n")
                with server.connect() as client:  # without TLS
                    client.send(get() * 10)
                    self.assertNotIn(b"hello", client.rest())
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(PATIENCE), 0)
            with tempfile.TemporaryFile() as said, \
                    Server("--tls-cert", cert, "--tls-key", key, stderr=said) as server:
                context = ssl.create_default_context(cafile=cert)
                with Client(server.port, context) as client:
                    Limits.goes_quiet_and_back(self, server, said, client)


class Options(unittest.TestCase):
    def run_with(self, *options):
        return subprocess.run([*LAUNCHER, PROGRAM, *options], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)

    def test_help_and_mistakes(self):
        done = self.run_with("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--listen", done.stdout)
        for wrong in (["--listen"], ["--grace", "x"], ["--connections", "-1"], ["--nothing", "1"], ["x"]):
            self.assertEqual(self.run_with(*wrong).returncode, 2, wrong)
        done = self.run_with("--listen", "192.0.2.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("192.0.2.1:1", done.stderr)


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        print("skipped: example-http-server was not built; it needs node-llhttp and libpq-dev")
        sys.exit(77)
    unittest.main()
