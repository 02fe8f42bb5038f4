"""A server inside the test's own process, at the end of two real pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from typing import Any

from server.framing import Fault, Framing
from server.process import TurntreeServer
from tests.client import PATIENCE


class Peer:
    """The client's ends of the pipes."""

    def __init__(self, feed: int, output: int) -> None:
        self._feed = feed
        self._output = output
        self._framing = Framing()
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def send(self, *frames: bytes) -> None:
        """Write frames that together fit into a pipe."""
        os.write(self._feed, b"".join(frames))

    def start_reading(self) -> None:
        asyncio.get_running_loop().add_reader(self._output, self._readable)

    async def message(self) -> dict[str, Any]:
        """The next message of the server, but for news of changed sessions."""
        async with asyncio.timeout(PATIENCE):
            while (message := await self._messages.get()).get("method") == (
                "turntree/didChangeSessions"
            ):
                pass
        return message

    async def reply(self, request_id: Any) -> dict[str, Any]:
        """The next message, which has to be the reply to `request_id`."""
        message = await self.message()
        assert message.get("id") == request_id, message
        return message

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._output)
        os.close(self._output)
        os.close(self._feed)

    def _readable(self) -> None:
        data = os.read(self._output, 1 << 20)
        if not data:
            asyncio.get_running_loop().remove_reader(self._output)
        for body in self._framing.feed(data):
            assert not isinstance(body, Fault)
            self._messages.put_nowait(json.loads(body))


@contextlib.asynccontextmanager
async def served(*, reading: bool = True) -> AsyncIterator[tuple[TurntreeServer, Peer]]:
    """A running server and its client, which reads from the start unless told otherwise."""
    source, feed = os.pipe()
    output, target = os.pipe()
    server = TurntreeServer(source, target, "debug")
    peer = Peer(feed, output)
    if reading:
        peer.start_reading()
    running = asyncio.create_task(server.run())
    await asyncio.sleep(0)
    try:
        yield server, peer
    finally:
        peer.stop()
        await running
        os.close(source)
        os.close(target)
