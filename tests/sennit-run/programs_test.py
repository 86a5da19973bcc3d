#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""microsocks and tinyproxy of the distribution under sennit-run: they create a thread for each
connection, and were not compiled for sennit. Skipped where they are not installed.
"""
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

RUN = Path(os.environ["SENNIT_BUILD_DIR"]) / "tools/run/sennit-run"
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PROCESSORS = 2
FEW_THREADS = PROCESSORS + 8
CONNECTIONS = 300
PATIENCE = 200


class Target(threading.Thread):
    """The server that the clients want to reach: sends back what comes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                threading.Thread(target=self.serve, args=self.listener.accept()[:1],
                                 daemon=True).start()
            except OSError:
                return

    @staticmethod
    def serve(connection):
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                connection.sendall(data)


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise AssertionError(f"the connection ends after {data!r}")
        data += more
    return data


def by_socks(connection, port):
    connection.sendall(b"\5\1\0")
    assert read_exactly(connection, 2) == b"\5\0"
    connection.sendall(b"\5\1\0\3\x09localhost" + struct.pack(">H", port))
    assert read_exactly(connection, 10)[:2] == b"\5\0"


def by_connect(connection, port):
    connection.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.0\r\n\r\n" % port)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += read_exactly(connection, 1)
    assert b" 200 " in answer.splitlines()[0], answer


class Programs(unittest.TestCase):
    def start(self, name, *words):
        path = shutil.which(name, path=PATH)
        if not path:
            self.skipTest(f"{name} is not installed")
        checked = subprocess.run([RUN, "--check", path], capture_output=True, text=True,
                                 check=False)
        if "another architecture" in checked.stderr:
            self.skipTest(f"{name} is not installed for this architecture")
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        process = subprocess.Popen([RUN, "--processors", str(PROCESSORS), path, *words],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def end():
            process.kill()
            process.wait()
        self.addCleanup(end)
        return process

    def connect(self, process, port):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
                self.addCleanup(connection.close)
                return connection
            except ConnectionRefusedError:
                self.assertIsNone(process.poll(), "it has ended")
                self.assertLess(time.monotonic(), end, "it does not listen")
                time.sleep(0.05)

    def reserve_port(self):
        """A port for a program that does not say which one the system has chosen. Until the end of
        the test the system gives it to nobody else, neither to servers nor to clients. The program
        gets it because it sets SO_REUSEADDR, too, and this socket does not listen."""
        reserved = socket.socket()
        self.addCleanup(reserved.close)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        return reserved.getsockname()[1]

    def serves(self, process, port, ask):
        target = Target()
        self.addCleanup(target.listener.close)
        clients = []
        for i in range(CONNECTIONS):
            clients.append(self.connect(process, port))
            ask(clients[-1], target.port)
            clients[-1].sendall(b"%04d" % i)
            self.assertEqual(read_exactly(clients[-1], 4), b"%04d" % i)
        self.assertLessEqual(len(os.listdir(f"/proc/{process.pid}/task")), FEW_THREADS)
        for client in clients:
            client.sendall(b"again")
        for client in clients:
            self.assertEqual(read_exactly(client, 5), b"again")
            client.close()

    def end_by_a_signal(self, process):
        """A thread of the runtime that takes another signal at the same moment, such as SIGSYS in
        the checked build, takes this one, too, and main()'s poll() continues. So it is sent until
        the program ends."""
        end = time.monotonic() + PATIENCE
        while process.poll() is None:
            self.assertLess(time.monotonic(), end, "it does not end")
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        self.assertEqual(process.returncode, 0)

    def test_microsocks_serves_many_with_few_threads(self):
        port = self.reserve_port()
        process = self.start("microsocks", "-i", "127.0.0.1", "-p", str(port))
        self.serves(process, port, by_socks)

    def test_tinyproxy_serves_many_with_few_threads_and_ends_by_a_signal(self):
        port = self.reserve_port()
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(f"Port {port}\nListen 127.0.0.1\nMaxClients {2 * CONNECTIONS}\n"
                       "Timeout 600\nLogLevel Critical\n")
            file.flush()
            process = self.start("tinyproxy", "-d", "-c", file.name)
            self.serves(process, port, by_connect)
        self.end_by_a_signal(process)


if __name__ == "__main__":
    done = unittest.main(exit=False).result
    if not done.wasSuccessful():
        sys.exit(1)
    for _, reason in done.skipped:
        print(f"skipped: {reason}")
    sys.exit(77 if len(done.skipped) == done.testsRun else 0)
