"""Turntree's state on another file system than the agent's store: what is kept is copied there.

So a death can come between a copy and the removal of what was copied, where no fault point is.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from tests.crash.dying import die
from tests.crash.forks import RedoFork, UndoFork
from tests.crash.remains import Remains, check_clean
from tests.crash.rewinds import RedoOfSwap, RewindBySwap, UndoOfSwap, UndoOfSwapAfterNewTurns
from tests.crash.scene import Scene
from tests.crash.starting import Heir
from tests.world import World

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def apart(world: World) -> Iterator[World]:
    """A world whose state is on another file system."""
    state = Path(tempfile.mkdtemp(prefix="turntree-", dir=SHARED_MEMORY))
    assert state.stat().st_dev != world.home.stat().st_dev
    yield evolve(world, state=state)
    shutil.rmtree(state)


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        (RewindBySwap, "rewind.archived"),
        (RewindBySwap, "rewind.applied"),
        (UndoOfSwap, "undo.archived"),
        (UndoOfSwap, "undo.applied"),
        (UndoOfSwapAfterNewTurns, "undo.applied"),
        (RedoOfSwap, "redo.archived"),
        (RedoOfSwap, "redo.applied"),
        (UndoFork, "undo.archived"),
        (UndoFork, "undo.applied"),
        (RedoFork, "redo.archived"),
        (RedoFork, "redo.applied"),
    ],
)
def test_a_death_leaves_the_old_state_or_the_new_one(
    apart: World, kind: type[Scene], point: str
) -> None:
    scene = kind(apart)
    remains = die(scene, point)
    with Heir(apart) as heir:
        held = scene.holds_after(point)
        if held:
            scene.check_new(heir)
            remains.check_kept(scene.changes)
        else:
            remains.check_as_before()
        check_clean(apart, heir)
        scene.check_reply(scene.ask(heir), held=held)
        scene.check_new(heir)
        scene.undo_all(heir, remains)
        check_clean(apart, heir)


def archived(world: World, name: str) -> Path:
    """What is kept under `name` of the child."""
    (found,) = (world.state / "archive").glob(f"*/?-{name}")
    return found


def test_a_child_copied_to_the_archive_is_in_one_place_again(apart: World) -> None:
    """Death between the end of the copy and the removal of the child's file."""
    scene = UndoFork(apart)
    remains = die(scene, "undo.archived")
    name = f"{scene.child_id}.jsonl"
    shutil.copy2(archived(apart, name), scene.path.with_name(name))
    check_undone(scene, remains)


def test_a_folder_copied_to_the_archive_and_removed_in_part_is_in_one_place(apart: World) -> None:
    scene = UndoFork(apart)
    remains = die(scene, "undo.archived")
    own = scene.path.with_name(scene.child_id)
    kept = archived(apart, f"{scene.child_id}.jsonl").with_name(f"1-{scene.child_id}")
    shutil.copytree(own, kept)
    shutil.rmtree(own / "tool-results")
    check_undone(scene, remains)


def test_a_copy_to_the_archive_that_was_cut_short_is_made_again(apart: World) -> None:
    scene = UndoFork(apart)
    remains = die(scene, "undo.archived")
    kept = archived(apart, f"{scene.child_id}.jsonl")
    partial = kept.with_name(f".turntree-1-{scene.child_id}")
    partial.mkdir()
    (partial / "half").write_bytes(b"half")
    check_undone(scene, remains)
    assert not list(kept.parent.rglob("half"))


def check_undone(scene: UndoFork, remains: Remains) -> None:
    """The undo took place or not, whole; asked for again it has, and a redo brings all back."""
    with Heir(scene.world) as heir:
        check_clean(scene.world, heir)
        scene.ask(heir)
        scene.check_new(heir)
        remains.check_kept(scene.changes)
        assert heir.redo(operation_id=scene.operation)["status"] == "redone"
        remains.check_kept()
        check_clean(scene.world, heir)


def test_a_child_that_has_its_name_again_leaves_the_archive(apart: World) -> None:
    """Death between the publication of a returning child and the end of its archive."""
    scene = RedoFork(apart)
    remains = die(scene, "redo.applied")
    name = f"{scene.child_id}.jsonl"
    (folder,) = (apart.state / "archive").iterdir()
    shutil.copy2(scene.path.with_name(name), folder / f"0-{name}")
    with Heir(apart) as heir:
        scene.check_new(heir)
        remains.check_kept()
        assert not list((apart.state / "archive").rglob(f"*{name}"))
        scene.undo_all(heir, remains)
        check_clean(apart, heir)


def test_a_copy_to_the_store_that_was_cut_short_goes(apart: World) -> None:
    scene = RedoFork(apart)
    remains = die(scene, "redo.intended")
    for folder in (scene.path.parent, apart.store / "file-history"):
        partial = folder / f".turntree-{scene.child_id}"
        partial.mkdir()
        (partial / "half").write_bytes(b"half")
    with Heir(apart) as heir:
        remains.check_as_before()
        check_clean(apart, heir)
        scene.check_reply(scene.ask(heir), held=False)
        scene.check_new(heir)
        check_clean(apart, heir)


def test_a_companion_copied_to_the_store_is_in_one_place_again(apart: World) -> None:
    """Death between the end of its copy and the removal of what was copied."""
    scene = RedoFork(apart)
    remains = die(scene, "redo.intended")
    (folder,) = (apart.state / "archive").iterdir()
    copy = apart.store / "file-history" / scene.child_id
    shutil.copytree(folder / f"2-{scene.child_id}", copy)
    with Heir(apart) as heir:
        if copy.exists():
            scene.check_new(heir)
        else:
            remains.check_as_before()
        check_clean(apart, heir)
        scene.ask(heir)
        scene.check_new(heir)
        check_clean(apart, heir)
        scene.undo_all(heir, remains)


def test_a_returning_child_keeps_no_second_name(apart: World) -> None:
    """Death between the two halves of its publication: the new name and the end of the old."""
    scene = RedoFork(apart)
    remains = die(scene, "redo.applied")
    name = f"{scene.child_id}.jsonl"
    child = scene.path.with_name(name)
    (folder,) = (apart.state / "archive").iterdir()
    shutil.copy2(child, folder / f"0-{name}")
    child.with_name(f".turntree-{name}").hardlink_to(child)
    with Heir(apart) as heir:
        scene.check_new(heir)
        remains.check_kept()
        check_clean(apart, heir)
        scene.undo_all(heir, remains)


def test_a_retry_after_a_death_keeps_what_was_added_meanwhile(apart: World) -> None:
    """The copy that the first try kept is older than the file that the second replaces."""
    scene = RewindBySwap(apart)
    die(scene, "rewind.archived")
    added = scene.go_on(5)
    grown = scene.path.read_bytes()
    with Heir(apart) as heir:
        assert scene.ask(heir)["turns"] == {"kept": 2, "removed": 4}
        assert scene.shown_turns(heir, scene.session) == scene.turns[:2]
        assert heir.undo(session_id=scene.session)["status"] == "undone"
        assert scene.path.read_bytes() == grown
        assert scene.shown_turns(heir, scene.session) == [*scene.turns, added]
