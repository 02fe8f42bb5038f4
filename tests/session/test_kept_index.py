"""The index of a session's file outlives the process that made it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from session.agents.claude_code.transcript import Transcript as Index
from session.service import Service
from session.store import native_index
from tests.builders import Transcript
from tests.session.telling import prompts, sid
from tests.world import World

COUNT = 300


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes of lines that are read into an index, one number a piece."""
    sizes: list[int] = []
    add_lines = Index.add_lines

    def counted(self: Index, position: int, data: bytes, stop: int) -> int:
        sizes.append(stop)
        return add_lines(self, position, data, stop)

    monkeypatch.setattr(Index, "add_lines", counted)
    yield sizes


def long_session(world: World) -> tuple[Transcript, Path]:
    t = Transcript(str(world.cwd))
    t.turns(COUNT)
    return t, t.write(world.store)


def rows(world: World) -> int:
    with closing(sqlite3.connect(world.state / "turntree.db")) as database:
        (count,) = database.execute("SELECT count(*) FROM native_index").fetchone()
        return int(count)


async def test_another_process_does_not_read_a_file_that_one_has_indexed(
    service: Service, world: World, read: list[int]
) -> None:
    t, _ = long_session(world)
    before = await service.get_session(sid(t))
    assert read
    read.clear()
    other = await Service.open(home=world.state)
    assert await other.get_session(sid(t)) == before
    assert (await prompts(other, sid(t)))[-1] == f"question {COUNT}"
    assert read == []
    await other.close()


async def test_another_process_reads_what_was_added_and_no_more(
    service: Service, world: World, read: list[int]
) -> None:
    t, path = long_session(world)
    await service.get_session(sid(t))
    known = path.stat().st_size
    t.turn("one more")
    t.write(world.store)
    read.clear()
    other = await Service.open(home=world.state)
    assert (await other.get_session(sid(t))).session.turn_count == COUNT + 1
    assert sum(read) == path.stat().st_size - known
    await other.close()


@pytest.mark.parametrize("damage", ["flipped", "cut", "nothing"])
async def test_a_damaged_row_is_made_again(
    service: Service, world: World, read: list[int], damage: str
) -> None:
    t, path = long_session(world)
    before = await service.get_session(sid(t))
    with closing(sqlite3.connect(world.state / "turntree.db")) as database, database:
        (blob,) = database.execute("SELECT blob FROM native_index").fetchone()
        flipped = bytearray(blob)
        flipped[len(blob) // 2] ^= 4
        other = {"flipped": bytes(flipped), "cut": blob[:-9], "nothing": b""}[damage]
        database.execute("UPDATE native_index SET blob=?", (other,))
    read.clear()
    heir = await Service.open(home=world.state)
    assert await heir.get_session(sid(t)) == before
    assert sum(read) == path.stat().st_size
    await heir.close()
    with closing(sqlite3.connect(world.state / "turntree.db")) as database:
        assert database.execute("SELECT blob FROM native_index").fetchone() == (blob,)


async def test_the_index_of_a_file_that_is_gone_goes_with_what_else_is_known_of_it(
    service: Service, world: World
) -> None:
    t, path = long_session(world)
    await service.get_session(sid(t))
    assert rows(world) == 1
    path.unlink()
    await service.list_sessions()
    await service.context.catalog.close()  # which is done behind the answer
    assert rows(world) == 0


async def test_a_large_index_is_written_piece_by_piece(
    service: Service, world: World, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_index, "_WHOLE", 100)
    t, _ = long_session(world)
    before = await service.get_session(sid(t))
    read.clear()
    other = await Service.open(home=world.state)
    assert await other.get_session(sid(t)) == before
    assert read == []
    await other.close()


async def test_a_database_that_takes_nothing_keeps_no_one_from_reading(
    service: Service, world: World
) -> None:
    t, _ = long_session(world)
    with closing(sqlite3.connect(world.state / "turntree.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        assert (await service.get_session(sid(t))).session.turn_count == COUNT
        database.execute("DROP TABLE native_index")
        database.execute("COMMIT")
        other = await Service.open(home=world.state)
        assert (await other.get_session(sid(t))).session.turn_count == COUNT
        await other.close()


async def test_two_processes_that_index_one_session_keep_one_index(
    service: Service, world: World
) -> None:
    t, _ = long_session(world)
    other = await Service.open(home=world.state)
    for more, one in enumerate((service, other, service)):
        assert (await one.get_session(sid(t))).session.turn_count == COUNT + more * COUNT
        t.turns(COUNT)
        t.write(world.store)
    await other.close()
    assert rows(world) == 1


def test_a_process_that_is_killed_while_it_keeps_an_index_leaves_the_next_one_a_whole_or_none(
    world: World,
) -> None:
    t, _ = long_session(world)
    code = (
        "import asyncio, os, signal, sys; from pathlib import Path\n"
        "from session.service import Service; from session.store import native_index\n"
        "save = native_index.save_within\n"
        "def dying(*args):\n"
        "    save(*args)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "native_index.save_within = dying\n"
        "async def main():\n"
        "    service = await Service.open(home=Path(sys.argv[1]))\n"
        "    await service.get_session(sys.argv[2])\n"
        "asyncio.run(main())\n"
    )
    env = {**os.environ, **world.env()}
    died = subprocess.run([sys.executable, "-c", code, str(world.state), sid(t)], env=env)
    assert died.returncode == -signal.SIGKILL
    assert rows(world) == 0
