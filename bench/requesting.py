"""Requests to a running server, against a process that only echoes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from bench.client import Client
from bench.generate import Writer
from bench.measure import Row, Timed, compared, many
from bench.world import ECHO, World

# Many short turns, so that both sides see the same moods of the machine.
_BATCH = 40
_FEW = 5
_OFTEN = 6
_ECHO = "asyncio + orjson echo"


def rows(world: World) -> Iterator[Row]:
    place = world.place("requests")
    heavy = Writer(place.config).heavy_turn(place.folder("heavy"))
    echo = Client(ECHO, place.env)
    try:
        with place.server() as server:
            for _ in range(3):
                fork = {"session_id": heavy.wire_id, "new_session_id": str(uuid.uuid4())}
                server.call("fork_session", fork)
            yield compared(
                "request without I/O (`allocate_session_id`)",
                world.rounds * _OFTEN,
                _asking(server, "allocate_session_id", {"agent": "claude-code"}),
                _asking(echo, "allocate_session_id", {"agent": "claude-code"}),
                _ECHO,
                1.2,
            )
            yield compared(
                "request with one database read (`list_operations`)",
                world.rounds * _OFTEN,
                _asking(server, "list_operations", {}),
                _asking(echo, "list_operations", {}),
                _ECHO,
                1.8,
            )
            turn = server.call("list_turns", {"session_id": heavy.wire_id})["turns"][0]
            wanted = {"session_id": heavy.wire_id, "turn_id": turn["turn_id"]}
            server.call("read_turn", wanted)
            size = server.reply_bytes
            yield compared(
                f"result of {size / 1e6:.1f} MB (`read_turn`)",
                world.rounds * _OFTEN,
                _asking(server, "read_turn", wanted, _FEW),
                _asking(echo, "send", {"send": size}, _FEW),
                "the echo sending as many bytes",
                2.0,
            )
    finally:
        echo.close()


def _asking(client: Client, method: str, params: dict[str, Any], times: int = _BATCH) -> Timed:
    return many(times, lambda: client.seconds(method, params))
