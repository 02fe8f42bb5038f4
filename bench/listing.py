"""Listing, indexing and searching 2,000 sessions: cold, warm, and while others work."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from bench.client import Client
from bench.measure import Row, Timed, alternate, compared, many, row, timed
from bench.sdk import Sdk
from bench.world import Place, World

_COUNT = 2000
_WATCHING = 2.5
"""Seconds after which a server watches for changes."""
_ASKED = ("list_operations", {"limit": 1})


def rows(world: World) -> Iterator[Row]:
    place = world.store(_COUNT, most_turns=45 if world.big else 3)
    parse, sdk = timed(lambda: _parse_all(place)), Sdk.find(place)
    yield compared(
        f"first `list_sessions` of {_COUNT:,} sessions, nothing indexed",
        min(world.rounds, 5),
        _cold(place),
        parse,
        "orjson.loads of every line",
        0.05,
    )
    yield from _behind(place, parse)
    with place.server() as server:
        ask = many(10, lambda: server.seconds("list_sessions", {}))
        ask()
        warm, stats = alternate(world.rounds, ask, many(10, timed(lambda: _stat_all(place))))
        yield row(
            f"`list_sessions` of {_COUNT:,} sessions, indexed",
            warm,
            stats,
            "scandir + stat of the files",
            1.5,
        )
        time.sleep(_WATCHING)
        ask()
        watched, stats = alternate(world.rounds, ask, many(10, timed(lambda: _stat_all(place))))
        yield row("the same while a watcher hears of no change", watched, stats, "scandir + stat")
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


def _behind(place: Place, parse: Timed) -> Iterator[Row]:
    """From a server that knows nothing to one that can search everything."""
    place.forget_index()
    with place.server() as server:
        idle = [seconds for _ in range(20) for seconds in _asked(server)]
        began = time.perf_counter()
        counted, busy = 0.0, []
        while "indexing" in server.call("search_turns", {"query": "nowhere", "limit": 1}):
            busy += _asked(server)
            if not counted and "indexing" not in server.call("list_sessions", {"limit": 1}):
                counted = time.perf_counter() - began
        ended = time.perf_counter() - began
        yield row(
            "p99 of a request with one database read while that is indexed",
            statistics.quantiles(busy, n=100)[98],
            statistics.median(idle),
            "its median when nothing is",
            5.0,
            f"whose own p99 is {statistics.quantiles(idle, n=100)[98] * 1e3:.2f} ms",
        )
        every = parse()
        yield row("all of it counted, behind a server", counted, every, "orjson.loads of it")
        yield row("all of it searchable", ended, every, "orjson.loads of it")
        for what, query in (
            ("a phrase", '"step 7"'),
            ("three words that are in most", "anchor carry gauge"),
        ):
            asked = {"query": query, "limit": 20}
            ask = many(10, lambda asked=asked: server.seconds("search_turns", asked))
            yield row(f"`search_turns`, {what}", ask(), None, "")
        words = sum(path.stat().st_size for path in place.state.glob("search-*"))
        rest = (place.state / "turntree.db").stat().st_size
        size = sum(entry.stat().st_size for entry in _files(place)) / 1e6
        yield Row("database without words", rest / 1e6, size, "the sessions", 0.02, "MB")
        yield Row("database of words", words / 1e6, size, "the sessions", None, "MB")


def _asked(server: Client) -> list[float]:
    """A burst of requests after a pause, as from a person's editor."""
    time.sleep(0.05)
    return [server.seconds(*_ASKED) for _ in range(100)]


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
