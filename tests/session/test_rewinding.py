"""rewind: keeps the session's id, drops turns, loses none of them."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from session.errors import (
    BoundaryOutOfRange,
    InvalidParams,
    SessionBusy,
    SessionNotFound,
    StaleRevision,
    TurnNotFound,
    Unsupported,
)
from session.model import Boundary
from session.service import Service
from tests.builders import Transcript, live_session
from tests.session.telling import new_id, prompts, sid, told, turns
from tests.world import World, store_hash


def told_by(world: World, version: str, *texts: str) -> Transcript:
    """A session that this version of the agent wrote."""
    t = Transcript(str(world.cwd), seed=1, version=version)
    for text in texts:
        t.turn(text, f"answer to {text}")
    t.write(world.store)
    return t


@pytest.mark.parametrize(
    "boundary",
    [
        Boundary(turn_number=1),
        Boundary(by=2),
        Boundary(before_turn="2"),
        Boundary(through_turn="1"),
    ],
)
async def test_a_rewind_keeps_the_first_turns_and_the_answer_says_all_of_it(
    service: Service, world: World, boundary: Boundary
) -> None:
    t = told(world, "one", "two", "three")
    at: dict[str, Any] = {"turn_number": boundary.turn_number, "by": boundary.by}
    if boundary.before_turn:
        at["before_turn"] = t.prompts[1]
    if boundary.through_turn:
        at["through_turn"] = t.prompts[0]
    dropped = (await turns(service, sid(t)))[1:]
    result = await service.rewind(sid(t), Boundary(**at))
    assert result.status == "rewound"
    assert (result.turns.kept, result.turns.removed) == (1, 2)
    assert result.dropped == dropped
    assert (result.dropped_prompt, result.files, result.warnings) == ("two", [], [])
    assert (result.session.session_id, result.session.turn_count) == (sid(t), 1)
    assert result.session == (await service.get_session(sid(t))).session
    assert [x.turn_id for x in await turns(service, sid(t))] == t.prompts[:1]


async def test_dropped_turns_are_a_branch_that_can_be_read_and_forked(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    await service.rewind(sid(t), Boundary(turn_number=1))
    active, left = (await service.list_branches(sid(t))).branches
    assert (active.active, active.turn_count, active.last_prompt) == (True, 1, "one")
    assert (left.turn_count, left.last_prompt) == (3, "three")
    assert left.forked_at_turn_id == t.prompts[0]
    everything = await service.list_turns(sid(t), branch="all")
    assert [x.prompt for x in everything.turns] == ["one", "two", "three"]
    at = Boundary(through_turn=t.prompts[2])
    await service.fork_session(sid(t), new_id(), at=at)
    assert await prompts(service, new_id()) == ["one", "two", "three"]


async def test_the_agents_own_pointer_is_one_line_and_nothing_else_changes(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    before = t.path(world.store).read_bytes()
    await service.rewind(sid(t), Boundary(turn_number=2))
    after = t.path(world.store).read_bytes()
    assert after.startswith(before)
    (line,) = after[len(before) :].splitlines()
    assert json.loads(line) == {
        "type": "last-prompt",
        "leafUuid": t.messages()[3]["uuid"],
        "explicit": True,
        "rewound": True,
        "sessionId": t.session_id,
    }


async def test_a_last_line_without_its_newline_does_not_swallow_the_pointer(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    path = t.path(world.store)
    path.write_bytes(path.read_bytes()[:-1])
    before = path.read_bytes()
    await service.rewind(sid(t), Boundary(by=1))
    assert await prompts(service, sid(t)) == ["one"]
    await service.undo(sid(t))
    assert path.read_bytes() == before


async def test_a_torn_last_line_does_not_swallow_the_pointer(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    path = t.path(world.store)
    path.write_bytes(path.read_bytes() + b'{"type":"user","uu')
    before = path.read_bytes()
    await service.rewind(sid(t), Boundary(by=1))
    assert await prompts(service, sid(t)) == ["one"]
    await service.undo(sid(t))
    assert path.read_bytes() == before


# Where the agent would not follow a pointer, the file itself holds the kept turns alone


@pytest.mark.parametrize(
    ("version", "kept", "by_pointer"),
    [
        ("2.1.119", 1, False),
        ("2.1.120", 1, True),
        ("2.1.197", 1, True),
        ("2.2.0", 1, True),
        ("3.0.0-beta", 1, True),
        ("1.0.99", 1, False),
        ("unknown", 1, False),
        ("2.1.190", 0, False),
        ("2.1.191", 0, True),
    ],
)
async def test_old_versions_that_follow_no_pointer_get_a_new_file(
    service: Service, world: World, version: str, kept: int, by_pointer: bool
) -> None:
    t = told_by(world, version, "one", "two", "three")
    path = t.path(world.store)
    before, inode = path.read_bytes(), path.stat().st_ino
    await service.rewind(sid(t), Boundary(turn_number=kept))
    assert await prompts(service, sid(t)) == ["one", "two", "three"][:kept]
    assert (path.stat().st_ino == inode) == by_pointer
    assert (b"three" in path.read_bytes()) == by_pointer
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    await service.undo(sid(t))
    assert path.read_bytes() == before
    assert await prompts(service, sid(t)) == ["one", "two", "three"]


async def test_a_new_file_keeps_what_belongs_to_the_session(service: Service, world: World) -> None:
    t = told_by(world, "2.1.100", "one")
    t.custom_title("mine")
    t.mode()
    t.turn("two")
    path = t.write(world.store)
    os.chmod(path, 0o640)
    lines = path.read_bytes().splitlines(keepends=True)
    await service.rewind(sid(t), Boundary(by=1))
    after = path.read_bytes()
    assert after.startswith(b"".join(lines[:4]))
    assert (await service.get_session(sid(t))).session.title == "mine"
    assert path.stat().st_mode & 0o777 == 0o640


async def test_a_rewind_to_before_a_compaction_brings_the_full_history_back(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    t.compact()
    t.turn("three")
    path = t.write(world.store)
    before = path.read_bytes()
    await service.rewind(sid(t), Boundary(turn_number=1))
    after = path.read_bytes()
    assert b"compact_boundary" not in after
    assert [x.compacted for x in await turns(service, sid(t))] == [False]
    await service.undo(sid(t))
    assert path.read_bytes() == before
    assert await prompts(service, sid(t)) == ["one", "two", "three"]


async def test_a_rewind_to_after_a_compaction_is_a_pointer(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    t.compact()
    t.turn("three")
    t.turn("four")
    path = t.write(world.store)
    before = path.read_bytes()
    await service.rewind(sid(t), Boundary(by=1))
    assert path.read_bytes().startswith(before)
    assert await prompts(service, sid(t)) == ["one", "two", "three"]


async def test_a_rewind_to_nothing_empties_the_session(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    result = await service.rewind(sid(t), Boundary(before_turn=t.prompts[0]))
    assert (result.turns.kept, result.turns.removed) == (0, 2)
    assert result.dropped_prompt == "one"
    assert await prompts(service, sid(t)) == []


# Nothing to do, nothing to be done


@pytest.mark.parametrize("to", [{"latest": True}, {"by": 0}, {"turn_number": 2}])
async def test_keeping_all_turns_writes_nothing(
    service: Service, world: World, to: dict[str, Any]
) -> None:
    t = told(world, "one", "two")
    before = store_hash(world.store)
    result = await service.rewind(sid(t), Boundary(**to))
    assert (result.status, result.turns.kept, result.turns.removed) == ("already_at_target", 2, 0)
    assert (result.dropped, result.dropped_prompt) == ([], None)
    assert store_hash(world.store) == before
    assert (await service.list_operations()).operations == []


async def test_a_preview_shows_what_would_be_dropped_and_writes_nothing(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    before = store_hash(world.store)
    result = await service.rewind(sid(t), Boundary(by=2), dry_run=True)
    assert (result.status, result.operation_id) == ("preview", None)
    assert (result.turns.kept, result.turns.removed) == (1, 2)
    assert [x.prompt for x in result.dropped] == ["two", "three"]
    assert result.dropped_prompt == "two"
    assert store_hash(world.store) == before
    assert (await service.list_operations()).operations == []
    kept = await service.rewind(sid(t), Boundary(by=0), dry_run=True)
    assert kept.status == "already_at_target"


async def test_what_cannot_be_cut_is_refused_and_nothing_is_written(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    before = store_hash(world.store)
    refusals: list[tuple[type[Exception], Boundary]] = [
        (BoundaryOutOfRange, Boundary(turn_number=3)),
        (BoundaryOutOfRange, Boundary(by=3)),
        (BoundaryOutOfRange, Boundary(turn_number=-1)),
        (TurnNotFound, Boundary(through_turn="nothing")),
        (InvalidParams, Boundary()),
    ]
    for error, to in refusals:
        with pytest.raises(error):
            await service.rewind(sid(t), to)
    with pytest.raises(SessionNotFound):
        await service.rewind(new_id(), Boundary(by=1))
    assert store_hash(world.store) == before


async def test_a_turn_of_another_branch_is_forked_not_rewound_to(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    await service.rewind(sid(t), Boundary(by=1))
    with pytest.raises(TurnNotFound, match="another branch"):
        await service.rewind(sid(t), Boundary(through_turn=t.prompts[2]))


@pytest.mark.parametrize("mode", ["files", "both"])
async def test_files_are_not_rewound_yet(service: Service, world: World, mode: str) -> None:
    t = told(world, "one", "two")
    with pytest.raises(Unsupported) as caught:
        await service.rewind(sid(t), Boundary(by=1), mode=mode)
    assert caught.value.data["operation"] == "rewind"
    assert await prompts(service, sid(t)) == ["one", "two"]


async def test_a_session_that_is_open_elsewhere_is_busy_and_a_fork_is_offered(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    live_session(world.store, os.getpid(), t.session_id)
    before = store_hash(world.store)
    with pytest.raises(SessionBusy) as caught:
        await service.rewind(sid(t), Boundary(turn_number=1))
    data = caught.value.data
    assert (data["holder"].pid, data["holder"].program) == (os.getpid(), "claude-code")
    alternative = data["alternative"]
    assert alternative["method"] == "fork_session"
    assert store_hash(world.store) == before
    # The request is ready: it can be sent as it is.
    params = dict(alternative["params"])
    params["at"] = Boundary(**params["at"])
    forked = await service.fork_session(**params)
    assert forked.turns.kept == 1


async def test_the_fork_that_is_offered_instead_cuts_where_the_rewind_would(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    live_session(world.store, os.getpid(), t.session_id)
    for to, kept in ((Boundary(by=2), 1), (Boundary(before_turn=t.prompts[2]), 2)):
        with pytest.raises(SessionBusy) as caught:
            await service.rewind(sid(t), to)
        params = dict(caught.value.data["alternative"]["params"])
        params["at"] = Boundary(**params["at"])
        assert (await service.fork_session(**params)).turns.kept == kept


async def test_a_session_that_is_open_elsewhere_can_still_be_looked_at(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    live_session(world.store, os.getpid(), t.session_id)
    preview = await service.rewind(sid(t), Boundary(by=1), dry_run=True)
    assert preview.turns.kept == 1
    kept = await service.rewind(sid(t), Boundary(by=0))
    assert kept.status == "already_at_target"


async def test_a_revision_that_has_passed_is_refused(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    revision = (await service.get_session(sid(t))).session.revision
    t.turn("three")
    t.write(world.store)
    with pytest.raises(StaleRevision):
        await service.rewind(sid(t), Boundary(by=1), expect_revision=revision)
    assert await prompts(service, sid(t)) == ["one", "two", "three"]


# The same request again


async def test_the_same_operation_id_is_done_once(service: Service, world: World) -> None:
    t = told(world, "one", "two", "three")
    first = await service.rewind(sid(t), Boundary(by=1), operation_id="op:1")
    again = await service.rewind(sid(t), Boundary(by=1), operation_id="op:1")
    assert (first.status, again.status) == ("rewound", "already_done")
    assert again.operation_id == first.operation_id == "op:1"
    assert (again.turns, again.dropped) == (first.turns, first.dropped)
    assert again.dropped_prompt == first.dropped_prompt
    assert await prompts(service, sid(t)) == ["one", "two"]
    assert len((await service.list_operations()).operations) == 1


async def test_an_operation_id_of_another_request_is_refused(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    other = told(world, "x", "y", seed=2)
    fork = await service.fork_session(sid(t), new_id())
    await service.rewind(sid(t), Boundary(by=1), operation_id="op:1")
    for session_id, to, operation_id in (
        (sid(t), Boundary(by=2), "op:1"),
        (sid(other), Boundary(by=1), "op:1"),
        (sid(t), Boundary(by=1), fork.operation_id),
    ):
        with pytest.raises(InvalidParams, match="operation_id"):
            await service.rewind(session_id, to, operation_id=operation_id)
    assert await prompts(service, sid(other)) == ["x", "y"]


async def test_a_refused_rewind_leaves_its_operation_id_free(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    with pytest.raises(BoundaryOutOfRange):
        await service.rewind(sid(t), Boundary(by=9), operation_id="op:1")
    result = await service.rewind(sid(t), Boundary(by=1), operation_id="op:1")
    assert result.status == "rewound"


# Rewinding what was forked


async def test_inherited_turns_of_a_fork_are_rewound_like_any_other(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    await service.fork_session(sid(t), new_id())
    result = await service.rewind(new_id(), Boundary(by=2))
    assert [x.prompt for x in result.dropped] == ["two", "three"]
    assert await prompts(service, new_id()) == ["one"]
    assert await prompts(service, sid(t)) == ["one", "two", "three"]
    await service.undo(new_id())
    assert await prompts(service, new_id()) == ["one", "two", "three"]


async def test_an_interrupted_last_turn_is_rewound_like_any_other(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    t.prompt("two")
    t.tool("Bash", {}, "no", is_error=True)
    t.interrupt(in_tool=True)
    t.write(world.store)
    result = await service.rewind(sid(t), Boundary(by=1))
    assert (result.dropped[0].status, result.dropped_prompt) == ("interrupted", "two")
    assert await prompts(service, sid(t)) == ["one"]


async def test_a_prompt_without_any_answer_is_rewound_like_any_other(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    t.prompt("two")
    t.write(world.store)
    result = await service.rewind(sid(t), Boundary(by=1))
    assert result.dropped_prompt == "two"
    assert await prompts(service, sid(t)) == ["one"]


async def test_a_long_tail_of_dropped_turns_is_cut_in_the_answer_not_in_the_deed(
    service: Service, world: World
) -> None:
    t = told(world, *(f"p{n}" for n in range(520)))
    result = await service.rewind(sid(t), Boundary(turn_number=3))
    assert (result.turns.removed, len(result.dropped)) == (517, 500)
    assert [w.code for w in result.warnings] == ["dropped_cut_short"]
    assert await prompts(service, sid(t)) == ["p0", "p1", "p2"]
