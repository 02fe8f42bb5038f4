"""How long a session takes that Turntree has not seen, and how much memory a long one needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import orjson

from bench.generate import Made
from bench.measure import Row, alternate, row, timed
from bench.world import Place, World

_PEAK = 80.0


def rows(world: World) -> Iterator[Row]:
    place, made = world.session(10_000)

    def cold() -> float:
        place.forget_index()
        with place.server() as server:
            return server.seconds("get_session", {"session_id": made.wire_id})

    ours, parsed = alternate(min(world.rounds, 5), cold, timed(lambda: _parse(made)))
    gigabytes = made.bytes / 1e9
    yield row(
        "index, for each GB of a session not seen before",
        ours / gigabytes,
        parsed / gigabytes,
        "orjson.loads of every line",
    )
    yield _peak(*world.session(100))
    yield _peak(place, made)
    if world.big:
        yield _peak(*world.session(100_000))


def _parse(made: Made) -> None:
    with made.path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def _peak(place: Place, made: Made) -> Row:
    """What a server needed that listed, paged and forked a session."""
    session = {"session_id": made.wire_id}
    with place.server() as server:
        server.call("list_sessions", {})
        server.call("list_turns", session)
        server.call("list_turns", {**session, "order": "newest", "limit": 500})
        child = str(uuid.uuid4())
        server.call(
            "fork_session",
            {**session, "new_session_id": child, "at": {"turn_number": made.turns // 2}},
        )
        peak = server.peak_memory() / 1e6
    made.path.with_name(f"{child}.jsonl").unlink()
    return Row(
        f"peak memory: list, page, fork of {made.turns:,} turns ({made.bytes / 1e6:,.0f} MB)",
        peak,
        None,
        "80 MB",
        _PEAK if made.turns == 100_000 else None,
        unit="MB",
    )
