"""Broken chains and files as people reported them, each with what is right.

A docstring names the report (repository#number) that the input comes from.  Reports whose
case stands beside the room it tests: agents/claude_code/test_live_branch.py,
test_transcript_files.py, test_records.py.
"""

from __future__ import annotations

import os

import pytest

from session.errors import SessionDamaged, TurnNotFound
from session.model import Boundary
from session.service import Service
from tests.builders import Transcript
from tests.chain import to_json
from tests.session.agents.spelling import members
from tests.session.telling import new_id, prompts, sid, told, turns
from tests.world import World

CHILD = new_id()
NOWHERE = "11111111-1111-4111-8111-111111111111"


def message_of(line: bytes) -> bytes:
    """The bytes of a record's message."""
    (member,) = (m for m in members(line) if m.key == "message")
    return line[member.start : member.end]


def uuids(t: Transcript) -> list[str]:
    return [str(record["uuid"]) for record in t.messages()]


async def test_records_that_were_never_written_hide_no_turn_before_them(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#58554: a few records missing, most of the session gone on resume."""
    texts = [f"p{n}" for n in range(100)]
    t = told(world, *texts)
    t.drop(*uuids(t)[99:102])
    t.write(world.store)
    page = await service.list_turns(sid(t), limit=500)
    assert [x.prompt for x in page.turns] == texts[:50] + texts[51:]
    assert [(g.line, g.before_turn_id) for g in page.gaps] == [(100, page.turns[50].turn_id)]
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1))
    assert await prompts(service, CHILD) == ["p0"]
    await service.rewind(sid(t), Boundary(turn_number=1))
    assert await prompts(service, sid(t)) == ["p0"]


