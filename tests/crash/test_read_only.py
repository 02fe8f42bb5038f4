"""Files and directories that may not be written or read: told as they are, the rest works."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from tests.client import Client, RpcError
from tests.crash.disks import mode, mounted, needs_root, unprivileged
from tests.crash.forks import Discard, Fork, Promote, RedoFork, StagedFork, UndoFork
from tests.crash.remains import Remains, check_clean
from tests.crash.repairs import Repair
from tests.crash.rewinds import (
    Redo,
    Rewind,
    RewindBySwap,
    Undo,
    UndoOfSwap,
    UndoOfSwapAfterNewTurns,
)
from tests.crash.scene import Scene
from tests.crash.starting import initialize
from tests.world import World, store_hash

CHANGES: tuple[type[Scene], ...] = (
    Fork,
    StagedFork,
    Promote,
    Discard,
    Rewind,
    RewindBySwap,
    Undo,
    UndoOfSwap,
    Redo,
    UndoFork,
    RedoFork,
)


@define(frozen=True)
class Plain:
    """A world and a server of a user to whom file modes apply."""

    world: World
    client: Client
    numbers: Iterator[int]

    def scene(self, kind: type[Scene]) -> Scene:
        scene = kind(self.world, next(self.numbers))
        scene.lead_up(self.client)
        return scene


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    world = World.make(tmp_path_factory.mktemp("plain"))
    with Client(world.env(), launcher=unprivileged()) as client:
        yield Plain(world, client, itertools.count(1))


def refused(scene: Scene, client: Client) -> dict[str, Any]:
    """The data of the storage_error that the scene's request gets."""
    with pytest.raises(RpcError) as failure:
        scene.ask(client)
    assert failure.value.kind == "storage_error", failure.value
    data: dict[str, Any] = failure.value.data
    return data


def reads(scene: Scene, client: Client) -> None:
    """Listing and reading work."""
    listed = client.list_sessions(limit=500)["sessions"]
    assert scene.session in [s["session_id"] for s in listed]
    turns = client.list_turns(session_id=scene.session)["turns"]
    items = client.read_turn(session_id=scene.session, turn_id=turns[0]["turn_id"])["items"]
    assert items[0]["text"] == scene.topic
    assert client.list_branches(session_id=scene.session)["branches"]


@pytest.mark.parametrize(
    "kind", [Fork, StagedFork, Repair, RewindBySwap, UndoOfSwapAfterNewTurns, RedoFork]
)
def test_a_project_folder_that_may_not_be_written(plain: Plain, kind: type[Scene]) -> None:
    scene = plain.scene(kind)
    folder = scene.path.parent
    remains = Remains(plain.world)
    with mode(folder, 0o555):
        told = refused(scene, plain.client)
        assert told["errno"] == errno.EACCES
        # A move names what it moves.
        assert told["path"].startswith((str(folder), str(plain.world.state)))
        reads(scene, plain.client)
        remains.check_as_before(lambda path: Path(path) == folder)
    remains.check_as_before()
    scene.check_reply(scene.ask(plain.client), held=False)
    scene.check_new(plain.client)
    check_clean(plain.world, plain.client, staged=True)


@pytest.mark.parametrize("kind", [Rewind, Undo, Redo])
def test_a_session_file_that_may_not_be_written(plain: Plain, kind: type[Scene]) -> None:
    scene = plain.scene(kind)
    remains = Remains(plain.world)
    with mode(scene.path, 0o444):
        told = refused(scene, plain.client)
        assert (told["path"], told["errno"]) == (str(scene.path), errno.EACCES)
        reads(scene, plain.client)
    remains.check_as_before()
    scene.check_reply(scene.ask(plain.client), held=False)
    scene.check_new(plain.client)


def test_a_file_history_that_may_not_be_written(plain: Plain) -> None:
    scene = plain.scene(Fork)
    remains = Remains(plain.world)
    history = plain.world.store / "file-history"
    with mode(history, 0o555):
        told = refused(scene, plain.client)
        assert told["errno"] == errno.EACCES
        assert told["path"].startswith(str(history))
    remains.check_as_before()
    scene.check_reply(scene.ask(plain.client), held=False)
    scene.check_new(plain.client)


def test_an_archive_that_may_not_be_written_lets_no_session_be_replaced(plain: Plain) -> None:
    scene = plain.scene(RewindBySwap)
    archive = plain.world.state / "archive"
    archive.mkdir(parents=True, exist_ok=True)
    remains = Remains(plain.world)
    with mode(archive, 0o555):
        told = refused(scene, plain.client)
        assert told["path"].startswith(str(archive))
        assert told["errno"] == errno.EACCES
        remains.check_as_before()
    scene.check_reply(scene.ask(plain.client), held=False)
    scene.check_new(plain.client)


