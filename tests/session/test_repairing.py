"""repair_session: what each repair makes of a damaged session, and what it leaves alone."""

from __future__ import annotations

import base64
import json
import os
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from session.errors import InvalidParams, NothingToUndo, SessionDamaged, SessionExists
from session.model import RepairResult
from session.service import Service
from tests.builders import Call, Transcript
from tests.chain import to_json
from tests.world import World, assert_untouched, store_hash

Record = dict[str, Any]


def new_id() -> str:
    return str(uuid.uuid4())


async def repair(service: Service, t: Transcript, *repairs: str, **more: Any) -> RepairResult:
    names = list(repairs) or None
    return await service.repair_session(
        f"claude-code:{t.session_id}", new_id(), repairs=names, **more
    )


def lines_of(world: World, result: RepairResult) -> list[bytes]:
    assert result.session is not None
    native = result.session.session_id.partition(":")[2]
    path = next((world.store / "projects").glob(f"*/{native}.jsonl"))
    return path.read_bytes().splitlines()


def records_of(world: World, result: RepairResult) -> list[Record]:
    return [json.loads(line) for line in lines_of(world, result)]


def chain_of(world: World, result: RepairResult) -> list[Record]:
    """The records from the root to the leaf, as parents name each other."""
    found = records_of(world, result)
    by_id = {r["uuid"]: r for r in found if "uuid" in r}
    at = found[-1]["leafUuid"]
    chain: list[Record] = []
    while at is not None:
        chain.append(by_id[at])
        at = by_id[at]["parentUuid"]
    return chain[::-1]


def said(record: Record) -> str:
    content = record["message"]["content"]
    if isinstance(content, str):
        return content
    kinds = [block["type"] for block in content]
    texts = [block["text"] for block in content if block["type"] == "text"]
    return "/".join(texts or kinds)


def counts(result: RepairResult) -> dict[str, int]:
    return {repaired.repair: repaired.count for repaired in result.repairs}


async def prompts(service: Service, result: RepairResult) -> list[str]:
    assert result.session is not None
    page = await service.list_turns(result.session.session_id)
    assert page.gaps == []
    assert page.session.finding_count == 0
    return [turn.prompt for turn in page.turns]


def glued(t: Transcript) -> None:
    """The last but one record was cut short, and the last one is on the same line."""
    stub, whole = t.records[-2], t.records[-1]
    assert isinstance(stub, dict) and isinstance(whole, dict)
    t.records[-2:] = [to_json(stub)[:60] + to_json(whole)]


@pytest.mark.asyncio
async def test_a_whole_record_behind_a_stub_is_recovered_and_the_stub_left_out(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    t.mode()
    t.turn("question 3")
    t.records.insert(-2, {"type": "pr-link", "sessionId": t.session_id, "prNumber": 7})
    stub, prompt, answer = t.records[-3:]
    t.records[-3:] = [to_json(stub)[:40] + to_json(prompt), answer]
    t.write(world.store)
    before = store_hash(world.store)

    result = await repair(service, t)

    assert_untouched(before, world.store)
    assert result.status == "forked"
    assert counts(result) == {"recover_lines": 1}
    assert await prompts(service, result) == ["question 1", "question 2", "question 3"]
    assert result.session is not None
    assert result.session.title == "question 1 (repaired)"
    assert result.session.forked_from is not None
    assert result.session.forked_from.session_id == f"claude-code:{t.session_id}"
    assert result.session.forked_from.turn_number == 3


@pytest.mark.asyncio
async def test_lines_that_need_nothing_stay_as_they_are_but_for_the_session_id(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd), entrypoint="cli")
    t.turn("one")
    t.records.append(to_json(t.records[-1])[:50])
    raw = (
        b'{"x": 1.50,  "parentUuid":"%s","isSidechain":false,"type":"user","message":'
        b'{"role":"user","content":"caf\\u00e9 \\ud83d"},"uuid":"%s",'
        b'"timestamp":"2026-01-31T10:00:00.000Z","sessionId": "%s", "unknown":{"a":[1e5]}}'
    ) % (str(t.head).encode(), new_id().encode(), t.session_id.encode())
    t.append(raw)
    t.write(world.store)

    result = await repair(service, t)

    assert result.session is not None
    native = result.session.session_id.partition(":")[2]
    assert raw.replace(t.session_id.encode(), native.encode()) in lines_of(world, result)


