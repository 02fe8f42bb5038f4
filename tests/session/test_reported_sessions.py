"""Lists, places, compactions, forks and rewinds as people reported them, with what is right.

A docstring names the report (repository#number) that the input comes from.  Reports whose
case stands beside the verb it tests: test_listing.py, test_forking.py, test_rewinding.py,
test_undoing.py.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from session.errors import BoundaryOutOfRange, TurnNotFound
from session.model import Boundary
from session.service import Service
from tests.builders import Transcript
from tests.chain import slug
from tests.session.telling import new_id, prompts, sid, titles, told, turns
from tests.world import World

CHILD = new_id()


def records(world: World, session_id: str = CHILD) -> list[dict[str, Any]]:
    (path,) = (world.store / "projects").glob(f"*/{session_id[12:]}.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# Listed


async def test_the_list_depends_on_no_front_end_and_no_version(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#21759: 1 of 487 sessions shown."""
    entrypoints = ("cli", "sdk-cli", "claude-vscode", "sdk-ts", "sdk-py", "something-new")
    for number in range(120):
        t = Transcript(
            str(world.cwd),
            seed=number,
            entrypoint=entrypoints[number % 6],
            version=f"{number % 3}.{number}.0",
        )
        t.turn(f"p{number}")
        t.write(world.store)
    page = await service.list_sessions(limit=500, kinds=["main", "sdk"])
    assert len(page.sessions) == 120
    assert len((await service.list_sessions(limit=500)).sessions) == 80


async def test_what_cannot_be_resumed_says_so(service: Service, world: World) -> None:
    """phnx-labs/agi-cli PR#3633 and others: dead rows offered as resumable."""
    gone = world.home / "gone"
    gone.mkdir()
    t = told(world, "one", cwd=str(gone))
    assert (await service.get_session(sid(t))).session.resume.resumable
    gone.rmdir()
    resume = (await service.get_session(sid(t))).session.resume
    assert (resume.resumable, resume.reason) == (False, f"its directory {gone} does not exist")
    assert (await service.list_sessions()).sessions[0].resume == resume
    # A fork into a directory that is there can be.
    forked = await service.fork_session(sid(t), CHILD, cwd=str(world.cwd))
    assert forked.resume.resumable


async def test_one_project_under_two_names_is_one_project(service: Service, world: World) -> None:
    """anthropics/claude-code#62276: a link and its target have folders of their own."""
    link = world.home / "link"
    link.symlink_to(world.cwd)
    told(world, "by the target")
    told(world, "by the link", seed=2, cwd=str(link))
    assert len(list((world.store / "projects").iterdir())) == 2
    for cwd in (link, world.cwd):
        assert set(await titles(service, cwd=str(cwd))) == {"by the target", "by the link"}