async def test_the_newest_turns_are_the_last_ones_whatever_a_compaction_points_at(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#46603: the summary's parent was never written, old turns shown."""
    t = told(world, "old 1", "old 2")
    boundary = t.compact(preserved=[])
    t.find(t.find_summary(boundary))["parentUuid"] = NOWHERE
    for number in range(50):
        t.turn(f"new {number}")
    t.write(world.store)
    page = await service.list_turns(sid(t), order="newest", limit=3)
    assert [x.prompt for x in page.turns] == ["new 49", "new 48", "new 47"]
    assert page.total_turns == 52


@pytest.mark.parametrize("kind", ["sidechain", "progress"])
async def test_a_retry_below_a_subagents_record_keeps_what_was_said_before(
    service: Service, world: World, kind: str
) -> None:
    """anthropics/claude-code#37437: a retried prompt hangs off a subagent's record."""
    t = told(world, "one", "two")
    third = t.prompt("three")
    if kind == "sidechain":
        below = t.sidechain("look", "looked")
    else:
        below = t.message({"type": "progress", "data": {"type": "agent_progress"}}, parent=third)
    t.prompt("three", parent=below)
    t.answer("done")
    t.write(world.store)
    texts = await prompts(service, sid(t))
    assert texts[:2] == ["one", "two"]
    assert texts[-1] == "three"
    await service.fork_session(sid(t), CHILD, bridge_gaps=True)
    assert await prompts(service, CHILD) == texts


async def test_four_records_of_which_one_follows_nothing(service: Service, world: World) -> None:
    """anthropics/claude-code#21617: broken after four messages."""
    t = Transcript(str(world.cwd))
    t.turn("one")
    second = t.prompt("two", parent=NOWHERE)
    t.answer("done")
    t.write(world.store)
    page = await service.list_turns(sid(t))
    assert [x.prompt for x in page.turns] == ["one", "two"]
    assert [(g.missing, g.before_turn_id, g.line) for g in page.gaps] == [(NOWHERE, second, 3)]
    await service.fork_session(sid(t), CHILD, bridge_gaps=True)
    assert await prompts(service, CHILD) == ["one", "two"]


async def test_a_lost_rewind_does_not_come_back_by_itself(service: Service, world: World) -> None:
    """QwenLM/qwen-code#6501: the missing record may be where a person rewound."""
    t = told(world, "kept", "rewound away")
    marker = t.system("informational", content="rewound to turn 1")
    t.turn("after the rewind")
    t.drop(marker)
    t.write(world.store)
    with pytest.raises(SessionDamaged):
        await service.fork_session(sid(t), CHILD)
    for boundary in (Boundary(turn_number=3), Boundary(through_turn=t.prompts[2])):
        with pytest.raises(SessionDamaged):
            await service.fork_session(sid(t), CHILD, at=boundary)


async def test_every_leaf_of_a_file_can_be_listed_and_forked(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#19451: branches that no list shows."""
    t = told(world, "one", "two")
    first = uuids(t)[1]
    for text in ("2b", "2c"):
        t.branch_from(first)
        t.turn(text)
    t.last_prompt("2c")
    t.write(world.store)
    branches = (await service.list_branches(sid(t))).branches
    assert {b.last_prompt for b in branches} == {"two", "2b", "2c"}
    assert all(b.updated_at for b in branches)
    for number, branch in enumerate(branches):
        last = (await service.list_turns(sid(t), branch=branch.leaf_id)).turns[-1]
        at = Boundary(through_turn=last.turn_id)
        await service.fork_session(sid(t), new_id(number), at=at)
        assert await prompts(service, new_id(number)) == ["one", branch.last_prompt]


async def test_the_number_in_the_list_is_the_number_that_is_rewound_to(
    service: Service, world: World
) -> None:
    """1jehuang/jcode#432: rewinding to 359 of 360 went to prompt 29."""
    t = Transcript(str(world.cwd))
    for number in range(1, 361):
        t.prompt(f"p{number}")
        for _ in range(10):
            t.tool("Bash", {}, "ok")
        t.answer("done")
    t.write(world.store)
    (wanted,) = (x for x in await turns(service, sid(t)) if x.turn_number == 359)
    assert wanted.prompt == "p359"
    result = await service.rewind(sid(t), Boundary(turn_number=359))
    assert [x.prompt for x in result.dropped] == ["p360"]
    assert (await turns(service, sid(t)))[-1].turn_id == wanted.turn_id


async def test_one_prompt_with_all_that_the_program_writes_around_it_is_one_turn(
    service: Service, world: World
) -> None:
    """mindsdb/anton PR#262 and others: tool results and summaries counted as turns."""
    t = Transcript(str(world.cwd))
    t.prompt("the only one")
    t.tool("Bash", {}, "ok")
    t.answer("done")
    t.meta("a reminder")
    t.compact()
    t.write(world.store)
    assert await prompts(service, sid(t)) == ["the only one"]


async def test_text_beside_a_tool_result_splits_no_turn_and_no_pair(
    service: Service, world: World
) -> None:
    """QwenLM/qwen-code PR#4580: a prompt merged into the record of a tool result."""
    t = Transcript(str(world.cwd))
    t.prompt("one")
    call = t.tool("Bash", {}, "ok")
    t.find(str(call.result))["message"]["content"].append({"type": "text", "text": "also do X"})
    t.answer("both")
    t.turn("two")
    t.write(world.store)
    assert await prompts(service, sid(t)) == ["one", "two"]
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1))
    read = (await service.read_turn(CHILD, t.prompts[0])).items
    assert [i.text for i in read] == ["one", "{}", "ok", "also do X", "both"]


async def test_a_fork_point_stays_what_it_was_while_the_session_goes_on(
    service: Service, world: World
) -> None:
    """can1357/oh-my-pi#7474: a leaf captured before a wait cut a later history at a tool call."""
    t = told(world, "one", "two")
    captured = t.prompts[1]
    call = t.tool("Bash", {}, "ok")
    t.answer("more of turn two")
    for number in range(20):
        t.turn(f"later {number}")
    t.write(world.store)
    await service.fork_session(sid(t), CHILD, at=Boundary(through_turn=captured))
    assert [x.response for x in await turns(service, CHILD)][-1] == "more of turn two"
    with pytest.raises(TurnNotFound):
        await service.fork_session(sid(t), new_id(2), at=Boundary(through_turn=call.use))


async def test_a_compaction_on_a_branch_does_not_reach_another(
    service: Service, world: World
) -> None:
    """Kohaku-Lab/KohakuTerrarium#111: compaction that knew of no branches."""
    t = told(world, "one", "two", "three")
    second = uuids(t)[3]
    t.compact(preserved=[])
    t.turn("after")
    t.branch_from(second)
    t.turn("3b")
    t.turn("4b")
    t.last_prompt("4b")
    t.write(world.store)
    assert [x.compacted for x in await turns(service, sid(t))] == [False] * 4
    await service.rewind(sid(t), Boundary(by=1))
    assert await prompts(service, sid(t)) == ["one", "two", "3b"]
    await service.fork_session(sid(t), CHILD)
    (path,) = (world.store / "projects").glob(f"*/{CHILD[12:]}.jsonl")
    assert b"compact_boundary" not in path.read_bytes()