def test_a_project_folder_that_may_not_be_read_hides_no_other(plain: Plain) -> None:
    scene = plain.scene(Fork)
    closed = plain.world.store / "projects" / "-somewhere-else"
    closed.mkdir()
    with mode(closed, 0):
        listing = plain.client.list_sessions(limit=500)
        assert scene.session in [s["session_id"] for s in listing["sessions"]]
        assert str(closed) in [s["path"] for s in listing["skipped"]]
        scene.check_reply(scene.ask(plain.client), held=False)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_session_file_that_may_not_be_read(world: World, indexed: bool) -> None:
    hidden, other = Fork(world), Fork(world, 2)
    if indexed:
        with Client(world.env()) as before:
            before.list_sessions()
    with mode(hidden.path, 0), Client(world.env(), launcher=unprivileged()) as plain:
        listing = plain.list_sessions()
        states = {s["session_id"]: s["state"] for s in listing["sessions"]}
        expected = {other.session: "ready"}
        assert states == (expected | {hidden.session: "unreadable"} if indexed else expected)
        assert [s["path"] for s in listing["skipped"]] == [str(hidden.path)]
        assert "ermission" in listing["skipped"][0]["reason"]
        for method, params in (
            ("get_session", {}),
            ("check_session", {}),
            ("list_turns", {}),
            ("rewind", {"to": {"turn_number": 1}}),
            ("fork_session", {"new_session_id": hidden.child_id}),
        ):
            with pytest.raises(RpcError) as failure:
                plain.call(method, {"session_id": hidden.session, **params})
            assert failure.value.kind == "storage_error"
            assert failure.value.data["path"] == str(hidden.path)
            assert failure.value.data["errno"] == errno.EACCES
        other.check_reply(other.ask(plain), held=False)
        other.check_new(plain)


def test_a_state_directory_that_may_not_be_written_leaves_reading(world: World) -> None:
    scenes = [kind(world, number) for number, kind in enumerate(CHANGES, 1)]
    with Client(world.env()) as before:
        for scene in scenes:
            scene.lead_up(before)
    remains = Remains(world)
    with mode(world.state, 0o555), Client(world.env(), launcher=unprivileged()) as plain:
        for scene in scenes:
            reads(scene, plain)
            told = refused(scene, plain)
            assert told["path"].startswith(str(world.state))
            assert told["errno"] in (errno.EACCES, errno.EROFS)
            remains.check_as_before()
    with Client(world.env()) as after:
        for scene in scenes:
            scene.check_reply(scene.ask(after), held=False)
            scene.check_new(after)


@pytest.mark.parametrize(
    ("name", "bits"),
    [(".", 0), ("turntree.db", 0), ("turntree.db", 0o444), ("locks", 0)],
)
def test_a_part_of_the_state_directory_that_is_closed_leaves_reading(
    world: World, name: str, bits: int
) -> None:
    scene = UndoOfSwap(world)
    with standby_plain(world) as plain:
        with Client(world.env()) as before:
            scene.lead_up(before)
        remains = Remains(world)
        with mode(world.state / name, bits):
            initialize(plain)
            reads(scene, plain)
            told = refused(scene, plain)
            assert told["path"].startswith(str(world.state))
            assert told["errno"] in (errno.EACCES, errno.EROFS)
            remains.check_as_before()


def standby_plain(world: World) -> Client:
    return Client(world.env(), initialize=False, launcher=unprivileged())


def test_a_state_directory_that_cannot_be_made_leaves_reading(world: World) -> None:
    scene = Fork(world)
    remains = Remains(world)
    world.state.parent.chmod(0o555)
    try:
        with Client(world.env(), launcher=unprivileged()) as plain:
            reads(scene, plain)
            assert refused(scene, plain)["path"] == str(world.state)
            remains.check_as_before()
    finally:
        world.state.parent.chmod(0o755)
    assert not world.state.exists()


def test_a_state_directory_that_is_a_file_leaves_reading(world: World) -> None:
    scene = Fork(world)
    world.state.write_text("not a directory")
    with Client(world.env()) as client:
        reads(scene, client)
        assert refused(scene, client)["path"] == str(world.state)


@needs_root
def test_a_store_on_a_read_only_disk_is_listed_and_not_changed(tmp_path: Path) -> None:
    world = World.make(tmp_path).configured()
    assert world.config_dir is not None
    with mounted(world.config_dir, "8m") as disk, Client(world.env()) as client:
        scenes: list[Scene] = [
            kind(world, number)
            for number, kind in enumerate((Fork, Rewind, RewindBySwap, Promote, Undo), 1)
        ]
        for scene in scenes:
            scene.lead_up(client)
        before = store_hash(world.store)
        disk.read_only(True)
        for scene in scenes:
            told = refused(scene, client)
            assert told["errno"] == errno.EROFS
            assert told["path"].startswith(str(world.store))
            reads(scene, client)
        assert store_hash(world.store) == before
        disk.read_only(False)
        for scene in scenes:
            scene.check_reply(scene.ask(client), held=False)
            scene.check_new(client)
        check_clean(world, client)


@needs_root
def test_a_state_directory_on_a_read_only_disk_leaves_reading(world: World) -> None:
    scene = Fork(world)
    with mounted(world.state, "8m") as disk:
        with Client(world.env()) as before:
            reads(scene, before)
        remains = Remains(world)
        disk.read_only(True)
        with Client(world.env()) as client:
            reads(scene, client)
            told = refused(scene, client)
            assert (told["path"], told["errno"]) == (str(world.state), errno.EROFS)
            remains.check_as_before()
