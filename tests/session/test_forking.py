"""fork_session: what the child is, what is refused, and what the same request gets again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from session.errors import (
    BoundaryOutOfRange,
    InvalidParams,
    SessionDamaged,
    SessionExists,
    SessionNotFound,
    StaleRevision,
    Unsupported,
)
from session.model import Boundary
from session.service import Service
from tests.builders import Transcript, live_session
from tests.corpus import CASES
from tests.session.telling import new_id, prompts, sid, titles, told, turns
from tests.world import World, assert_untouched, store_hash

CHILD = new_id()


def child_file(world: World, child: str = CHILD) -> Path:
    (path,) = (world.store / "projects").glob(f"*/{child.removeprefix('claude-code:')}.jsonl")
    return path


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def test_a_fork_keeps_the_first_turns_and_the_answer_says_all_of_it(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    before = store_hash(world.store)
    result = await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=2))
    assert_untouched(before, world.store)
    path = child_file(world)
    assert (result.status, result.method, result.workspace) == ("forked", "copy", None)
    assert (result.turns.kept, result.turns.source_total) == (2, 3)
    assert result.dropped_prompt == "three"
    assert (result.records_copied, result.bytes_copied) == (6, path.stat().st_size)
    assert result.operation_id
    assert [warning.code for warning in result.warnings] == ["becomes_latest"]
    child = result.session
    assert child is not None
    assert (child.session_id, child.title, child.turn_count) == (CHILD, "one (fork)", 2)
    assert (child.cwd, child.state, child.kind) == (t.cwd, "ready", "main")
    assert child.forked_from is not None
    assert (child.forked_from.session_id, child.forked_from.turn_id) == (sid(t), t.prompts[1])
    assert child.forked_from.turn_number == 2
    assert result.resume == child.resume
    assert child.resume.command == ["claude", "--resume", CHILD.removeprefix("claude-code:")]
    assert child.resume.resumable
    assert [x.turn_id for x in await turns(service, CHILD)] == t.prompts[:2]
    assert path.parent == t.path(world.store).parent


async def test_the_child_is_a_file_of_its_own_as_the_agent_wants_it(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD)
    path = child_file(world)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_nlink == 1
    assert path.read_bytes().endswith(b"\n")
    found = records(path)
    assert {r["sessionId"] for r in found} == {CHILD.removeprefix("claude-code:")}
    # The agent's own picker shows sessions of its terminal program only.
    assert {r["entrypoint"] for r in found if "uuid" in r} == {"cli"}
    assert [r["customTitle"] for r in found if r["type"] == "custom-title"] == ["one (fork)"]
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []


async def test_the_latest_boundary_is_the_default(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    result = await service.fork_session(sid(t), CHILD)
    assert (result.turns.kept, result.dropped_prompt) == (2, None)


async def test_an_id_may_come_without_the_agents_name(service: Service, world: World) -> None:
    t = told(world, "one")
    result = await service.fork_session(sid(t), CHILD.removeprefix("claude-code:"))
    assert result.session is not None
    assert result.session.session_id == CHILD


@pytest.mark.parametrize("child", ["x", "", "codex:" + CHILD[12:], CHILD.upper(), CHILD + "0"])
async def test_an_id_that_is_none_is_refused_and_nothing_is_written(
    service: Service, world: World, child: str
) -> None:
    t = told(world, "one")
    before = store_hash(world.store)
    with pytest.raises(InvalidParams):
        await service.fork_session(sid(t), child)
    assert store_hash(world.store) == before
    assert (await service.list_operations()).operations == []


async def test_a_fork_is_newest_by_when_it_was_made(service: Service, world: World) -> None:
    old = told(world, "one")
    new = Transcript(str(world.cwd), seed=2, start="2026-02-20T09:00:00.000Z")
    new.turn("newer")
    new.write(world.store)
    await service.fork_session(sid(old), CHILD)
    assert await titles(service) == ["one (fork)", "newer", "one"]
    (child, *_) = (await service.list_sessions()).sessions
    assert child.created_at is not None
    assert child.updated_at is not None
    assert child.created_at > "2026-02-20" > child.updated_at


# Titles


async def test_forks_are_titled_after_their_parent_and_numbered(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    for number in range(1, 4):
        await service.fork_session(sid(t), new_id(number), stage=number == 2)
    await service.fork_session(new_id(1), new_id(4))
    assert set(await titles(service, include_staged=True)) == {
        "one",
        "one (fork)",
        "one (fork 2)",
        "one (fork 3)",
        "one (fork) (fork)",
    }


async def test_a_title_that_was_given_is_kept_even_when_another_has_it(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    for number in (1, 2):
        await service.fork_session(sid(t), new_id(number), title='mine "新聞" \\ 😀')
    assert (await titles(service)).count('mine "新聞" \\ 😀') == 2


async def test_the_parents_own_title_is_taken_not_its_first_prompt(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    t.custom_title("Networking")
    t.write(world.store)
    result = await service.fork_session(sid(t), CHILD)
    assert result.session is not None
    assert result.session.title == "Networking (fork)"


# Boundaries


async def test_a_fork_of_no_turns_is_an_empty_session_under_its_id(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    before = store_hash(world.store)
    result = await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=0))
    assert store_hash(world.store) == before
    assert (result.status, result.turns.kept, result.dropped_prompt) == ("forked", 0, "one")
    assert (result.records_copied, result.bytes_copied) == (0, 0)
    assert result.session is not None
    assert (result.session.turn_count, result.session.title) == (0, "one (fork)")
    assert result.resume.command == ["claude", "--session-id", CHILD[12:]]
    assert (result.resume.cwd, result.resume.resumable) == (t.cwd, True)
    assert (await service.get_session(CHILD)).session.forked_from is not None
    assert await prompts(service, CHILD) == []
    assert "one (fork)" in await titles(service)
    again = await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=0))
    assert again.status == "already_forked"


async def test_before_the_first_turn_keeps_none(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    result = await service.fork_session(sid(t), CHILD, at=Boundary(before_turn=t.prompts[0]))
    assert (result.turns.kept, result.dropped_prompt) == (0, "one")


async def test_an_empty_fork_that_was_started_is_the_session_that_it_became(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=0))
    started = Transcript(str(world.cwd), session_id=CHILD[12:], seed=2)
    started.turn("a new beginning")
    started.write(world.store)
    assert await prompts(service, CHILD) == ["a new beginning"]
    session = (await service.get_session(CHILD)).session
    assert session.resume.command == ["claude", "--resume", CHILD[12:]]
    assert session.forked_from is not None
    assert session.forked_from.session_id == sid(t)
    assert len((await service.list_sessions()).sessions) == 2


async def test_a_turn_of_an_abandoned_branch_can_be_forked(service: Service, world: World) -> None:
    t = told(world, "one", "two", "three")
    await service.rewind(sid(t), Boundary(turn_number=1))
    third = t.prompts[2]
    result = await service.fork_session(sid(t), CHILD, at=Boundary(through_turn=third))
    assert result.turns.kept == 3
    assert await prompts(service, CHILD) == ["one", "two", "three"]


async def test_out_of_range_is_no_full_copy(service: Service, world: World) -> None:
    t = told(world, "one")
    with pytest.raises(BoundaryOutOfRange):
        await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=143))
    with pytest.raises(SessionNotFound):
        await service.get_session(CHILD)


async def test_a_fork_while_the_program_writes_ends_before_the_open_turn(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    t.prompt("two")
    t.tool("Bash", {}, None)
    t.write(world.store)
    live_session(world.store, os.getpid(), t.session_id)
    result = await service.fork_session(sid(t), CHILD)
    assert (result.turns.kept, result.turns.source_total) == (1, 2)
    assert result.dropped_prompt == "two"
    assert await prompts(service, CHILD) == ["one"]


# Where it goes


async def test_a_fork_into_another_directory_lives_and_is_found_there(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    target = world.home / "新 place"
    target.mkdir()
    link = world.home / "link"
    link.symlink_to(target)
    result = await service.fork_session(sid(t), CHILD, cwd=str(link))
    assert result.session is not None
    assert (result.session.cwd, result.session.last_cwd) == (str(target), str(target))
    assert result.resume.cwd == str(target)
    assert {r["cwd"] for r in records(child_file(world)) if "uuid" in r} == {str(target)}
    assert await titles(service, cwd=str(target)) == ["one (fork)"]
    assert await titles(service, cwd=str(world.cwd)) == ["one"]


@pytest.mark.parametrize("cwd", ["relative/path", "/no/such/directory", ""])
async def test_a_directory_that_is_none_is_refused(
    service: Service, world: World, cwd: str
) -> None:
    t = told(world, "one")
    with pytest.raises(InvalidParams, match="cwd"):
        await service.fork_session(sid(t), CHILD, cwd=cwd)


async def test_large_tool_outputs_backups_and_subagents_of_kept_turns_come_along(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd), seed=3)
    t.prompt("one")
    t.big_tool("Bash", {"command": "cat"}, "large " * 9000, file="kept.txt")
    t.write_file(f"{t.cwd}/a.py", "new", before="old")
    t.subagent("look", "looked", agent_id="a1")
    t.answer("done")
    t.prompt("two")
    t.big_tool("Bash", {"command": "cat"}, "dropped " * 9000, file="dropped.txt")
    t.write_file(f"{t.cwd}/b.py", "newer", before="older")
    t.subagent("look again", "looked again", agent_id="b2")
    t.answer("done")
    source = t.write(world.store)
    before = store_hash(world.store)
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1))
    assert_untouched(before, world.store)
    own = child_file(world).with_suffix("")
    assert sorted(str(p.relative_to(own)) for p in own.rglob("*.*")) == [
        "subagents/agent-a1.jsonl",
        "subagents/agent-a1.meta.json",
        "tool-results/kept.txt",
    ]
    kept = source.with_suffix("") / "tool-results" / "kept.txt"
    assert (own / "tool-results" / "kept.txt").read_bytes() == kept.read_bytes()
    text = child_file(world).read_text()
    assert str(own / "tool-results" / "kept.txt") in text
    assert str(source.with_suffix("")) not in text
    assert {r["sessionId"] for r in records(own / "subagents" / "agent-a1.jsonl")} == {CHILD[12:]}
    backups = list((world.store / "file-history" / CHILD[12:]).iterdir())
    assert [p.read_bytes() for p in backups] == [b"old"]
    assert all(p.stat().st_nlink == 1 for p in [*own.rglob("*.*"), *backups])


async def test_a_companion_that_is_gone_is_warned_of(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("one")
    t.big_tool("Bash", {}, "large " * 9000, file="gone.txt")
    t.answer("done")
    path = t.write(world.store)
    (path.with_suffix("") / "tool-results" / "gone.txt").unlink()
    result = await service.fork_session(sid(t), CHILD)
    assert [w.code for w in result.warnings] == ["becomes_latest", "companion_missing"]
    assert "gone.txt" in result.warnings[1].message


async def test_the_path_of_a_tool_output_in_a_prompt_is_left_alone(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    folder = t.path(world.store).with_suffix("") / "tool-results"
    t.prompt(f"why is {folder}/kept.txt so large? id {t.session_id}")
    t.big_tool("Bash", {"command": f"cat {folder}/kept.txt"}, "large " * 9000, file="kept.txt")
    t.answer(f'{{"sessionId":"{t.session_id}"}}')
    t.write(world.store)
    await service.fork_session(sid(t), CHILD)
    source, child = await turns(service, sid(t)), await turns(service, CHILD)
    assert child[0].prompt == source[0].prompt
    assert child[0].response == source[0].response
    calls = [
        i for i in (await service.read_turn(CHILD, t.prompts[0])).items if i.kind == "tool_call"
    ]
    assert str(folder) in calls[0].text


# Forks of forks


async def test_forks_can_be_forked_at_once_and_again(service: Service, world: World) -> None:
    t = told(world, "one", "two", "three")
    parent = sid(t)
    for number in range(1, 4):
        await service.fork_session(parent, new_id(number))
        parent = new_id(number)
    await service.fork_session(sid(t), new_id(4))
    for number in range(1, 5):
        assert await prompts(service, new_id(number)) == ["one", "two", "three"]
    session = (await service.get_session(new_id(3))).session
    assert session.forked_from is not None
    assert session.forked_from.session_id == new_id(2)


async def test_a_staged_fork_can_be_forked(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    await service.fork_session(sid(t), new_id(1), stage=True)
    await service.fork_session(new_id(1), new_id(2), at=Boundary(turn_number=1))
    assert await prompts(service, new_id(2)) == ["one"]


async def test_what_a_child_says_later_is_not_in_its_source(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    source = t.path(world.store).read_bytes()
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1))
    path = child_file(world)
    last = records(path)[-3]
    more = Transcript(str(world.cwd), session_id=CHILD[12:], seed=9)
    more.branch_from(last["uuid"])
    more.turns(10, first=3)
    with path.open("ab") as file:
        file.write(more.dump())
    assert t.path(world.store).read_bytes() == source
    assert len(await prompts(service, CHILD)) == 11
    assert await prompts(service, sid(t)) == ["one", "two"]


# The same request again


async def test_the_same_request_gets_its_recorded_answer(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    how = {"at": Boundary(turn_number=1), "title": "mine"}
    first = await service.fork_session(sid(t), CHILD, **how)  # type: ignore[arg-type]
    data = child_file(world).read_bytes()
    t.turn("three")
    t.write(world.store)
    again = await service.fork_session(sid(t), CHILD, wait_ms=5, expect_revision="x", **how)  # type: ignore[arg-type]
    assert again.status == "already_forked"
    for name in ("operation_id", "turns", "records_copied", "bytes_copied", "dropped_prompt"):
        assert getattr(again, name) == getattr(first, name)
    assert child_file(world).read_bytes() == data
    assert len((await service.list_operations()).operations) == 1


async def test_the_answer_to_a_repeated_request_shows_the_session_as_it_is_now(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD)
    await service.rewind(CHILD, Boundary(by=1))
    again = await service.fork_session(sid(t), CHILD)
    assert again.turns.kept == 2
    assert again.session is not None
    assert again.session.turn_count == 1


async def test_a_relative_boundary_is_not_resolved_again(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD, at=Boundary(latest=True))
    t.turn("three")
    t.write(world.store)
    again = await service.fork_session(sid(t), CHILD, at=Boundary(latest=True))
    assert (again.status, again.turns.kept) == ("already_forked", 2)
    assert (await service.fork_session(sid(t), CHILD)).status == "already_forked"


@pytest.mark.parametrize(
    "other",
    [
        {"at": Boundary(turn_number=2)},
        {"title": "other"},
        {"stage": True},
        {"bridge_gaps": True},
        {"cwd": "/"},
    ],
)
async def test_another_request_with_the_same_id_is_refused(
    service: Service, world: World, other: dict[str, Any]
) -> None:
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1))
    with pytest.raises(SessionExists) as caught:
        await service.fork_session(sid(t), CHILD, **{"at": Boundary(turn_number=1), **other})
    assert caught.value.data["session_id"] == CHILD


async def test_the_id_of_any_session_is_taken(service: Service, world: World) -> None:
    t = told(world, "one")
    other = told(world, "other", seed=2)
    before = store_hash(world.store)
    for taken in (sid(t), sid(other)):
        with pytest.raises(SessionExists):
            await service.fork_session(sid(t), taken)
    assert store_hash(world.store) == before


async def test_ids_of_children_that_are_gone_stay_taken(service: Service, world: World) -> None:
    t = told(world, "one")
    discarded, undone, deleted = (new_id(n) for n in (1, 2, 3))
    await service.fork_session(sid(t), discarded, stage=True)
    await service.discard_session(discarded)
    result = await service.fork_session(sid(t), undone)
    await service.undo(operation_id=result.operation_id)
    await service.fork_session(sid(t), deleted)
    child_file(world, deleted).unlink()
    for taken in (discarded, undone):
        with pytest.raises(SessionExists):
            await service.fork_session(sid(t), taken, stage=taken == discarded)
    with pytest.raises((SessionExists, SessionNotFound)):
        await service.fork_session(sid(t), deleted)


async def test_a_fork_that_was_refused_leaves_its_id_free(service: Service, world: World) -> None:
    t = told(world, "one")
    with pytest.raises(BoundaryOutOfRange):
        await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=9))
    await service.fork_session(sid(t), CHILD)


async def test_a_revision_that_has_passed_is_refused(service: Service, world: World) -> None:
    t = told(world, "one")
    revision = (await service.get_session(sid(t))).session.revision
    t.turn("two")
    t.write(world.store)
    with pytest.raises(StaleRevision) as caught:
        await service.fork_session(sid(t), CHILD, expect_revision=revision)
    assert caught.value.data["expected"] == revision
    now = caught.value.data["actual"]
    await service.fork_session(sid(t), CHILD, expect_revision=now)


# Previews and refusals


async def test_a_preview_writes_nothing_and_leaves_the_id_free(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    before = store_hash(world.store)
    result = await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1), dry_run=True)
    assert store_hash(world.store) == before
    assert (result.status, result.session, result.operation_id) == ("preview", None, None)
    assert (result.turns.kept, result.dropped_prompt) == (1, "two")
    assert result.records_copied > 0
    assert result.bytes_copied > 500
    assert result.resume.command == ["claude", "--resume", CHILD[12:]]
    assert (await service.list_operations()).operations == []
    await service.fork_session(sid(t), CHILD)


async def test_a_working_directory_of_its_own_is_not_built_yet(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    await service.fork_session(sid(t), CHILD, workspace={"mode": "none"})
    with pytest.raises(Unsupported) as caught:
        await service.fork_session(sid(t), new_id(2), workspace={"mode": "worktree"})
    assert caught.value.data["operation"] == "fork_session"


async def test_a_subagent_is_forked_with_its_parent_only(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("go")
    t.subagent("look", "looked", agent_id="ab12")
    t.answer("done")
    t.write(world.store)
    with pytest.raises(Unsupported):
        await service.fork_session("claude-code:agent-ab12", CHILD)


async def test_kept_turns_that_cross_a_gap_are_joined_only_by_choice(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    missing = t.messages()[3]["uuid"]
    third = t.prompts[2]
    t.drop(missing)
    t.write(world.store)
    before = store_hash(world.store)
    with pytest.raises(SessionDamaged) as caught:
        await service.fork_session(sid(t), CHILD)
    (finding,) = caught.value.data["findings"]
    assert (finding.code, finding.line, finding.repair) == ("missing_parent", 4, "bridge_gaps")
    assert missing in finding.message
    assert store_hash(world.store) == before
    # Above the gap there is none.
    await service.fork_session(sid(t), new_id(2), at=Boundary(turn_number=2))
    assert await prompts(service, new_id(2)) == ["one", "two"]
    bridged = await service.fork_session(sid(t), CHILD, bridge_gaps=True)
    assert "gaps_bridged" in [w.code for w in bridged.warnings]
    assert await prompts(service, CHILD) == ["one", "two", "three"]
    page = await service.list_turns(CHILD)
    assert page.gaps == []
    assert page.session.state == "ready"
    joined = next(r for r in records(child_file(world)) if r.get("uuid") == third)
    assert joined["parentUuid"] == t.prompts[1]


async def test_a_gap_at_the_root_is_none_that_kept_turns_cross(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two", "three")
    t.drop(*[r["uuid"] for r in t.messages()[:2]])
    t.write(world.store)
    await service.fork_session(sid(t), CHILD)
    assert await prompts(service, CHILD) == ["two", "three"]


async def test_damage_in_dropped_turns_does_not_stop_a_fork(service: Service, world: World) -> None:
    t = told(world, "one", "two", "three", "four")
    t.drop(t.messages()[5]["uuid"])
    t.append(b'{"torn')
    t.write(world.store)
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=2))
    page = await service.list_turns(CHILD)
    assert ([x.prompt for x in page.turns], page.session.state) == (["one", "two"], "ready")


async def test_a_fork_that_carries_what_its_agent_may_be_refused_for_says_so(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    t.prompt("two")
    call = t.tool("Bash", {"command": "x"}, None)
    t.thinking("signed", "so")
    t.thinking("of another model", "so", signature="")
    t.prompt("three")
    t.tool("Bash", {"command": "still at work"}, None)
    t.write(world.store)
    preview = await service.fork_session(sid(t), CHILD, dry_run=True)
    assert "dangling_calls" in [w.code for w in preview.warnings]
    made = await service.fork_session(sid(t), CHILD)
    told_of = {w.code: w.message for w in made.warnings}
    assert call.id in told_of["dangling_calls"] and told_of["dangling_calls"].startswith("1 tool")
    assert told_of["unsigned_thinking"].startswith("1 thinking block ")
    assert all("repair_session" in told_of[c] for c in ("dangling_calls", "unsigned_thinking"))


@pytest.mark.parametrize("at", [1, 3])
async def test_a_fork_that_carries_nothing_of_the_kind_does_not_warn_of_it(
    service: Service, world: World, at: int
) -> None:
    t = told(world, "one")
    t.prompt("two")
    t.thinking('signed \\" \n', "so")
    t.prompt("three")
    t.tool("Bash", {"command": "still at work"}, None)
    t.write(world.store)
    result = await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=at))
    assert [w.code for w in result.warnings] == ["becomes_latest"]


async def test_damage_that_leaves_no_turn_is_not_forked_into_an_empty_session(
    service: Service, world: World
) -> None:
    case = CASES["f020_utf16_little_endian"](world)
    before = store_hash(world.store)
    with pytest.raises(SessionDamaged, match=r"No turn of .* can be read.*repair_session"):
        await service.fork_session(case.session_id, CHILD)
    assert store_hash(world.store) == before
    # Who asks for no turns gets none.
    result = await service.fork_session(case.session_id, CHILD, at=Boundary(turn_number=0))
    assert result.turns.kept == 0
