#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libcups in hooked tasks: 500 clients of HTTP, whose connections are reset from time to time. It
sets errno, polls, reads, and looks at errno, whose address the compiler keeps. With
SENNIT_HOOKS_STAY=0 it reports another error than the reset, which shows that the test would
notice."""
import asyncio
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # pylint: disable=wrong-import-position

DELAY = 0.02
TASKS = servers.scaled(500)


async def answer(reader, writer):
    """Serves one connection, until the client ends it, or asks for a reset."""
    try:
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            await asyncio.sleep(DELAY)
            if path == b"/reset":
                # Closing it sends a reset.
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                break
            body = path.removeprefix(b"/reply/")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


def serve(loop, ports, started):
    async def begin():
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
        ports.append(server.sockets[0].getsockname()[1])
        started.set()

    asyncio.set_event_loop(loop)
    loop.run_until_complete(begin())
    loop.run_forever()


servers.program("cups")
loop, ports, started = asyncio.new_event_loop(), [], threading.Event()
threading.Thread(target=serve, args=(loop, ports, started), daemon=True).start()
if not started.wait(servers.PATIENCE):
    servers.fail("the server does not start")
where = str(ports[0])
# Far longer than the machine ever keeps a thread waiting.
servers.run_with_few_threads("cups", where, TASKS, SENNIT_HOOKS_STAY="600000")
servers.fails_if_tasks_move("cups", where, TASKS, "not reset")
loop.call_soon_threadsafe(loop.stop)
