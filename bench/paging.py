"""A page of turns of a long session, anywhere in it, against one of a short session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.client import Client
from bench.measure import Row, Timed, compared, many
from bench.world import World

_SHORT = 100
_PAGE = 50
_ASKED = 5
_OFTEN = 3


def rows(world: World) -> Iterator[Row]:
    turns = 100_000 if world.big else 10_000
    (short_place, short), (place, made) = world.session(_SHORT), world.session(turns)
    with short_place.server() as small, place.server() as large:
        page = {"session_id": made.wire_id, "limit": _PAGE}
        reference = {"session_id": short.wire_id, "limit": _PAGE}
        for where, asked in (
            ("start", page),
            ("middle", {**page, "cursor": _cursor(large, page, turns // 2)}),
            ("end", {**page, "order": "newest"}),
        ):
            yield compared(
                f"page of {_PAGE} turns, {where} of {turns:,}",
                world.rounds * _OFTEN,
                _asking(large, asked),
                _asking(small, reference),
                f"the first page of {_SHORT} turns",
                1.1,
            )


def _asking(server: Client, page: dict[str, Any]) -> Timed:
    return many(_ASKED, lambda: server.seconds("list_turns", page))


def _cursor(server: Client, page: dict[str, Any], turns: int) -> str:
    """The cursor behind the first `turns` turns."""
    cursor: str | None = None
    for _ in range(turns // 500):
        asked = {**page, "limit": 500, **({"cursor": cursor} if cursor else {})}
        cursor = server.call("list_turns", asked)["next_cursor"]
    assert cursor is not None
    return cursor
