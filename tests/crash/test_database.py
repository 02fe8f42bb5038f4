"""Turntree's own database: newer, damaged, locked, made by many processes at once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from session.store.schema import MIGRATIONS
from tests.client import Client, RpcError
from tests.crash.forks import Fork
from tests.crash.remains import Remains, check_clean, operations
from tests.crash.rewinds import Rewind, RewindBySwap
from tests.crash.scene import Scene
from tests.server.program import ROOT, turntree
from tests.world import World

NEWER = len(MIGRATIONS) + 1


def database(world: World) -> Path:
    return world.state / "turntree.db"


def set_version(world: World, version: int) -> None:
    with closing(sqlite3.connect(database(world))) as connection:
        connection.execute(f"PRAGMA user_version={version}")


def test_a_schema_of_a_newer_turntree_is_refused_while_the_server_goes_on(world: World) -> None:
    scene = Fork(world)
    with Client(world.env()) as before:
        before.list_sessions()
    set_version(world, NEWER)
    bytes_before = database(world).read_bytes()
    remains = Remains(world)
    with Client(world.env()) as client:
        for method, params in (
            ("list_sessions", {}),
            ("list_turns", {"session_id": scene.session}),
            scene.request(),
            ("list_operations", {}),
        ):
            with pytest.raises(RpcError) as refused:
                client.call(method, params)
            assert refused.value.kind == "storage_error"
            assert refused.value.data["path"] == str(database(world))
            assert "newer Turntree" in refused.value.message
            assert f"schema {NEWER}" in refused.value.message
        remains.check_as_before()
        assert database(world).read_bytes() == bytes_before
        assert not list(world.state.glob("turntree.db.damaged*"))

        set_version(world, len(MIGRATIONS))
        scene.check_reply(scene.ask(client), held=False)
        scene.check_new(client)


def test_the_command_line_refuses_a_newer_schema_too(world: World) -> None:
    turntree(world, "sessions")
    set_version(world, NEWER)
    ran = turntree(world, "sessions")
    assert ran.code == 1
    assert "newer Turntree" in ran.err and str(database(world)) in ran.err


def garble(world: World, begin: int, length: int) -> None:
    path = database(world)
    for extra in ("-wal", "-shm"):
        path.with_name(path.name + extra).unlink(missing_ok=True)
    data = bytearray(path.read_bytes())
    data[begin : begin + length] = b"garbage!" * (length // 8)
    path.write_bytes(data)


@pytest.mark.parametrize(("begin", "length"), [(0, 64), (0, 4096), (100, 2048), (4096, 1 << 16)])
def test_a_damaged_database_is_set_aside_and_named(world: World, begin: int, length: int) -> None:
    scene, gone = Fork(world), Rewind(world, 2)
    with Client(world.env()) as before:
        gone.ask(before)
    garble(world, begin, length)
    damaged = database(world).read_bytes()
    with Client(world.env()) as client:
        listed = first_listing(client)
        sessions = {s["session_id"]: s["turn_count"] for s in listed["sessions"]}
        assert sessions == {scene.session: 5, gone.session: 2}
        scene.check_reply(scene.ask(client), held=False)
        scene.check_new(client)
        assert [o["kind"] for o in operations(client)] == ["fork"]
        with pytest.raises(RpcError) as nothing:
            client.undo(session_id=gone.session)
        assert nothing.value.kind == "nothing_to_undo"
        check_clean(world, client)
        (aside,) = set_aside(world)
        assert aside.read_bytes() == damaged
        log = (world.state / "logs" / "turntree.log").read_text()
        assert str(aside) in log


def first_listing(client: Client) -> dict[str, Any]:
    """A damage behind the first page is found by a request, which may have to be repeated."""
    try:
        listed: dict[str, Any] = client.list_sessions()
    except RpcError as error:
        assert error.kind == "storage_error"
        listed = client.list_sessions()
    return listed


def set_aside(world: World) -> list[Path]:
    found = world.state.glob("turntree.db.damaged*")
    return [path for path in found if not path.name.endswith(("-wal", "-shm"))]


OPENER = """
import asyncio, os, sys, time
from pathlib import Path
from typing import Any
from session.service import Service

async def main(home, gate):
    print("ready", flush=True)
    while not os.path.exists(gate):
        time.sleep(0.0005)
    service = await Service.open(home=Path(home))
    try:
        await service.list_sessions()
        print("open", flush=True)
        sys.stdin.readline()
        print(len((await service.list_operations()).operations), flush=True)
    finally:
        await service.close()

asyncio.run(main(*sys.argv[1:]))
"""
"""Opens the store when the gate opens, and again tells what is in it when told to."""


@contextmanager
def opened_at_once(world: World, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that open the store in one moment and have it open."""
    gate = world.home / "gate"
    env = {**world.env(), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", OPENER, str(world.state), str(gate)]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        gate.touch()
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()


def test_processes_that_make_the_database_at_once_share_it(world: World) -> None:
    scene = Fork(world)
    with opened_at_once(world, 6) as processes:
        assert turntree(world, "fork", scene.session, "--json").code == 0
        counts = [process.communicate("\n")[0] for process in processes]
    assert counts == ["1\n"] * 6
    with closing(sqlite3.connect(database(world))) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_processes_that_find_a_damaged_database_at_once_share_a_new_one(world: World) -> None:
    scene = Fork(world)
    turntree(world, "sessions")
    garble(world, 0, 4096)
    damaged = database(world).read_bytes()
    with opened_at_once(world, 6) as processes:
        assert turntree(world, "fork", scene.session, "--json").code == 0
        counts = [process.communicate("\n")[0] for process in processes]
    assert counts == ["1\n"] * 6
    assert [path.read_bytes() for path in set_aside(world)] == [damaged]


def test_a_locked_database_leaves_reading_and_is_told(world: World) -> None:
    scenes: tuple[Scene, ...] = (Fork(world), RewindBySwap(world, 2))
    wanted = {scene.session for scene in scenes}
    with Client(world.env()) as client:
        client.list_sessions()
        remains = Remains(world)
        with closing(sqlite3.connect(database(world), isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            assert {s["session_id"] for s in client.list_sessions()["sessions"]} == wanted
            with pytest.raises(RpcError) as refused:
                scenes[0].ask(client)
            assert refused.value.kind == "storage_error"
            assert refused.value.data["path"] == str(database(world))
            assert "Another program holds" in refused.value.message
            remains.check_as_before()
            holder.execute("ROLLBACK")
        for scene in scenes:
            scene.check_reply(scene.ask(client), held=False)
            scene.check_new(client)
        check_clean(world, client)