async def test_a_project_that_moved_in_mid_session_tells_both_places(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#81603: the file lies under the old place, its records say the new."""
    old, new = world.home / "old", world.home / "new"
    new.mkdir()
    t = Transcript(str(old))
    t.turn("before the move")
    t.cwd = str(new)
    t.turn("after the move")
    t.write(world.store)
    session = (await service.get_session(sid(t))).session
    assert (session.cwd, session.last_cwd) == (str(old), str(new))
    assert await titles(service, cwd=str(new)) == ["before the move"]
    # It is found from the old place only, which is gone: a fork into the new one goes on.
    assert not session.resume.resumable
    forked = await service.fork_session(sid(t), CHILD, cwd=str(new))
    assert (forked.resume.resumable, forked.resume.cwd) == (True, str(new))


async def test_a_session_that_was_moved_by_renaming_its_file_is_resumed_where_it_went(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#58475: a move is a rename, no record is rewritten."""
    new = world.home / "new"
    new.mkdir()
    t = told(world, "one")
    path = t.path(world.store)
    target = path.parent.with_name(slug(str(new)))
    target.mkdir()
    path.rename(target / path.name)
    with (target / path.name).open("ab") as file:
        record = {"type": "relocated", "relocatedCwd": str(new), "sessionId": t.session_id}
        file.write(json.dumps(record).encode() + b"\n")
    session = (await service.get_session(sid(t))).session
    assert (session.cwd, session.last_cwd) == (str(world.cwd), str(new))
    assert (session.resume.cwd, session.resume.resumable) == (str(new), True)


# Compacted


def compacted(world: World, **how: Any) -> Transcript:
    t = told(world, "one", "two")
    t.compact(**how)
    t.turn("three", "answer to three")
    t.turn("four", "answer to four")
    t.write(world.store)
    return t


async def test_ids_that_a_compaction_names_are_there_in_a_fork(
    service: Service, world: World
) -> None:
    """getpaseo/paseo#3837: stale ids in the metadata made the whole history active again."""
    t = compacted(world)
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=3))
    found = records(world)
    present = {r["uuid"] for r in found if "uuid" in r}
    (boundary,) = (r for r in found if r.get("subtype") == "compact_boundary")
    named = boundary["compactMetadata"]
    wanted = {
        boundary["logicalParentUuid"],
        *named["preservedSegment"].values(),
        named["preservedMessages"]["anchorUuid"],
        *named["preservedMessages"]["uuids"],
    }
    assert wanted <= present


async def test_a_fork_of_a_compacted_session_is_as_compacted_as_its_source(
    service: Service, world: World
) -> None:
    """get-bb/bb#3185: the fork compacts again at once."""
    t = compacted(world)
    await service.fork_session(sid(t), CHILD)
    flags = [x.compacted for x in await turns(service, sid(t))]
    assert [x.compacted for x in await turns(service, CHILD)] == flags == [True, True, False, False]


async def test_the_fork_before_a_compaction_has_nothing_of_it(
    service: Service, world: World
) -> None:
    """patriceckhart/zot PR#30: an index into the compacted list applied to the raw one."""
    t = compacted(world, summary="the summary of it all")
    for number, kept in enumerate((["one"], ["one", "two"])):
        child = new_id(number)
        await service.fork_session(sid(t), child, at=Boundary(turn_number=len(kept)))
        assert await prompts(service, child) == kept
        text = json.dumps(records(world, child))
        assert "compact_boundary" not in text
        assert "the summary of it all" not in text


async def test_a_history_of_many_rewinds_and_roots_is_all_there_after_a_compaction(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#24471: 275 branch points, three roots, rewind history lost."""
    t = Transcript(str(world.cwd), seed=3)
    roots = []
    for root in range(3):
        t.branch_from(None)
        t.turn(f"root {root}")
        roots.append(t.head)
        for number in range(90):
            t.branch_from(roots[root])
            t.turn(f"branch {root}.{number}")
    t.branch_from(roots[2])
    t.turn("the main path")
    t.compact()
    t.turn("after it")
    t.last_prompt("after it")
    t.write(world.store)
    assert await prompts(service, sid(t)) == ["root 2", "the main path", "after it"]
    branches = (await service.list_branches(sid(t))).branches
    assert len(branches) == 271
    assert sum(b.active for b in branches) == 1
    session = (await service.get_session(sid(t))).session
    assert (session.branch_count, session.turn_count) == (271, 3)


async def test_a_title_from_before_a_compaction_names_the_fork_too(
    service: Service, world: World
) -> None:
    """Ruya-AI/cozempic#35: metadata before the last boundary is lost."""
    t = told(world, "one")
    t.custom_title("Networking")
    t.compact()
    t.turn("two")
    t.write(world.store)
    assert await titles(service) == ["Networking"]
    forked = await service.fork_session(sid(t), CHILD)
    assert forked.session is not None
    assert forked.session.title == "Networking (fork)"


async def test_a_compaction_that_nothing_followed_is_kept_by_a_fork_of_all(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#14462: killed right after compacting, resumed as if never."""
    t = told(world, "one", "two")
    t.compact()
    t.write(world.store)
    assert [x.compacted for x in await turns(service, sid(t))] == [True, True]
    await service.fork_session(sid(t), CHILD)
    assert [x.compacted for x in await turns(service, CHILD)] == [True, True]
    await service.rewind(sid(t), Boundary(turn_number=1))
    assert [x.compacted for x in await turns(service, sid(t))] == [False]


# Forked


async def test_a_fork_holds_nothing_of_what_came_after_its_point(
    service: Service, world: World
) -> None:
    """openai/codex#21025: later turns of the parent in the child."""
    t = Transcript(str(world.cwd))
    for number in range(1, 11):
        t.queue_operation("enqueue", f"secret {number}")
        t.prompt(f"secret {number}")
        t.tool("Bash", {"command": f"secret {number}"}, f"secret {number}")
        t.answer(f"secret {number}")
        t.last_prompt(f"secret {number}")
        t.ai_title(f"about {number}")
    t.write(world.store)
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=4))
    text = json.dumps(records(world))
    assert [n for n in range(1, 11) if f'secret {n}"' in text] == [1, 2, 3, 4]


