#!/usr/bin/env python3
"""A web server of known capacity: so many slots, each busy for a fixed time with a request, first come first served.

    known_server.py SLOTS SECONDS

It serves SLOTS / SECONDS requests a second at most and uses next to no CPU: a reply is due at a time that is computed
when its request comes. Prints its port, then serves until it is ended.
"""

import asyncio
import heapq
import sys

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


async def main(slots, seconds):
    loop = asyncio.get_running_loop()
    # When each slot is free again.
    free = [0.0] * slots
    heapq.heapify(free)

    async def serve(reader, writer):
        try:
            await reader.readuntil(b"\r\n\r\n")
            due = max(loop.time(), heapq.heappop(free)) + seconds
            heapq.heappush(free, due)
            await asyncio.sleep(due - loop.time())
            writer.write(REPLY)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
