"""undo and redo: what was dropped comes back, what was said since stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from session.errors import InvalidParams, NothingToUndo, SessionBusy, SessionNotFound, StaleRevision
from session.model import Boundary
from session.service import Service
from tests.builders import Transcript, live_session
from tests.session.telling import new_id, prompts, sid, told
from tests.world import World, assert_untouched, store_hash

CHILD = new_id()


def session_of(world: World, way: str, *texts: str) -> Transcript:
    """A session that is rewound by a `pointer`, or by a `swap` of its file."""
    version = "2.1.197" if way == "pointer" else "2.1.100"
    t = Transcript(str(world.cwd), seed=1, version=version)
    for text in texts:
        t.turn(text, f"answer to {text}")
    t.write(world.store)
    return t


def say(t: Transcript, world: World, text: str, below: str) -> Path:
    """What the agent appends: a turn below the record `below`."""
    path = t.path(world.store)
    known = len(t.records)
    t.branch_from(below)
    t.turn(text, f"answer to {text}")
    more = Transcript(t.cwd, session_id=t.session_id)
    more.records = t.records[known:]
    with path.open("ab") as file:
        file.write(more.dump())
    return path


def end_of(t: Transcript, turn: int) -> str:
    return str(t.messages()[2 * turn - 1]["uuid"])


@pytest.mark.parametrize("way", ["pointer", "swap"])
async def test_an_undo_leaves_the_file_byte_for_byte_as_it_was(
    service: Service, world: World, way: str
) -> None:
    t = session_of(world, way, "one", "two", "three")
    path = t.path(world.store)
    before, revision = path.read_bytes(), (await service.get_session(sid(t))).session.revision
    rewound = await service.rewind(sid(t), Boundary(turn_number=1))
    undone = await service.undo(sid(t))
    assert path.read_bytes() == before
    assert (undone.status, undone.operation_id) == ("undone", rewound.operation_id)
    assert undone.files == []
    assert undone.session is not None
    assert (undone.session.turn_count, undone.session.revision) == (3, revision)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("way", ["pointer", "swap"])
async def test_a_redo_rewinds_again_and_can_be_undone_again(
    service: Service, world: World, way: str
) -> None:
    t = session_of(world, way, "one", "two", "three")
    path = t.path(world.store)
    before = path.read_bytes()
    rewound = await service.rewind(sid(t), Boundary(turn_number=1))
    for _ in range(3):
        await service.undo(sid(t))
        assert path.read_bytes() == before
        redone = await service.redo(sid(t))
        assert (redone.status, redone.operation_id) == ("redone", rewound.operation_id)
        assert await prompts(service, sid(t)) == ["one"]
    await service.undo(sid(t))
    assert path.read_bytes() == before


@pytest.mark.parametrize("way", ["pointer", "swap"])
async def test_rewinds_are_undone_and_redone_in_order(
    service: Service, world: World, way: str
) -> None:
    t = session_of(world, way, "one", "two", "three")
    path = t.path(world.store)
    states = [path.read_bytes()]
    for number in (2, 1):
        await service.rewind(sid(t), Boundary(turn_number=number))
        states.append(path.read_bytes())
    for number in (2, 3):
        await service.undo(sid(t))
        assert path.read_bytes() == states[3 - number]
        assert len(await prompts(service, sid(t))) == number
    with pytest.raises(NothingToUndo):
        await service.undo(sid(t))
    for number in (2, 1):
        await service.redo(sid(t))
        assert len(await prompts(service, sid(t))) == number
    with pytest.raises(NothingToUndo):
        await service.redo(sid(t))
    # A new turn: what was undone before it is history.
    await service.undo(sid(t))
    await service.undo(sid(t))
    assert path.read_bytes() == states[0]
    say(t, world, "four", end_of(t, 3))
    with pytest.raises(NothingToUndo):
        await service.redo(sid(t))
    assert await prompts(service, sid(t)) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("way", ["pointer", "swap"])
async def test_turns_said_since_a_rewind_stay_as_a_branch_after_its_undo(
    service: Service, world: World, way: str
) -> None:
    t = session_of(world, way, "one", "two", "three")
    await service.rewind(sid(t), Boundary(turn_number=1))
    say(t, world, "another", end_of(t, 1))
    assert await prompts(service, sid(t)) == ["one", "another"]
    new = (await service.list_turns(sid(t))).turns[1]
    await service.undo(sid(t))
    assert await prompts(service, sid(t)) == ["one", "two", "three"]
    branches = (await service.list_branches(sid(t))).branches
    assert [(b.last_prompt, b.active) for b in branches] == [("three", True), ("another", False)]
    read = await service.read_turn(sid(t), new.turn_id)
    assert [item.text for item in read.items] == ["another", "answer to another"]
    # And one can go there again: by a fork.
    await service.fork_session(sid(t), CHILD, at=Boundary(through_turn=new.turn_id))
    assert await prompts(service, CHILD) == ["one", "another"]


@pytest.mark.parametrize("way", ["pointer", "swap"])
async def test_metadata_written_since_a_rewind_survives_its_undo(
    service: Service, world: World, way: str
) -> None:
    t = session_of(world, way, "one", "two")
    await service.rewind(sid(t), Boundary(turn_number=1))
    line = b'{"type":"custom-title","customTitle":"named since","sessionId":"%s"}\n'
    with t.path(world.store).open("ab") as file:
        file.write(line % t.session_id.encode())
    await service.undo(sid(t))
    assert await prompts(service, sid(t)) == ["one", "two"]
    assert (await service.get_session(sid(t))).session.title == "named since"


@pytest.mark.parametrize("way", ["pointer", "swap"])
async def test_an_old_rewind_below_new_turns_and_another_rewind_is_undone_too(
    service: Service, world: World, way: str
) -> None:
    t = session_of(world, way, "one", "two", "three")
    first = await service.rewind(sid(t), Boundary(turn_number=2))
    say(t, world, "another", end_of(t, 2))
    await service.rewind(sid(t), Boundary(turn_number=1))
    assert await prompts(service, sid(t)) == ["one"]
    await service.undo(sid(t))
    assert await prompts(service, sid(t)) == ["one", "two", "another"]
    await service.undo(sid(t))
    assert await prompts(service, sid(t)) == ["one", "two", "three"]
    assert first.operation_id


@pytest.mark.parametrize("way", ["pointer", "swap"])
async def test_an_undo_outlives_the_process(service: Service, world: World, way: str) -> None:
    t = session_of(world, way, "one", "two")
    before = t.path(world.store).read_bytes()
    await service.rewind(sid(t), Boundary(turn_number=1))
    later = await Service.open(home=world.state)
    try:
        await later.sweep()
        await later.undo(sid(t))
    finally:
        await later.close()
    assert t.path(world.store).read_bytes() == before
    assert await prompts(service, sid(t)) == ["one", "two"]


# By which name


async def test_an_operation_is_undone_by_its_id(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    rewound = await service.rewind(sid(t), Boundary(by=1), operation_id="op:1")
    undone = await service.undo(operation_id="op:1")
    assert (undone.status, undone.operation_id) == ("undone", rewound.operation_id)
    again = await service.undo(operation_id="op:1")
    assert again.status == "already_done"
    assert (await service.redo(operation_id="op:1")).status == "redone"
    assert (await service.redo(operation_id="op:1")).status == "already_done"
    assert await prompts(service, sid(t)) == ["one"]


async def test_a_request_id_makes_a_retry_safe(service: Service, world: World) -> None:
    t = told(world, "one", "two", "three")
    await service.rewind(sid(t), Boundary(by=1))
    await service.rewind(sid(t), Boundary(by=1))
    first = await service.undo(sid(t), request_id="undo:1")
    again = await service.undo(sid(t), request_id="undo:1")
    assert (first.status, again.status) == ("undone", "already_done")
    assert again.operation_id == first.operation_id
    # Without it, the next one would have been undone.
    assert await prompts(service, sid(t)) == ["one", "two"]
    with pytest.raises(InvalidParams, match="request_id"):
        await service.redo(sid(t), request_id="undo:1")


async def test_a_session_or_an_operation_is_named(service: Service, world: World) -> None:
    for verb in (service.undo, service.redo):
        with pytest.raises(InvalidParams):
            await verb()


async def test_an_operation_is_not_undone_in_the_name_of_another_session(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    other = told(world, "x", "y", seed=2)
    await service.rewind(sid(t), Boundary(by=1), operation_id="op:1")
    with pytest.raises((InvalidParams, NothingToUndo)):
        await service.undo(sid(other), operation_id="op:1")
    assert await prompts(service, sid(t)) == ["one"]
    assert (await service.undo(sid(t), operation_id="op:1")).status == "undone"


async def test_without_anything_to_undo_that_is_said(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD)
    for verb in (service.undo, service.redo):
        with pytest.raises(NothingToUndo):
            await verb(sid(t))
        with pytest.raises(NothingToUndo):
            await verb(operation_id="nothing")
        with pytest.raises(SessionNotFound):
            await verb(new_id(9))
    # A fork is undone by its operation's id, never as "the newest of its child".
    made = (await service.list_operations(session_id=CHILD)).operations[0].operation_id
    with pytest.raises(NothingToUndo, match=f"fork that made it is undone by operation_id {made}"):
        await service.undo(CHILD)
    with pytest.raises(NothingToUndo, match=r"no rewind to redo\.$"):
        await service.redo(CHILD)


async def test_a_preview_changes_nothing(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    rewound = await service.rewind(sid(t), Boundary(by=1))
    before = store_hash(world.store)
    preview = await service.undo(sid(t), dry_run=True)
    assert (preview.status, preview.operation_id) == ("preview", rewound.operation_id)
    assert store_hash(world.store) == before
    await service.undo(sid(t))
    before = store_hash(world.store)
    assert (await service.redo(sid(t), dry_run=True)).status == "preview"
    assert store_hash(world.store) == before


async def test_a_session_that_is_open_elsewhere_is_neither_undone_nor_redone(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    await service.rewind(sid(t), Boundary(by=1))
    entry = live_session(world.store, os.getpid(), t.session_id)
    with pytest.raises(SessionBusy):
        await service.undo(sid(t))
    entry.unlink()
    await service.undo(sid(t))
    live_session(world.store, os.getpid(), t.session_id)
    with pytest.raises(SessionBusy):
        await service.redo(sid(t))


async def test_a_revision_that_has_passed_is_refused(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    await service.rewind(sid(t), Boundary(by=1))
    with pytest.raises(StaleRevision):
        await service.undo(sid(t), expect_revision="of-yesterday")
    revision = (await service.get_session(sid(t))).session.revision
    await service.undo(sid(t), expect_revision=revision)


# Forks


async def test_a_fork_is_undone_by_taking_the_child_away_and_redone_as_it_was(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("one")
    t.big_tool("Bash", {}, "large " * 9000, file="kept.txt")
    t.write_file(f"{t.cwd}/a.py", "new", before="old")
    t.answer("done")
    t.write(world.store)
    source = store_hash(world.store)
    forked = await service.fork_session(sid(t), CHILD)
    with_child = store_hash(world.store)
    undone = await service.undo(operation_id=forked.operation_id)
    assert (undone.status, undone.session) == ("undone", None)
    assert_untouched(source, world.store)
    with pytest.raises(SessionNotFound):
        await service.get_session(CHILD)
    assert not [p for p in world.store.rglob(f"*{CHILD[12:]}*") if p.exists()]
    redone = await service.redo(operation_id=forked.operation_id)
    assert redone.status == "redone"
    assert redone.session is not None
    assert redone.session.session_id == CHILD
    assert redone.session.forked_from is not None
    after = store_hash(world.store)
    assert {k: v[0] for k, v in after.items()} == {k: v[0] for k, v in with_child.items()}


async def test_a_fork_of_no_turns_is_undone_too(service: Service, world: World) -> None:
    t = told(world, "one")
    forked = await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=0))
    assert (await service.undo(operation_id=forked.operation_id)).status == "undone"
    with pytest.raises(SessionNotFound):
        await service.get_session(CHILD)
    redone = await service.redo(operation_id=forked.operation_id)
    assert redone.session is not None
    assert redone.session.turn_count == 0


async def test_a_fork_with_turns_of_its_own_is_kept_whole_when_it_is_undone(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    forked = await service.fork_session(sid(t), CHILD)
    (path,) = (world.store / "projects").glob(f"*/{CHILD[12:]}.jsonl")
    child = Transcript(t.cwd, session_id=CHILD[12:], seed=8)
    child.branch_from(t.head)
    child.turn("said in the fork")
    with path.open("ab") as file:
        file.write(child.dump())
    data = path.read_bytes()
    await service.undo(operation_id=forked.operation_id)
    await service.redo(operation_id=forked.operation_id)
    assert path.read_bytes() == data
    assert await prompts(service, CHILD) == ["one", "said in the fork"]


async def test_a_fork_that_is_open_elsewhere_is_not_taken_away(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    forked = await service.fork_session(sid(t), CHILD)
    live_session(world.store, os.getpid(), CHILD[12:])
    with pytest.raises(SessionBusy):
        await service.undo(operation_id=forked.operation_id)
    assert await prompts(service, CHILD) == ["one"]


# The list of what was done


async def operations(service: Service, **how: Any) -> list[tuple[str, str, bool]]:
    page = await service.list_operations(**how)
    return [(o.kind, o.state, o.undoable) for o in page.operations]


async def test_operations_are_listed_newest_first_with_what_can_be_undone(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    other = told(world, "other", seed=2)
    forked = await service.fork_session(sid(t), CHILD)
    await service.fork_session(sid(other), new_id(2), stage=True)
    await service.rewind(sid(t), Boundary(by=1), operation_id="op:1")
    await service.undo(sid(t), request_id="undo:1")
    page = await service.list_operations()
    assert [(o.kind, o.state, o.undoable) for o in page.operations] == [
        ("undo", "done", False),
        ("rewind", "undone", False),
        ("fork", "staged", False),
        ("fork", "done", True),
    ]
    undo, rewind, _, fork = page.operations
    assert (undo.operation_id, rewind.operation_id) == ("undo:1", "op:1")
    assert (rewind.session_id, rewind.new_session_id) == (sid(t), None)
    assert (fork.operation_id, fork.session_id, fork.new_session_id) == (
        forked.operation_id,
        sid(t),
        CHILD,
    )
    assert "1 dropped" in rewind.summary
    assert "one (fork)" in fork.summary
    assert [o.at for o in page.operations] == sorted((o.at for o in page.operations), reverse=True)
    assert page.next_cursor is None


async def test_operations_of_a_session_are_those_on_it_and_the_one_that_made_it(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD)
    await service.rewind(CHILD, Boundary(by=1))
    assert await operations(service, session_id=CHILD) == [
        ("rewind", "done", True),
        ("fork", "done", True),
    ]
    assert await operations(service, session_id=sid(t)) == [("fork", "done", True)]
    assert await operations(service, session_id=new_id(9)) == []


async def test_operations_are_paged(service: Service, world: World) -> None:
    t = told(world, *(f"p{n}" for n in range(6)))
    for _ in range(5):
        await service.rewind(sid(t), Boundary(by=1))
    seen = []
    cursor = None
    for expected in (2, 2, 1):
        page = await service.list_operations(limit=2, cursor=cursor)
        assert len(page.operations) == expected
        seen += [o.operation_id for o in page.operations]
        cursor = page.next_cursor
    assert cursor is None
    assert len(set(seen)) == 5
    with pytest.raises(InvalidParams, match="cursor"):
        await service.list_operations(cursor="x")


async def test_a_step_that_failed_leaves_no_operation_behind(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    with pytest.raises(NothingToUndo):
        await service.undo(sid(t), request_id="undo:1")
    assert await operations(service) == []
