#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Makes PROXY headers independently of the relay's code, for proxy_header_test.cc. Prints a line for
each,

    HEX TAB SIZE TAB SOURCE TAB DESTINATION TAB AUTHORITY TAB UNIQUE_ID_HEX TAB CHECKED

where SIZE is the header's size, or "bad". In HEX, bytes of the connection follow the header.
Argument: a seed.
"""
import ipaddress
import random
import socket
import struct
import sys

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def address(rng, version):
    if version == 4:
        return ipaddress.IPv4Address(rng.getrandbits(32))
    bits = rng.getrandbits(128)
    # Addresses with runs of zeroes, which the text form leaves out.
    for _ in range(rng.randrange(4)):
        bits &= ~(0xFFFF << (16 * rng.randrange(8)))
    return ipaddress.IPv6Address(bits)


def text(ip, port):
    if ip.version == 4:
        return f"{ip}:{port}"
    # The C library's spelling, which differs for addresses that embed an IPv4 one.
    return f"[{socket.inet_ntop(socket.AF_INET6, ip.packed)}]:{port}"


def tlv(kind, value):
    return struct.pack("!BH", kind, len(value)) + value


def show(header, size, source="", destination="", authority="", unique_id=b"", checked=0):
    rest = b"GET / HTTP/1.0\r\n"
    print(
        (header + rest).hex(),
        size,
        source,
        destination,
        authority,
        unique_id.hex(),
        checked,
        sep="\t",
    )


def version1(rng):
    version = rng.choice((4, 6))
    a, b = address(rng, version), address(rng, version)
    ports = rng.randrange(65536), rng.randrange(65536)
    spelled = (a.exploded, b.exploded) if rng.random() < 0.3 else (str(a), str(b))
    line = f"PROXY TCP{version} {spelled[0]} {spelled[1]} {ports[0]} {ports[1]}\r\n".encode()
    show(line, len(line), text(a, ports[0]), text(b, ports[1]))
    # Headers that the specification forbids.
    wrong = rng.choice(
        (
            line.replace(b"\r\n", b"\n"),
            line.replace(b" ", b"  ", 1),
            line.replace(b"TCP", b"UDP"),
            line.replace(b"TCP", b"tcp"),
            line.replace(b"\r\n", b" \r\n"),
            line.replace(b"\r\n", b"00000\r\n"),
            b"PROXY TCP4 1.2.3.4 1.2.3 1 2\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 02\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 -2\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
            b"PROXY TCP4 ::1 ::1 1 2\r\n",
            b"PROXY TCP6 ::1 1.2.3.4 1 2\r\n",
            b"PROXY TCP4  1.2.3.4 1 2\r\n",
            b"PROXY TCP4 1.2.3.4  1 2\r\n",
            b"PROXY \r\n",
            b"PROXY\r\n",
            b"PROXY UNKNOWN" + b"x" * 200 + b"\r\n",
            b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n",
        )
    )
    show(wrong, "bad")


def version2(rng):
    version = rng.choice((4, 6))
    a, b = address(rng, version), address(rng, version)
    ports = rng.randrange(65536), rng.randrange(65536)
    body = a.packed + b.packed + struct.pack("!HH", *ports)
    authority = rng.choice(("", "host.example", "x" * 255))
    unique_id = rng.randbytes(rng.choice((0, 1, 128)))
    records = [tlv(4, bytes(rng.randrange(40))), tlv(0xE0, rng.randbytes(9))]
    if authority:
        records.append(tlv(2, authority.encode()))
    if unique_id:
        records.append(tlv(5, unique_id))
    if rng.random() < 0.5:
        records.append(tlv(0x20, b"\x01\0\0\0\0" + tlv(0x21, b"TLSv1.3")))
    checked = rng.random() < 0.5
    if checked:
        records.append(tlv(3, bytes(4)))
    rng.shuffle(records)
    body += b"".join(records)
    family = 0x11 if version == 4 else 0x21
    header = SIGNATURE + struct.pack("!BBH", 0x21, family, len(body)) + body
    if checked:
        at = header.index(tlv(3, bytes(4)), 16 + len(a.packed) * 2 + 4) + 3
        header = header[:at] + struct.pack("!I", crc32c(header)) + header[at + 4 :]
    show(
        header,
        len(header),
        text(a, ports[0]),
        text(b, ports[1]),
        authority,
        unique_id,
        int(checked),
    )
    if checked:
        flipped = bytearray(header)
        # Changes a byte of the addresses, so that only the checksum is wrong.
        flipped[16 + rng.randrange(len(a.packed) * 2 + 4)] ^= 1 << rng.randrange(8)
        show(bytes(flipped), "bad")
    wrong = rng.choice(
        (
            header[:12] + b"\x11" + header[13:],
            header[:12] + b"\x22" + header[13:],
            header[:13] + b"\x41" + header[14:],
            header[:13] + b"\x13" + header[14:],
            header[:14] + struct.pack("!H", len(a.packed) * 2 + 3) + header[16:],
            header[:14] + b"\xff\xff" + header[16:],
            header[:14] + struct.pack("!H", len(body) + 2) + header[16:] + b"\x04\0",
            header[:14] + struct.pack("!H", len(body) + 3) + header[16:] + b"\x04\0\x01",
            header[:14] + struct.pack("!H", len(body) + 6) + header[16:] + tlv(3, b"abc"),
            header[:14] + struct.pack("!H", len(body) + 7) + header[16:] + tlv(0x20, b"abcd"),
            header[:11] + b"\x0b" + header[12:],
        )
    )
    show(wrong, "bad")


def fixed():
    line = b"PROXY UNKNOWN\r\n"
    show(line, len(line))
    line = b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n"
    show(line, len(line))
    line = b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n"
    assert len(line) == 107
    show(line, len(line))
    for command, family, body in (
        (0x20, 0x00, b""),
        (0x20, 0x11, bytes(12)),
        (0x20, 0x11, b"less"),
        (0x20, 0x00, b"whatever this may be"),
        (0x21, 0x00, b""),
        (0x21, 0x00, b"whatever"),
        (0x21, 0x10, bytes(3)),
    ):
        header = SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body
        show(header, len(header))
    body = b"/run/a.sock".ljust(108, b"\0") + b"\0abstract".ljust(108, b"\0")
    header = SIGNATURE + struct.pack("!BBH", 0x21, 0x31, len(body)) + body
    show(header, len(header), "unix:/run/a.sock", "unix:?abstract")
    # A header that is full to the last byte.
    body = b"s" * 108 + b"d" * 108
    header = SIGNATURE + struct.pack("!BBH", 0x21, 0x31, len(body)) + body
    show(header, len(header), "unix:" + "s" * 108, "unix:" + "d" * 108)
    for junk in b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"PROXYTCP4", b"\r\n\r\nx":
        show(junk, "bad")


def main():
    rng = random.Random(int(sys.argv[1]))
    fixed()
    for _ in range(300):
        version1(rng)
        version2(rng)


main()