async def test_a_fork_leaves_abandoned_branches_behind_and_says_its_size_before(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#85179: forks that copy 90 % of what nobody will read."""
    t = told(world, "one", "two")
    for number in range(50):
        t.branch_from(str(t.messages()[1]["uuid"]))
        t.turn(f"abandoned {number}", "x" * 10_000)
    t.branch_from(str(t.messages()[3]["uuid"]))
    t.turn("three")
    t.last_prompt("three")
    path = t.write(world.store)
    preview = await service.fork_session(sid(t), CHILD, dry_run=True)
    result = await service.fork_session(sid(t), CHILD)
    assert result.bytes_copied < path.stat().st_size / 50
    assert 0 < preview.bytes_copied <= result.bytes_copied
    assert len((await service.list_branches(CHILD)).branches) == 1


async def test_one_fork_after_another_has_all_turns(service: Service, world: World) -> None:
    """anthropics/claude-code#85875: after the first fork, each next one is empty."""
    t = told(world, "one", "two")
    t.ai_title("a name")
    t.write(world.store)
    for number, source in enumerate([sid(t), new_id(0), sid(t), new_id(1)]):
        await service.fork_session(source, new_id(number))
        assert await prompts(service, new_id(number)) == ["one", "two"]


async def test_a_turn_that_is_in_another_session_is_not_found(
    service: Service, world: World
) -> None:
    """hAcKlyc/MyAgents#220 and nesquena/hermes-webui#2472: a wrong place is an error, no copy."""
    t = told(world, "one", "two")
    other = told(world, "other", seed=2)
    with pytest.raises(TurnNotFound):
        await service.fork_session(sid(t), CHILD, at=Boundary(through_turn=other.prompts[0]))
    with pytest.raises(BoundaryOutOfRange):
        await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=143))
    assert len((await service.list_sessions()).sessions) == 2


async def test_a_fork_is_there_after_a_restart(service: Service, world: World) -> None:
    """anthropics/claude-code#69272: forked session lost."""
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1))
    later = await Service.open(home=world.state)
    try:
        await later.sweep()
        session = (await later.get_session(CHILD)).session
        assert session.resume.resumable
        assert session.forked_from is not None
        assert (session.forked_from.session_id, session.forked_from.turn_number) == (sid(t), 1)
        assert await titles(later, forked_from=sid(t)) == ["one (fork)"]
    finally:
        await later.close()


async def test_lineage_outlives_turntrees_own_database(service: Service, world: World) -> None:
    """anthropics/claude-code#67889: where does this session come from?"""
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1))
    await service.close()
    elsewhere = await Service.open(home=world.home / "another state")
    try:
        session = (await elsewhere.get_session(CHILD)).session
    finally:
        await elsewhere.close()
    assert session.forked_from is not None
    assert session.forked_from.session_id == sid(t)
    assert session.forked_from.turn_id == t.prompts[0]
    assert session.forked_from.turn_number == 1