async def test_a_stub_before_a_record_costs_the_stub_alone(service: Service, world: World) -> None:
    """anthropics/claude-code#52387: one bad line of 2,800 and the session does not load."""
    t = told(world, "one", "two")
    third = t.prompt("three")
    t.answer("done")
    at = t.records.index(t.find(third))
    t.records[at] = to_json(t.records[0])[:40] + to_json(t.records[at])
    path = t.write(world.store)
    before = path.read_bytes()
    assert await prompts(service, sid(t)) == ["one", "two", "three"]
    session = (await service.get_session(sid(t))).session
    assert (session.state, session.finding_count) == ("damaged", 1)
    await service.fork_session(sid(t), CHILD)
    assert await prompts(service, CHILD) == ["one", "two", "three"]
    assert (await service.get_session(CHILD)).session.state == "ready"
    assert path.read_bytes() == before


async def test_records_of_another_session_are_not_this_ones_turns(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#26964: every third line of A belongs to B."""
    a = told(world, "a1", "a2", "a3")
    b = told(world, "b1", "b2", "b3", seed=2)
    mixed: list[object] = []
    strays = b.messages()[2:]
    for number, record in enumerate(a.messages()):
        mixed.append(record)
        if number % 2 == 0 and strays:
            mixed.append(strays.pop(0))
    a.records = mixed  # type: ignore[assignment]
    a.write(world.store)
    assert await prompts(service, sid(a)) == ["a1", "a2", "a3"]
    assert await prompts(service, sid(b)) == ["b1", "b2", "b3"]
    await service.fork_session(sid(a), CHILD)
    assert await prompts(service, CHILD) == ["a1", "a2", "a3"]
    (path,) = (world.store / "projects").glob(f"*/{CHILD[12:]}.jsonl")
    assert b.session_id.encode() not in path.read_bytes()
    assert b'"b2"' not in path.read_bytes()


async def test_kept_records_that_carry_another_sessions_id_get_the_childs(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#81304: a fork by other means mixes two ids in one chain."""
    t = told(world, "one", "two")
    for record in t.messages()[:2]:
        record["sessionId"] = NOWHERE
        record["message"]["note"] = {"sessionId": NOWHERE}
    t.write(world.store)
    await service.fork_session(sid(t), CHILD)
    (path,) = (world.store / "projects").glob(f"*/{CHILD[12:]}.jsonl")
    lines = path.read_bytes().splitlines()
    ids = {line.rpartition(b'"sessionId":"')[2].split(b'"')[0].decode() for line in lines[:4]}
    assert ids == {CHILD[12:]}
    # Only where it says whose record it is.
    assert path.read_bytes().count(NOWHERE.encode()) == 2


async def test_records_that_were_written_twice_are_there_once(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#48936: all records from before a compaction again, without parents."""
    t = told(world, *(f"p{n}" for n in range(50)))
    before = [dict(record) for record in t.messages()]
    t.compact()
    t.turn("after")
    for record in before:
        t.append({**record, "parentUuid": None})
    t.turn("the last")
    t.write(world.store)
    page = await service.list_turns(sid(t), branch="all", limit=500)
    assert page.total_turns == 52
    assert (await service.list_turns(sid(t))).total_turns == 52
    await service.fork_session(sid(t), CHILD)
    (path,) = (world.store / "projects").glob(f"*/{CHILD[12:]}.jsonl")
    assert path.read_bytes().count(b'"p7"') == 1


async def test_a_call_without_its_result_is_carried_as_it_is_or_left_before(
    service: Service, world: World
) -> None:
    """anthropics/claude-code#45286: three parallel calls, two results, every request refused."""
    t = told(world, "one")
    broken = t.prompt("two")
    calls = t.parallel_tools([("A", {}, "ok"), ("B", {}, "ok"), ("C", {}, None)])
    t.turn("three")
    t.write(world.store)
    await service.fork_session(sid(t), CHILD, at=Boundary(before_turn=broken))
    assert await prompts(service, CHILD) == ["one"]
    # The agent drops a call that has no result when it resumes.
    await service.fork_session(sid(t), new_id(2))
    told_calls = [
        (i.kind, i.call_id) for i in (await service.read_turn(new_id(2), broken)).items[1:]
    ]
    assert told_calls == [
        *[("tool_call", call.id) for call in calls],
        *[("tool_result", call.id) for call in calls[:2]],
    ]


async def test_what_providers_put_into_a_message_is_carried_untouched(
    service: Service, world: World
) -> None:
    """can1357/oh-my-pi#2851 and anthropics/claude-code#88957: thinking without a signature; a
    server's tool whose result stands behind a reminder."""
    t = Transcript(str(world.cwd))
    t.prompt("one")
    t.blocks([{"type": "thinking", "thinking": "hm"}], model="another-model")
    t.blocks([{"type": "server_tool_use", "id": "srv1", "name": "advisor", "input": {"n": 1.0}}])
    t.meta("the session was renamed")
    t.blocks([{"type": "advisor_tool_result", "tool_use_id": "srv1", "content": {"x": None}}])
    t.answer("done")
    t.turn("two")
    path = t.write(world.store)
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1))
    (child,) = (world.store / "projects").glob(f"*/{CHILD[12:]}.jsonl")
    source, copy = path.read_bytes().splitlines(), child.read_bytes().splitlines()
    assert [message_of(line) for line in copy[:6]] == [message_of(line) for line in source[:6]]
    kinds = [i.kind for i in (await service.read_turn(CHILD, t.prompts[0])).items]
    assert kinds == ["user", "thinking", "tool_call", "event", "tool_result", "assistant"]


async def test_two_programs_that_appended_to_one_session_made_two_branches(
    service: Service, world: World
) -> None:
    """earendil-works/pi#8177: each went on from the leaf that it had seen."""
    t = told(world, "one")
    seen = t.head
    ends = {}
    for round_ in range(3):
        for writer in ("left", "right"):
            t.branch_from(ends.get(writer, seen))
            t.turn(f"{writer} {round_}")
            ends[writer] = t.head
    t.write(world.store)
    branches = (await service.list_branches(sid(t))).branches
    assert [(b.last_prompt, b.turn_count) for b in branches] == [("right 2", 4), ("left 2", 4)]
    assert branches[1].forked_at_turn_id == t.prompts[0]


async def test_a_bad_file_hides_no_other(service: Service, world: World) -> None:
    """openai/codex#28139 in this agent's store: one file with a mark breaks the whole list."""
    good = told(world, "good")
    marked = told(world, "marked", seed=2)
    torn = told(world, "torn", seed=3)
    for t, change in (
        (marked, lambda data: b"\xef\xbb\xbf" + data),
        (torn, lambda data: data[: len(data) // 2]),
    ):
        path = t.path(world.store)
        path.write_bytes(change(path.read_bytes()))
    page = await service.list_sessions()
    assert {s.title for s in page.sessions} == {"good", "marked", "torn"}
    assert page.skipped == []
    assert await prompts(service, sid(good)) == ["good"]
    assert await prompts(service, sid(torn)) == ["torn"]


async def test_looking_never_deletes_what_it_cannot_read(service: Service, world: World) -> None:
    """google-gemini/gemini-cli PR#19633: a clean-up that removed "corrupted" sessions."""
    folder = told(world, "good").path(world.store).parent
    strange = {
        folder / f"{new_id(1)[12:]}.jsonl": b"",
        folder / f"{new_id(2)[12:]}.jsonl": b"{",
    }
    for path, data in strange.items():
        path.write_bytes(data)
    orphan = folder / new_id(3)[12:] / "subagents"
    orphan.mkdir(parents=True)
    await service.sweep()
    page = await service.list_sessions(kinds=["main", "subagent", "sdk"])
    assert len(page.sessions) == 1
    assert len(page.skipped) == 2
    assert {path: path.read_bytes() for path in strange} == strange
    assert orphan.is_dir()


async def test_reading_does_not_touch_a_files_times(service: Service, world: World) -> None:
    """anthropics/claude-code#79572: lists ordered by a time that every tool's look changes."""
    t = told(world, "one", "two")
    path = t.path(world.store)
    os.utime(path, (1_600_000_000, 1_600_000_000))
    before = path.stat()
    await service.list_sessions()
    await service.list_turns(sid(t))
    await service.read_turn(sid(t), t.prompts[0])
    await service.fork_session(sid(t), CHILD)
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
