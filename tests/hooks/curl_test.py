#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libcurl's easy interface in hooked tasks: 1,000 transfers of 200 ms at the same time, and some
with TLS."""
import asyncio
import os
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

DELAY = 0.2


async def answer(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(DELAY)
    body = b"answer to " + head.split()[1]
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                 % (len(body), body))
    await writer.drain()
    writer.close()


def serve(loop, context, ports, started):
    async def begin():
        for tls in (None, context):
            server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096, ssl=tls,
                                                **({"ssl_handshake_timeout": 200} if tls else {}))
            ports.append(server.sockets[0].getsockname()[1])
        started.set()

    asyncio.set_event_loop(loop)
    loop.run_until_complete(begin())
    loop.run_forever()


servers.program("curl")
with servers.folder() as scratch:
    subprocess.run([servers.tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-days", "1",
                    "-keyout", f"{scratch}/key", "-out", f"{scratch}/cert"],
                   check=True, capture_output=True, timeout=servers.PATIENCE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{scratch}/cert", f"{scratch}/key")
loop, ports, started = asyncio.new_event_loop(), [], threading.Event()
threading.Thread(target=serve, args=(loop, context, ports, started), daemon=True).start()
if not started.wait(servers.PATIENCE):
    servers.fail("the server does not start")
servers.run_with_few_threads("curl", f"http://127.0.0.1:{ports[0]}", servers.scaled(1000))
tasks = servers.scaled(100)
servers.run_with_few_threads("curl", f"https://127.0.0.1:{ports[1]}", tasks, tasks // 4)
# With a name, which libcurl looks up on a thread of its own for each transfer; these threads are
# libcurl's.
servers.run("curl", f"http://localhost:{ports[0]}", servers.scaled(50))
loop.call_soon_threadsafe(loop.stop)
