# SPDX-License-Identifier: MIT
"""
What the tests of the relay's TLS share: an authority and certificates, made by openssl when a test
begins, and peers, plain or with TLS, that end a stream in every possible way: in good order, by a
reset, and, for TLS, by closing the socket without TLS's own end.
"""
import os
import select
import socket
import ssl
import struct
import subprocess
import time

from traffic import PATIENCE, own_host


class Authority:
    """Signs certificates in a folder: NAME.pem and NAME.key, and NAME.both with the two."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        self.pem = f"{folder}/{name}.pem"
        self.openssl("req", "-x509", *self.key(f"{folder}/{name}.key"), "-days", "40", "-subj",
                     f"/CN={name}", "-out", self.pem, "-addext",
                     "basicConstraints=critical,CA:TRUE", "-addext",
                     "keyUsage=critical,keyCertSign,cRLSign")

    @staticmethod
    def key(path):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path)

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=PATIENCE,
                       cwd=self.folder)

    def sign(self, name, names, days=40, into=None):
        """names: such as "DNS:a.test". into: the files' name, if another."""
        base = f"{self.folder}/{into or name}"
        with open(base + ".ext", "w") as file:
            file.write(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
        self.openssl("req", *self.key(base + ".key"), "-subj", f"/CN={name}", "-out", base + ".csr")
        self.openssl("x509", "-req", "-in", base + ".csr", "-CA", self.pem, "-CAkey",
                     f"{self.folder}/{self.name}.key", "-set_serial", str(time.monotonic_ns()),
                     "-days", str(days), "-extfile", base + ".ext", "-out", base + ".pem")
        with open(base + ".both", "w") as both:
            for part in ".pem", ".key":
                with open(base + part) as file:
                    both.write(file.read())
        return base

    def revoke(self, *names, terms=(), extensions=""):
        """Writes a revocation list with these. terms: such as ("-crldays", "1"). Returns its
        file."""
        index, crl = f"{self.folder}/{self.name}.index", f"{self.folder}/{self.name}.crl"
        config = f"{self.folder}/{self.name}.cnf"
        open(index, "w").close()
        with open(config, "w") as file:
            file.write(f"[ca]\ndefault_ca=c\n[c]\ndatabase={index}\ndefault_md=sha256\n"
                       f"default_crl_days=30\n[e]\n{extensions}\n")
        signer = ("-config", config, "-cert", self.pem, "-keyfile",
                  f"{self.folder}/{self.name}.key")
        for name in names:
            self.openssl("ca", *signer, "-revoke", f"{self.folder}/{name}.pem")
        if extensions:
            terms = (*terms, "-crlexts", "e")
        self.openssl("ca", *signer, "-gencrl", *terms, "-out", crl)
        return crl

    def client(self, certificate=None, alpn=(), version=None):
        """A context that trusts this authority."""
        context = ssl.create_default_context(cafile=self.pem)
        if certificate:
            context.load_cert_chain(certificate)
        if alpn:
            context.set_alpn_protocols(alpn)
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def server(self, certificate, alpn=(), asks=None):
        """asks: the authority of the clients' certificates, which are then required."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if alpn:
            context.set_alpn_protocols(alpn)
        if asks:
            context.load_verify_locations(asks)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


class Cut(Exception):
    """The socket's stream has ended, and TLS's has not."""


class Peer:
    """One end of a connection. TLS begins with secure(). Only for one thread."""

    def __init__(self, sock):
        self.sock = sock
        self.tls = None
        self.outgoing = b""
        self.early = b""
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)

    def secure(self, context, server=False, name=None, session=None):
        self.incoming, self.from_tls = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.from_tls, server_side=server,
                                    server_hostname=name, session=session)
        self.complete(lambda: self.tls.do_handshake() or True)
        return self

    def flush(self):
        """Sends as much as there is room for. Returns True when nothing is left."""
        if self.tls:
            self.outgoing += self.from_tls.read()
        try:
            while self.outgoing:
                self.outgoing = self.outgoing[self.sock.send(self.outgoing):]
        except BlockingIOError:
            return False
        return True

    def take(self):
        """Reads from the socket. Returns False if there was nothing. For TLS only."""
        try:
            data = self.sock.recv(1 << 16)
        except BlockingIOError:
            return False
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()
        return True

    def complete(self, step):
        """Repeats a step of TLS until it does not want more bytes."""
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                done = None
            except ssl.SSLError:
                self.flush()  # the alert
                raise
            self.wait_to_flush()
            if done is not None:
                return done
            if not self.take():
                self.wait(read=True)

    def wait(self, read=False, write=False):
        if not any(select.select([self.sock] if read else [], [self.sock] if write else [], [],
                                 PATIENCE)):
            raise TimeoutError("nothing came from the relay")

    def wait_to_flush(self):
        while not self.flush():
            self.wait(write=True)

    def write(self, data):
        if self.tls:
            while data:
                data = data[self.tls.write(data):]
        else:
            self.outgoing += data

    def send(self, data):
        self.write(data)
        self.wait_to_flush()

    def try_read(self):
        """Some bytes; b"" at the end of the stream; None if nothing has come. Raises Cut."""
        if self.early:
            data, self.early = self.early, b""
            return data
        if not self.tls:
            try:
                return self.sock.recv(1 << 16)
            except BlockingIOError:
                return None
        while True:
            try:
                return self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                if not self.take():
                    return None
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLEOFError as error:
                raise Cut from error

    def read(self):
        while True:
            data = self.try_read()
            if data is not None:
                return data
            self.wait(read=True)

    def read_all(self):
        """Reads until the stream ends in good order."""
        data = b""
        while more := self.read():
            data += more
        return data

    def begin_end(self):
        """Prepares TLS's own end to be sent. After that the socket's stream can be ended in good
        order."""
        if not self.tls:
            return
        # unwrap() continues by waiting for the other's end, and treats data as an error, so there
        # must be no data. When it has sent this end, it wants to read.
        try:
            while data := self.tls.read(1 << 16):
                self.early += data
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass

    def end(self):
        """Ends this direction in good order."""
        self.begin_end()
        self.cut()

    def cut(self):
        """Ends only the socket's stream."""
        self.wait_to_flush()
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Door:
    """A listening socket for backends, to which no other process connects by mistake. On 127.0.0.1
    a check by another test's relay might come, for a backend that had the port before."""

    def __init__(self):
        self.sock = socket.create_server((own_host(), 0), backlog=256)
        self.sock.settimeout(PATIENCE)
        self.address = "%s:%d" % self.sock.getsockname()

    def accept(self):
        return Peer(self.sock.accept()[0])

    def close(self):
        self.sock.close()


def connect(address):
    host, _, port = address.rpartition(":")
    return Peer(socket.create_connection((host, int(port)), timeout=PATIENCE))


def replace(path, source):
    """Replaces a file by the content of another one in a single step, as renewals do."""
    with open(source) as file:
        text = file.read()
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)
