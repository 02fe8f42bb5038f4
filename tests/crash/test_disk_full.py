"""Disks that are full: of the agent's store, of Turntree's state, and of both in turn.

Each request is made with more and more room left, from none to enough, so that it fails in
every place that needs some.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import Client, RpcError
from tests.crash.disks import PAGE, Disk, mounted, needs_root
from tests.crash.remains import Remains, check_clean, operations, settle
from tests.crash.scenes import (
    Discard,
    Fork,
    Promote,
    Redo,
    RedoFork,
    RedoOfSwap,
    Rewind,
    RewindBySwap,
    Scene,
    StagedFork,
    Undo,
    UndoAfterNewTurns,
    UndoFork,
    UndoOfSwap,
    UndoOfSwapAfterNewTurns,
)
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
    assert client.get_session(session_id=scene.session)["session"]["state"] == "ready"
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
        size = len(self.transcript.dump(self.transcript.path(self.world.store).with_suffix("")))
        self.transcript.unknown(filler="")
        extra = len(self.transcript.dump(self.transcript.path(self.world.store).with_suffix("")))
        self.transcript.records[-1]["filler"] = "x" * (-(extra + 20) % PAGE)  # type: ignore[index]
        assert extra > size


@pytest.mark.parametrize(
    "kind", [Fork, StagedFork, RewindAtThePageEnd, RewindBySwap, UndoOfSwapAfterNewTurns, RedoFork]
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


@pytest.fixture
def full_state(world: World) -> Iterator[tuple[World, Disk]]:
    with mounted(world.state, "12m") as disk:
        yield world, disk


KINDS: tuple[type[Scene], ...] = (
    Fork,
    StagedFork,
    Promote,
    Discard,
    Rewind,
    RewindBySwap,
    Undo,
    UndoAfterNewTurns,
    UndoOfSwap,
    Redo,
    RedoOfSwap,
    UndoFork,
    RedoFork,
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_state_directory_is_told_and_got_over(
    full_state: tuple[World, Disk], kind: type[Scene]
) -> None:
    world, disk = full_state
    with Client(world.env()) as client:
        done: bool | None = False
        outcomes = []
        for number in range(1, 40):
            scene = kind(world, number)
            scene.lead_up(client)
            remains = Remains(world)
            disk.fill((number - 1) * PAGE)
            done = try_out(scene, client)
            outcomes.append(done)
            reads(scene, client)
            if done is False and kind is not Discard:
                remains.check_as_before()
            disk.free()
            # The same process, with room again.
            reply = scene.ask(client)
            if done is False:
                scene.check_reply(reply, held=False)
            scene.check_new(client)
            remains.check_kept(scene.changes)
            if done and outcomes[-3:] == [True] * 3:
                break
        assert outcomes[0] is False
        assert done, outcomes
    with Client(world.env()) as heir:
        settle(heir, {"staged"} if kind is StagedFork else set())
        check_clean(world, heir, staged=kind is StagedFork)


def test_a_server_that_starts_with_a_full_state_directory_reads(
    full_state: tuple[World, Disk],
) -> None:
    world, disk = full_state
    scene = Fork(world)
    remains = Remains(world)
    disk.fill(0)
    with Client(world.env()) as client:
        reads(scene, client)
        assert try_out(scene, client) is False
        remains.check_as_before()
        disk.free()
        assert try_out(scene, client) is True
        scene.check_new(client)
        assert [o["state"] for o in operations(client)] == ["done"]
    assert_starts(world, scene)


def assert_starts(world: World, scene: Scene) -> None:
    with Client(world.env()) as client:
        scene.check_new(client)
        answer: dict[str, Any] = scene.ask(client)
        scene.check_reply(answer, held=True)
