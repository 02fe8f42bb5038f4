"""Disks that are full: of the agent's store, of Turntree's state, and of both in turn.

Each request is made with more and more room left, from none to enough, so that it fails in
every place that needs some.
"""

from __future__ import annotations

import errno
import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import define

from tests.client import Client, RpcError
from tests.crash.disks import PAGE, Disk, mounted, needs_root
from tests.crash.forks import Discard, Fork, Promote, RedoFork, StagedFork, UndoFork
from tests.crash.remains import Remains, check_clean, operations, settle
from tests.crash.repairs import Repair
from tests.crash.rewinds import (
    RedoOfSwap,
    Rewind,
    RewindBySwap,
    Undo,
    UndoOfSwap,
    UndoOfSwapAfterNewTurns,
)
from tests.crash.scene import Scene
from tests.crash.starting import initialize, standby
from tests.world import World

pytestmark = needs_root


def try_out(scene: Scene, client: Client) -> bool | None:
    """Send the request: True when it was done, False when not, None when that is not known."""
    try:
        reply = scene.ask(client)
    except RpcError as error:
        if error.kind == "indeterminate":
            return None
        assert error.kind == "storage_error", error
        assert error.data["errno"] == errno.ENOSPC, error
        assert Path(error.data["path"]).is_absolute(), error
        return False
    scene.check_reply(reply, held=False)
    return True


def reads(scene: Scene, client: Client) -> None:
    listed = {s["session_id"] for s in client.list_sessions(limit=500)["sessions"]}
    assert scene.session in listed
    assert client.get_session(session_id=scene.session)["session"]["state"] == scene.state
    assert client.list_turns(session_id=scene.session)["turns"]


# The agent's store


@pytest.fixture
def full_store(tmp_path: Path) -> Iterator[tuple[World, Disk]]:
    world = World.make(tmp_path).configured()
    assert world.config_dir is not None
    with mounted(world.config_dir, "2m") as disk:
        yield world, disk


class RewindAtThePageEnd(Rewind):
    """A rewind whose record does not fit into the last page of the file."""

    def speak(self) -> None:
        super().speak()
        self.transcript.unknown(filler="")
        folder = self.transcript.path(self.world.store).with_suffix("")
        size = len(self.transcript.dump(folder))
        last = self.transcript.records[-1]
        assert isinstance(last, dict)
        last["filler"] = "x" * (-(size + 20) % PAGE)


@pytest.mark.parametrize(
    "kind",
    [Fork, StagedFork, Repair, RewindAtThePageEnd, RewindBySwap, UndoOfSwapAfterNewTurns, RedoFork],
)
def test_a_full_store_keeps_the_old_state_until_there_is_room(
    full_store: tuple[World, Disk], kind: type[Scene]
) -> None:
    world, disk = full_store
    scene = kind(world)
    with Client(world.env()) as client:
        scene.lead_up(client)
        remains = Remains(world)
        before = scene.path.read_bytes()
        failed = 0
        for leave in range(0, 512 << 10, 3 * PAGE):
            disk.fill(leave)
            done = try_out(scene, client)
            disk.free()
            assert done is not None
            if done:
                break
            failed += 1
            # A record that was begun and taken back has changed the file's time.
            remains.check_as_before(lambda path: path == str(scene.path))
            assert scene.path.read_bytes() == before
            reads(scene, client)
            check_clean(world, client, staged=scene.leaves_stage(False))
        assert failed and done
        scene.check_new(client)
        remains.check_kept(scene.changes)
        scene.undo_all(client, remains)
        check_clean(world, client)


# Turntree's state


@define(frozen=True)
class FullState:
    """A server whose state is on a small disk of its own."""

    world: World
    disk: Disk
    client: Client
    numbers: Iterator[int]


@pytest.fixture(scope="module")
def full_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullState]:
    world = World.make(tmp_path_factory.mktemp("full state"))
    with mounted(world.state, "16m") as disk, Client(world.env()) as client:
        yield FullState(world, disk, client, itertools.count(1))


KINDS: tuple[type[Scene], ...] = (
    Fork,
    Repair,
    Promote,
    Discard,
    Rewind,
    RewindBySwap,
    Undo,
    UndoOfSwap,
    RedoOfSwap,
    UndoFork,
    RedoFork,
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_state_directory_is_told_and_got_over(
    full_state: FullState, kind: type[Scene]
) -> None:
    world, client = full_state.world, full_state.client
    # What other kinds left is not looked at again each time.
    shutil.rmtree(world.store, ignore_errors=True)
    outcomes: list[bool | None] = []
    while outcomes[-2:] != [True, True]:
        assert len(outcomes) < 40, outcomes
        scene = kind(world, next(full_state.numbers))
        scene.lead_up(client)
        remains = Remains(world)
        empty_log(world)
        full_state.disk.fill(pages(len(outcomes)) * PAGE)
        outcomes.append(try_out(scene, client))
        reads(scene, client)
        if outcomes[-1] is False and kind is not Discard:
            remains.check_as_before()

        full_state.disk.free()
        reply = scene.ask(client)
        if outcomes[-1] is False:
            scene.check_reply(reply, held=False)
        scene.check_new(client)
        remains.check_kept(scene.changes)
    assert outcomes[0] is False
    check_clean(world, client)


def pages(tries: int) -> int:
    """One more each time at first, where the database is in need, then many for what is kept."""
    return tries if tries < 12 else 12 + (tries - 12) * 8


def empty_log(world: World) -> None:
    """Give the room in the database's log back, or what is written next needs none."""
    with closing(sqlite3.connect(world.state / "turntree.db")) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy


def test_a_full_state_directory_leaves_nothing_for_the_next_process(full_state: FullState) -> None:
    with Client(full_state.world.env()) as heir:
        settle(heir)
        check_clean(full_state.world, heir)


def test_a_server_that_starts_with_a_full_state_directory_reads(world: World) -> None:
    scene = Fork(world)
    remains = Remains(world)
    with mounted(world.state, "1m") as disk, standby(world) as client:
        disk.fill(0)
        initialize(client)
        reads(scene, client)
        assert try_out(scene, client) is False
        remains.check_as_before()
        disk.free()
        assert try_out(scene, client) is True
        scene.check_new(client)
        assert [o["state"] for o in operations(client)] == ["done"]
