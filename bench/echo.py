"""The least a JSON-RPC process on stdio can do with asyncio and orjson: answer with the params.

`{"send": n}` as params is answered with a string of n bytes instead.
"""

from __future__ import annotations

import asyncio
import sys

import orjson


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    writer, _ = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    texts: dict[int, str] = {}
    while True:
        try:
            header = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        message = orjson.loads(await reader.readexactly(int(header[16:-4])))
        result = message["params"]
        if size := result.get("send"):
            result = texts.setdefault(size, "x" * size)
        body = orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


if __name__ == "__main__":
    asyncio.run(main())