async def test_a_fork_before_a_message_hands_its_text_back(service: Service, world: World) -> None:
    """agentclientprotocol/agent-client-protocol PR#941: branch right before the message."""
    t = Transcript(str(world.cwd))
    t.turn("one")
    second = t.turn("two\nlines, 新聞 😀")
    t.write(world.store)
    result = await service.fork_session(sid(t), CHILD, at=Boundary(before_turn=second))
    assert result.dropped_prompt == "two\nlines, 新聞 😀"
    assert await prompts(service, CHILD) == ["one"]


# Rewound


async def test_a_rewind_holds_when_the_process_ends_right_after_it(
    service: Service, world: World
) -> None:
    """can1357/oh-my-pi PR#11663: the new leaf was in memory only."""
    t = told(world, "one", "two")
    await service.rewind(sid(t), Boundary(by=1))
    await service.close()
    later = await Service.open(home=world.home / "another state")
    try:
        assert await prompts(later, sid(t)) == ["one"]
    finally:
        await later.close()


async def test_a_rewind_touches_no_file_but_the_sessions(service: Service, world: World) -> None:
    """anthropics/claude-code#64615: a rewind that restores code when nobody asked."""
    t = Transcript(str(world.cwd))
    edited = world.cwd / "a.py"
    edited.write_text("what a person wrote since")
    os.utime(edited, (1_600_000_000, 1_600_000_000))
    t.turn("one")
    t.prompt("two")
    t.write_file(str(edited), "new", before="old")
    t.answer("done")
    t.write(world.store)
    result = await service.rewind(sid(t), Boundary(by=1))
    assert result.files == []
    assert edited.read_text() == "what a person wrote since"
    assert edited.stat().st_mtime == 1_600_000_000
    await service.undo(sid(t))
    assert edited.read_text() == "what a person wrote since"


async def test_after_a_rewind_the_old_end_has_a_name_and_can_be_forked(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#55347: the original end vanished."""
    t = told(world, "one", "two", "three")
    end = str(t.head)
    await service.rewind(sid(t), Boundary(turn_number=1))
    left = next(b for b in (await service.list_branches(sid(t))).branches if not b.active)
    assert left.leaf_id == end
    last = (await service.list_turns(sid(t), branch=left.leaf_id)).turns[-1]
    await service.fork_session(sid(t), CHILD, at=Boundary(through_turn=last.turn_id))
    assert await prompts(service, CHILD) == ["one", "two", "three"]


async def test_a_prompt_of_five_hundred_characters_of_any_script_is_cut_between_characters(
    service: Service, world: World
) -> None:
    """charmbracelet/crush PR#2563: a preview cut in the middle of a character."""
    text = "日本語😀한국어" * 70
    t = told(world, text)
    (turn,) = await turns(service, sid(t))
    assert turn.prompt == text[:199] + "…"
    assert turn.prompt_bytes == len(text.encode())
    result = await service.rewind(sid(t), Boundary(by=1), dry_run=True)
    assert result.dropped_prompt == text


async def test_a_preview_names_the_turns_that_would_go(service: Service, world: World) -> None:
    """heypandax/pairlet#282: a dry run first."""
    t = Transcript(str(world.cwd))
    t.turn("one")
    t.prompt("two")
    t.write_file(f"{t.cwd}/a.py", "x")
    t.answer("done")
    path = t.write(world.store)
    before = path.read_bytes()
    result = await service.rewind(sid(t), Boundary(by=1), dry_run=True)
    assert [(x.prompt, x.tool_calls, x.files) for x in result.dropped] == [("two", 1, ["a.py"])]
    assert path.read_bytes() == before
