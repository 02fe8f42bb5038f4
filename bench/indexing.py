"""How long sessions take that Turntree has not seen, and how much memory a long one needs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from bench.generate import Made
from bench.measure import Row, Timed, alternate, compared, many, row, timed
from bench.world import Place, World
from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.store import ClaudeStore
from session.store import native_files
from session.store.database import Store
from session.work import Work, at_once

_PEAK = 80.0
_SESSIONS = 2000
_MOST_TURNS = 46  # 1 GB in all
_ONE_TURN = "pread of the new bytes + one commit"


def rows(world: World) -> Iterator[Row]:
    yield from _store(world)
    place, made = world.session(10_000)

    def cold() -> float:
        place.forget_index()
        with place.server() as server:
            return server.seconds("get_session", {"session_id": made.wire_id})

    def known() -> float:
        with place.server() as server:
            return server.seconds("get_session", {"session_id": made.wire_id})

    rounds = min(world.rounds, 5)
    ours, parsed = alternate(rounds, cold, timed(lambda: _parse([made.path])))
    gigabytes = made.bytes / 1e9
    yield row(
        "index, for each GB of a session not seen before",
        ours / gigabytes,
        parsed / gigabytes,
        "orjson.loads of every line",
    )
    again, parsed = alternate(rounds, known, timed(lambda: _parse([made.path])))
    yield row(
        f"first `get_session` of {made.turns:,} turns that another process has indexed",
        again,
        parsed,
        "orjson.loads of every line",
    )
    yield _appended(world, made)
    yield _peak(*world.session(100))
    yield _peak(place, made)
    if world.big:
        yield _peak(*world.session(100_000))


def _store(world: World) -> Iterator[Row]:
    """The whole index of a store that nobody has looked at: made, and on the disk."""
    place = world.store(_SESSIONS, most_turns=_MOST_TURNS)
    paths = sorted(place.config.glob("projects/*/*.jsonl"))
    size = sum(path.stat().st_size for path in paths)
    told: dict[str, float] = {}

    def index(workers: int) -> Timed:
        def run() -> float:
            place.forget_index()
            place.state.mkdir()
            command = [sys.executable, "-m", "bench.whole", place.config, place.state]
            output = subprocess.run([*command, str(workers)], check=True, stdout=subprocess.PIPE)
            told.update(orjson.loads(output.stdout))
            return told["seconds"]

        return run

    name = f"whole durable index of {_SESSIONS:,} sessions ({size / 1e6:,.0f} MB)"
    parse = timed(lambda: _parse(paths))
    one, two, parsed = alternate(min(world.rounds, 5), index(1), index(2), parse)
    against = "orjson.loads of every line"
    yield row(f"{name}, one worker", one, parsed, against, 0.35)
    yield row(f"{name}, two workers", two, parsed, against, 0.25)
    yield Row("peak memory meanwhile", told["peak"] / 1e6, None, "80 MB", _PEAK, unit="MB")
    yield Row("stored of it", told["stored"] / 1e6, size / 1e6, "the sessions", 0.02, unit="MB")


def _appended(world: World, made: Made) -> Row:
    """The index after one more turn, in a process that has it, and kept."""
    place = world.place("appended")
    path = place.config / "projects" / made.path.parent.name / made.path.name
    path.parent.mkdir(parents=True)
    shutil.copyfile(made.path, path)
    agent = ClaudeCode(ClaudeStore(place.config))
    place.state.mkdir()
    at_once(_migrated(place.state))
    database = sqlite3.connect(place.state / "turntree.db", isolation_level=None)
    turns = _later_turns(path)
    entry = agent.cache_entry(agent.open(path, native_id=None, work=Work()))
    assert entry is not None

    def floor() -> float:
        added = next(turns)
        position = path.stat().st_size
        _append(path, added)
        began = time.perf_counter()
        fd = os.open(path, os.O_RDONLY)
        os.pread(fd, len(added), position)
        os.close(fd)
        native_files.save(database, agent.name, [entry])
        seconds = time.perf_counter() - began
        agent.open(path, native_id=None, work=Work())
        return seconds

    def ours() -> float:
        _append(path, next(turns))
        began = time.perf_counter()
        known = agent.cache_entry(agent.open(path, native_id=None, work=Work()))
        assert known is not None
        native_files.save(database, agent.name, [known])
        return time.perf_counter() - began

    name = f"index after one turn appended to {made.turns:,} ({made.bytes / 1e6:,.0f} MB)"
    taken = compared(name, world.rounds, many(9, ours), many(9, floor), _ONE_TURN, 2)
    database.close()
    return taken


def _later_turns(path: Path) -> Iterator[bytes]:
    """Turns that go on from the last record of a file, one after the other."""
    lines = path.read_bytes()[-(1 << 20) :].split(b"\n")[1:-1]
    records = [record for record in map(orjson.loads, lines) if "uuid" in record]
    starts = [at for at, record in enumerate(records) if "permissionMode" in record]
    turn = records[starts[-2] : starts[-1]]
    parent = records[-1]["uuid"]
    while True:
        added = b""
        for record in turn:
            record = {**record, "uuid": str(uuid.uuid4()), "parentUuid": parent}
            if "promptId" in record:
                record["promptId"] = "00000000" + parent[8:]
            parent = record["uuid"]
            added += orjson.dumps(record) + b"\n"
        yield added


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


async def _migrated(home: Path) -> None:
    await (await Store.open(home)).close()


def _parse(paths: Iterable[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
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
