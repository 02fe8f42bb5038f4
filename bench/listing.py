"""`list_sessions` over 2,000 sessions, with and without what Turntree remembers of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import orjson

from bench.measure import Row, Timed, alternate, compared, many, row, timed
from bench.sdk import Sdk
from bench.world import Place, World

_COUNT = 2000


def rows(world: World) -> Iterator[Row]:
    place = world.store(_COUNT)
    parse, sdk = timed(lambda: _parse_all(place)), Sdk.find(place)
    yield compared(
        f"first `list_sessions` of {_COUNT:,} sessions, nothing indexed",
        min(world.rounds, 5),
        _cold(place),
        parse,
        "orjson.loads of every line",
    )
    with place.server() as server:
        ask = many(10, lambda: server.seconds("list_sessions", {}))
        ask()
        warm, stats = alternate(world.rounds, ask, many(10, timed(lambda: _stat_all(place))))
        yield row(
            f"`list_sessions` of {_COUNT:,} sessions, indexed",
            warm,
            stats,
            "scandir + stat of the files",
        )
        if sdk is None:
            yield Sdk.missing("`list_sessions`, indexed", warm, "listSessions({limit: 50})")
            return
        with sdk:
            yield compared(
                "the same",
                min(world.rounds, 5),
                ask,
                lambda: sdk.list(50),
                "Agent SDK listSessions({limit: 50})",
            )


def _cold(place: Place) -> Timed:
    def first() -> float:
        place.forget_index()
        with place.server() as server:
            return server.seconds("list_sessions", {})

    return first


def _files(place: Place) -> Iterator[os.DirEntry[str]]:
    for folder in os.scandir(place.config / "projects"):
        yield from os.scandir(folder.path)


def _parse_all(place: Place) -> None:
    for entry in _files(place):
        for line in Path(entry.path).read_bytes().splitlines():
            orjson.loads(line)


def _stat_all(place: Place) -> None:
    for entry in _files(place):
        entry.stat()