@pytest.mark.asyncio
async def test_a_gap_is_joined_by_the_record_before_it(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    lost = t.head
    t.turns(2, first=3)
    t.drop(str(lost))
    t.write(world.store)

    result = await repair(service, t)

    assert counts(result) == {"bridge_gaps": 1}
    assert await prompts(service, result) == [f"question {n}" for n in range(1, 5)]
    assert len(chain_of(world, result)) == 7


@pytest.mark.asyncio
async def test_a_cut_at_gaps_keeps_whole_turns_after_the_newest_one(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("question 1")
    t.drop(t.prompts[0])
    t.prompt("question 2")
    t.tool("Bash", {"command": "ls"}, "a")
    lost = str(t.head)
    t.answer("answer 2")
    t.drop(lost)
    t.turns(2, first=3)
    t.write(world.store)

    result = await repair(service, t, "cut_gaps", "close_calls")

    assert counts(result) == {"cut_gaps": 1}
    assert await prompts(service, result) == ["question 3", "question 4"]
    assert result.turns.kept == 2
    assert chain_of(world, result)[0]["parentUuid"] is None
    assert result.session is not None and result.session.forked_from is not None
    assert result.session.forked_from.turn_number == 3


@pytest.mark.asyncio
async def test_a_cut_that_would_leave_nothing_says_that_joining_keeps_something(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("question 1")
    t.prompt("question 2")
    t.tool("Bash", {"command": "ls"}, "a")
    lost = str(t.head)
    t.answer("answer 2")
    t.drop(lost)
    t.write(world.store)
    before = store_hash(world.store)
    with pytest.raises(SessionDamaged, match="bridge_gaps"):
        await repair(service, t, "cut_gaps")
    assert store_hash(world.store) == before


@pytest.mark.asyncio
async def test_a_gap_of_which_nothing_is_said_refuses_and_names_both_ways(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    lost = str(t.head)
    t.turns(1, first=3)
    t.drop(lost)
    t.write(world.store)
    with pytest.raises(SessionDamaged) as caught:
        await repair(service, t, "close_calls")
    assert "bridge_gaps" in str(caught.value) and "cut_gaps" in str(caught.value)
    assert len(list((world.store / "projects").rglob("*"))) == 2


def parallel(t: Transcript) -> list[Call]:
    return t.parallel_tools(
        [("Bash", {"command": c}, out) for c, out in (("a", "A"), ("b", None), ("c", "C"))]
    )


@pytest.mark.asyncio
async def test_a_parallel_call_without_a_result_is_closed_behind_the_results_of_the_others(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    calls = parallel(t)
    t.turn("question 2")
    t.write(world.store)

    result = await repair(service, t)

    assert counts(result) == {"close_calls": 1}
    assert await prompts(service, result) == ["question 1", "question 2"]
    chain = chain_of(world, result)
    names = [said(record) for record in chain]
    assert names[:6] == [
        "question 1",
        "tool_use",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
    ]
    stand_in = chain[5]
    assert stand_in["message"]["content"][0]["tool_use_id"] == calls[1].id
    assert stand_in["message"]["content"][0]["is_error"] is True
    assert stand_in["sourceToolAssistantUUID"] == calls[1].use
    assert stand_in["cwd"] == str(world.cwd)
    assert stand_in["promptId"] == chain[0]["promptId"]
    assert names[6:] == ["question 2", "done"]


@pytest.mark.asyncio
async def test_a_call_at_the_very_end_is_closed_and_its_result_is_the_leaf(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("question 1")
    t.prompt("question 2")
    t.tool("Bash", {"command": "x"}, None)
    t.turn_duration()
    t.write(world.store)
    result = await repair(service, t)
    assert counts(result) == {"close_calls": 1}
    assert [said(r) for r in chain_of(world, result)][-2:] == ["tool_use", "tool_result"]
    assert await prompts(service, result) == ["question 1", "question 2"]


@pytest.mark.asyncio
async def test_a_call_that_the_conversation_went_around_is_put_into_it_with_its_result(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    calls = t.parallel_tools([("Bash", {"command": "a"}, "A"), ("Bash", {"command": "b"}, None)])
    assert calls[0].result is not None
    t.turn("question 2")
    t.write(world.store)
    result = await repair(service, t)
    assert counts(result) == {"close_calls": 1}
    assert [said(r) for r in chain_of(world, result)] == [
        "question 1",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
        "question 2",
        "done",
    ]


@pytest.mark.asyncio
async def test_the_same_request_makes_the_same_bytes(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    parallel(t)
    t.turn("question 2")
    t.write(world.store)
    first = await repair(service, t, title="same")
    second = await repair(service, t, title="same")
    assert first.session is not None and second.session is not None
    one, two = (
        r.session.session_id.partition(":")[2].encode() for r in (first, second) if r.session
    )
    assert [line.replace(one, two) for line in lines_of(world, first)] == lines_of(world, second)


@pytest.mark.asyncio
async def test_dropped_calls_leave_with_their_records_and_the_rest_closes_up(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    calls = parallel(t)
    t.turn("question 2")
    t.write(world.store)
    result = await repair(service, t, "drop_calls")
    assert counts(result) == {"drop_calls": 1}
    assert calls[1].id.encode() not in b"".join(lines_of(world, result))
    assert [said(r) for r in chain_of(world, result)] == [
        "question 1",
        "tool_use",
        "tool_use",
        "tool_result",
        "question 2",
        "done",
    ]


@pytest.mark.asyncio
async def test_of_a_record_of_many_blocks_only_the_call_without_a_result_leaves(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    block = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    many = t.blocks([{**block, "id": "toolu_1"}], stop=False)
    t.find(many)["message"]["content"] = [
        {"type": "text", "text": "three  at once"},
        *({**block, "id": f"toolu_{n}"} for n in (1, 2, 3)),
    ]
    results = t.result("toolu_1", many, "one")
    t.find(results)["message"]["content"].append(
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "two"}
    )
    t.turn("question 2")
    t.write(world.store)

    dropped = await repair(service, t, "drop_calls")
    closed = await repair(service, t, "close_calls")

    assert [b.get("id") for b in chain_of(world, dropped)[1]["message"]["content"]] == [
        None,
        "toolu_1",
        "toolu_2",
    ]
    chain = chain_of(world, closed)
    assert [said(r) for r in chain][2:4] == ["tool_result/tool_result", "tool_result"]
    assert chain[3]["message"]["content"][0]["tool_use_id"] == "toolu_3"


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["close_calls", "drop_calls"])
async def test_results_without_a_call_leave_and_their_other_words_stay(
    service: Service, world: World, name: str
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    first = t.tool("Bash", {"command": "a"}, "A")
    second = t.tool("Bash", {"command": "b"}, "B")
    assert second.result is not None
    t.find(second.result)["message"]["content"].append({"type": "text", "text": "also do X"})
    t.answer()
    t.turn("question 2")
    t.find(first.use)["message"]["content"] = [{"type": "text", "text": "no call"}]
    t.find(second.use)["message"]["content"] = [{"type": "text", "text": "no call either"}]
    t.write(world.store)
    result = await repair(service, t, name)
    assert counts(result) == {name: 2}
    assert await prompts(service, result) == ["question 1", "question 2"]
    assert [said(r) for r in chain_of(world, result)] == [
        "question 1",
        "no call",
        "no call either",
        "also do X",
        "done",
        "question 2",
        "done",
    ]


@pytest.mark.asyncio
async def test_a_call_of_the_service_and_its_result_are_put_together_again(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}}
    answer = {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    t.blocks([call, answer, {"type": "text", "text": "advised"}])
    last = t.messages()[-1]
    reminder = t.meta("renamed")
    t.move_before(reminder, t.messages()[-3]["uuid"])
    chain = t.messages()
    for above, below in pairwise(chain):
        below["parentUuid"] = above["uuid"]
    t.head = last["uuid"]
    t.turn("question 2")
    t.write(world.store)
    result = await repair(service, t)
    assert counts(result) == {"close_calls": 1}
    assert [said(r) for r in chain_of(world, result)][:5] == [
        "question 1",
        "server_tool_use",
        "advisor_tool_result",
        "renamed",
        "advised",
    ]


@pytest.mark.asyncio
async def test_a_result_in_the_model_s_own_words_leaves_and_its_call_is_closed(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    call = t.tool("Bash", {"command": "ls"}, "a.py")
    assert call.result is not None
    t.find(call.result)["type"] = "assistant"
    t.answer()
    t.write(world.store)
    result = await repair(service, t)
    assert [repaired.message for repaired in result.repairs] == [
        "1 call gets a result that says that it was lost; 1 result without a call is left out."
    ]
    kinds = [(record["type"], said(record)) for record in chain_of(world, result)]
    assert kinds[1:3] == [("assistant", "tool_use"), ("user", "tool_result")]
    assert len(kinds) == 4


@pytest.mark.asyncio
async def test_a_half_whose_other_half_is_on_another_branch_stays_unless_calls_are_closed(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("question 1")
    t.prompt("question 2")
    call = t.tool("Bash", {"command": "ls"}, "a.py")
    assert call.result is not None
    t.turn("question 3")
    t.find(call.result)["parentUuid"] = t.find(t.prompts[1])["parentUuid"]
    t.write(world.store)
    plain = await repair(service, t, "bridge_gaps")
    assert "tool_result" in map(said, chain_of(world, plain))
    closed = await repair(service, t, "close_calls")
    assert "tool_result" not in map(said, chain_of(world, closed))


@pytest.mark.asyncio
async def test_a_call_that_stands_twice_and_was_answered_once_is_kept_once(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    call = t.tool("Bash", {"command": "ls"}, "a.py")
    again = {**t.find(call.use), "uuid": new_id(), "parentUuid": t.head}
    t.append(again)
    t.branch_from(again["uuid"])
    t.answer()
    t.write(world.store)
    result = await repair(service, t)
    assert [repaired.message for repaired in result.repairs] == ["1 call is left out."]
    assert list(map(said, chain_of(world, result))) == [
        "question 1",
        "tool_use",
        "tool_result",
        "done",
    ]


@pytest.mark.asyncio
async def test_a_name_that_is_none_among_what_a_compaction_preserves_does_no_harm(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("question 1")
    t.prompt("question 2")
    t.tool("Bash", {"command": "ls"}, None)
    t.answer()
    kept = [str(record["uuid"]) for record in t.messages()[2:]]
    boundary = t.find(t.compact(preserved=kept))
    boundary["compactMetadata"]["preservedMessages"]["uuids"].append(["odd"])
    t.turn("question 3")
    t.write(world.store)
    result = await repair(service, t)
    assert counts(result) == {"close_calls": 1}


@pytest.mark.asyncio
async def test_thinking_without_a_signature_leaves_and_signed_thinking_stays(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    t.thinking("unsigned", "answer 1", signature="")
    t.prompt("question 2")
    t.thinking("signed", signature="c2lnbmVk")
    both = t.answer("answer 2")
    t.find(both)["message"]["content"].insert(0, {"type": "thinking", "thinking": "no signature"})
    t.write(world.store)
    result = await repair(service, t)
    assert counts(result) == {"drop_thinking": 2}
    assert [said(r) for r in chain_of(world, result)] == [
        "question 1",
        "answer 1",
        "question 2",
        "thinking",
        "answer 2",
    ]
    data = b"".join(lines_of(world, result))
    assert b"unsigned" not in data and b"no signature" not in data
    assert b'{"type":"thinking","thinking":"signed","signature":"c2lnbmVk"}' in data


@pytest.mark.asyncio
async def test_records_in_a_sibling_file_are_collected_in_the_order_of_time(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd), seed=1)
    other = Transcript(str(world.cwd), seed=2)
    other.turn("of the other")
    t.turns(3)
    strays = t.records[2:4]
    del t.records[2:4]
    other.records += strays
    other.turn("of the other again")
    t.write(world.store)
    other.write(world.store)
    before = store_hash(world.store)

    preview = await repair(service, t, dry_run=True)
    assert store_hash(world.store) == before
    assert counts(preview) == {"collect_strays": 2}
    result = await repair(service, t)

    assert_untouched(before, world.store)
    assert counts(result) == {"collect_strays": 2}
    assert await prompts(service, result) == ["question 1", "question 2", "question 3"]
    assert not list((world.state / "scratch").iterdir())


@pytest.mark.asyncio
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
async def test_a_file_in_another_encoding_becomes_plain_utf_8(
    service: Service, world: World, encoding: str
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("first 新聞")
    t.turn("second")
    path = t.write(world.store)
    text = path.read_text().replace("\n", "\r\n")
    path.write_bytes(text.encode(encoding))
    result = await repair(service, t)
    assert counts(result)["recover_lines"] >= 1
    assert await prompts(service, result) == ["first 新聞", "second"]
    assert b"\r" not in b"".join(lines_of(world, result))
    assert result.resume.cwd == str(world.cwd)
    # Where the session was is known only once it is read: the warning does not guess.
    (told,) = (w.message for w in result.warnings if w.code == "becomes_latest")
    assert "None" not in told and ", the repaired session is what" in told


@pytest.mark.asyncio
async def test_nul_bytes_carriage_returns_and_invalid_utf_8_are_cleaned(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turns(3)
    path = t.write(world.store)
    lines = path.read_bytes().splitlines()
    lines[1] = b"\xef\xbb\xbf" + lines[1]
    lines[2] = b"\x00\x00" + lines[2] + b"\r"
    lines[3] = lines[3].replace(b"answer 2", b"caf\xe9 2")
    path.write_bytes(b"\n".join(lines) + b"\n" + b"\x00" * 4096)
    result = await repair(service, t)
    assert counts(result) == {"recover_lines": 4}
    data = b"".join(lines_of(world, result))
    assert b"\x00" not in data and b"\r" not in data and b"\xef\xbb\xbf" not in data
    assert "caf\ufffd 2" in data.decode()


@pytest.mark.asyncio
async def test_lines_that_hold_nothing_are_told_as_left_out(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    t.records[1:1] = [b"", b"\x00" * 5000]
    t.write(world.store)
    result = await repair(service, t, dry_run=True)
    assert [repaired.message for repaired in result.repairs] == [
        "2 lines that hold nothing, or NUL bytes, are left out."
    ]
    assert await prompts(service, await repair(service, t)) == ["question 1", "question 2"]


@pytest.mark.asyncio
async def test_a_mark_in_the_text_of_a_file_that_was_read_is_nothing_to_clean(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    t.tool("Read", {"file_path": "/a.csv"}, "\ufeffname;value")
    t.answer()
    t.write(world.store)
    result = await repair(service, t)
    assert result.repairs == []
    assert "\ufeffname;value" in b"".join(lines_of(world, result)).decode()


@pytest.mark.asyncio
async def test_repeated_records_and_those_of_other_sessions_are_left_out(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd), seed=1)
    other = Transcript(str(world.cwd), seed=2)
    other.turn("of the other")
    t.turns(1)
    t.repeat(t.prompts[0])
    t.turns(1, first=2)
    t.records += other.records
    t.write(world.store)
    result = await repair(service, t)
    assert counts(result) == {"recover_lines": 3}
    assert len(records_of(world, result)) == 6
    assert await prompts(service, result) == ["question 1", "question 2"]


PIXELS = base64.b64encode(os.urandom(30_000)).decode()


def picture() -> Record:
    source = {"type": "base64", "media_type": "image/png", "data": PIXELS}
    return {"type": "image", "source": source}


@pytest.mark.asyncio
async def test_images_become_notes_wherever_they_stand_and_only_when_asked(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt([{"type": "text", "text": "look"}, picture()])
    structured = {"type": "image", "file": {"base64": PIXELS, "type": "image/png"}}
    t.tool("Read", {"file_path": "/a.png"}, [picture()], structured=structured)
    t.tool("mcp__x", {}, [{"type": "text", "text": "t"}, picture()], structured=[picture()])
    t.answer()
    t.write(world.store)

    plain = await repair(service, t)
    stripped = await repair(service, t, "strip_images")

    assert b"".join(lines_of(world, plain)).count(PIXELS.encode()) == 5
    assert counts(stripped) == {"strip_images": 5}
    assert PIXELS.encode() not in b"".join(lines_of(world, stripped))
    before, after = records_of(world, plain), records_of(world, stripped)
    assert [r.get("uuid") for r in before] == [r.get("uuid") for r in after]
    stub = after[0]["message"]["content"][1]
    assert stub["type"] == "text" and "image/png, 30,000 bytes" in stub["text"]
    assert after[2]["toolUseResult"]["file"] == {"base64": "", "type": "image/png"}
    assert [b["type"] for b in after[4]["message"]["content"][0]["content"]] == ["text", "text"]


@pytest.mark.asyncio
async def test_long_outputs_are_cut_in_both_places_and_what_was_written_is_not(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    long = "新聞\n" * 20_000
    t.tool("Bash", {"command": "x"}, long)
    t.tool("Bash", {"command": "y"}, [{"type": "text", "text": long}])
    t.write_file(str(world.cwd / "a.txt"), long)
    t.tool("Bash", {"command": "z"}, "short")
    t.answer()
    t.write(world.store)

    result = await repair(service, t, "strip_outputs")
    smaller = await repair(service, t, "strip_outputs", strip_outputs_over=4)

    assert counts(result) == {"strip_outputs": 3}
    after = records_of(world, result)
    text = after[2]["message"]["content"][0]["content"]
    assert text.startswith("新聞\n新聞") and len(text.encode()) < 1200
    assert f"{len(long.encode()):,} bytes" in text
    assert after[2]["toolUseResult"]["stdout"] == text
    assert after[4]["message"]["content"][0]["content"][0]["text"] == text
    wrote = next(r for r in after if "Write" in json.dumps(r.get("message", {})))
    assert wrote["message"]["content"][0]["input"]["content"] == long
    assert counts(smaller)["strip_outputs"] > 3


@pytest.mark.asyncio
async def test_a_name_that_is_no_repair_is_refused_with_those_that_are(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turns(1)
    t.write(world.store)
    with pytest.raises(InvalidParams, match=r"bridge_gaps.*strip_outputs"):
        await repair(service, t, "mend_it")
    for pair in (("bridge_gaps", "cut_gaps"), ("close_calls", "drop_calls")):
        with pytest.raises(InvalidParams, match="exclude each other"):
            await repair(service, t, *pair)


@pytest.mark.asyncio
async def test_the_same_request_again_is_answered_as_before_and_another_one_refused(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    parallel(t)
    t.turn("question 2")
    t.write(world.store)
    child = new_id()
    source = f"claude-code:{t.session_id}"
    first = await service.repair_session(source, child)
    again = await service.repair_session(source, child)
    assert again.status == "already_forked"
    assert again.repairs == first.repairs
    with pytest.raises(SessionExists):
        await service.repair_session(source, child, repairs=["drop_calls"])
    with pytest.raises(SessionExists):
        await service.fork_session(source, child)


@pytest.mark.asyncio
async def test_a_repair_is_an_operation_that_can_be_undone_and_redone(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    t.write(world.store)
    result = await repair(service, t)
    assert result.session is not None and result.operation_id is not None
    child = result.session.session_id
    operations = (await service.list_operations()).operations
    assert [(o.kind, o.undoable) for o in operations] == [("repair", True)]
    undone = await service.undo(operation_id=result.operation_id)
    assert undone.status == "undone"
    assert child not in [s.session_id for s in (await service.list_sessions()).sessions]
    redone = await service.redo(operation_id=result.operation_id)
    assert redone.status == "redone"
    assert await prompts(service, result) == ["question 1", "question 2"]
    with pytest.raises(NothingToUndo):
        await service.undo(child)


@pytest.mark.asyncio
async def test_a_staged_repair_waits_for_its_promotion(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    t.write(world.store)
    elsewhere = world.home / "elsewhere"
    elsewhere.mkdir()
    staged = await repair(service, t, stage=True, cwd=str(elsewhere))
    assert staged.status == "staged" and staged.session is not None
    assert staged.session.state == "staged"
    promoted = await service.promote_session(staged.session.session_id)
    assert promoted.session.resume.cwd == str(elsewhere)
    dropped = await repair(service, t, stage=True)
    assert dropped.session is not None
    assert (await service.discard_session(dropped.session.session_id)).status == "discarded"


@pytest.mark.asyncio
async def test_a_second_repair_of_one_session_has_a_title_of_its_own(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    t.write(world.store)
    titles = [(await repair(service, t)).session for _ in range(2)]
    assert [s.title for s in titles if s] == ["question 1 (repaired)", "question 1 (repaired 2)"]
    repaired = titles[-1]
    assert repaired is not None
    result = await service.repair_session(repaired.session_id, str(uuid.uuid4()))
    assert result.session is not None
    assert result.session.title == "question 1 (repaired 3)"


@pytest.mark.asyncio
async def test_a_session_without_a_readable_turn_is_refused(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turns(1)
    path: Path = t.write(world.store)
    path.write_bytes(b'{"half\n')
    with pytest.raises(SessionDamaged, match="No turn"):
        await repair(service, t)
