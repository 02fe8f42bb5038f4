"""Repaired sessions, resumed by the real `claude`: what the model is sent.

The damaged sessions are built, since the program does not damage its own on demand.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from itertools import pairwise
from typing import Any

import pytest

from tests.builders import Transcript
from tests.chain import to_json
from tests.client import Client
from tests.real.asking import Conversation, asked, new_id, path_of
from tests.rig.claude import Claude
from tests.rig.model import Model, Reply, Tool
from tests.world import World, assert_untouched, store_hash

LOST = "The result of this call was lost: the program ended before it was recorded. "
LOST += "Whether the call was carried out is not known."


@pytest.fixture
def t(world: World) -> Transcript:
    return Transcript(str(world.cwd))


def repaired(
    server: Client, world: World, t: Transcript, *repairs: str, **more: Any
) -> dict[str, Any]:
    """Write the session and repair it; the store's files stay as they are."""
    t.write(world.store)
    before = store_hash(world.store)
    params: dict[str, Any] = {
        "session_id": f"claude-code:{t.session_id}",
        "new_session_id": new_id(),
        **more,
    }
    if repairs:
        params["repairs"] = list(repairs)
    result: dict[str, Any] = server.call("repair_session", params)
    assert_untouched(before, world.store)
    return result


def sent(claude: Claude, model: Model, result: dict[str, Any], prompt: str = "new") -> Conversation:
    """What the program sends when it goes on with a repaired session."""
    claude.resume(result["resume"], prompt)
    request = model.last()
    require_valid(request.body["messages"])
    said = request.said()
    assert said[-1] == asked(prompt)
    return said[:-1]


def require_valid(messages: list[dict[str, Any]]) -> None:
    """As the service does: calls are answered in the very next message, and only calls are."""
    waiting: set[str] = set()
    for message, after in pairwise([*messages, {"role": "user", "content": []}]):
        blocks = _blocks(message)
        results = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
        assert results == waiting, f"calls {waiting}, results {results}"
        waiting = {b["id"] for b in blocks if b["type"] == "tool_use"}
        served = [b["id"] for b in blocks if b["type"] == "server_tool_use"]
        answers = [b["tool_use_id"] for b in blocks if b["type"].endswith("_tool_result")]
        assert served == answers
        assert all(b.get("signature") for b in blocks if b["type"] == "thinking")
        assert not waiting or after["role"] == "user"
    assert not waiting


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def answered(text: str) -> tuple[str, str, str]:
    return ("assistant", "text", text)


def called(command: str) -> tuple[str, str, str]:
    return ("assistant", "tool_use", f'Bash {{"command": "{command}"}}')


def result_is(text: str) -> tuple[str, str, str]:
    return ("user", "tool_result", text)


def questions(first: int, last: int) -> Conversation:
    return [
        part
        for n in range(first, last + 1)
        for part in (asked(f"question {n}"), answered(f"answer {n}"))
    ]


def test_the_record_behind_a_stub_is_sent_again(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.turns(3)
    t.records.insert(2, {"type": "pr-link", "sessionId": t.session_id, "prNumber": 7})
    stub, prompt = t.records[2:4]
    t.records[2:4] = [to_json(stub)[:40] + to_json(prompt)]
    result = repaired(server, world, t)
    assert sent(claude, model, result) == questions(1, 3)


def test_both_sides_of_a_gap_are_sent(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.turns(2)
    lost = str(t.head)
    t.wait(3600)
    t.turns(2, first=3)
    t.drop(lost)
    result = repaired(server, world, t)
    history = sent(claude, model, result)
    # The program joins what a person said twice in a row.
    assert history == [*questions(1, 1), asked("question 2\n"), *questions(3, 4)]


def test_of_a_cut_gap_what_comes_after_it_is_sent(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.turns(2)
    lost = str(t.head)
    t.turns(2, first=3)
    t.drop(lost)
    result = repaired(server, world, t, "cut_gaps")
    assert sent(claude, model, result) == questions(3, 4)


def parallel(t: Transcript) -> None:
    t.prompt("question 1")
    t.parallel_tools(
        [("Bash", {"command": c}, out) for c, out in (("a", "A"), ("b", None), ("c", "C"))]
    )
    t.answer("answer 1")
    t.turn("question 2", "answer 2")


def test_a_closed_parallel_call_is_sent_with_its_result_among_the_others(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    parallel(t)
    history = sent(claude, model, repaired(server, world, t))
    assert history[:4] == [asked("question 1"), called("a"), called("b"), called("c")]
    assert sorted(history[4:7]) == [result_is("A"), result_is("C"), result_is(LOST)]
    assert history[7:] == [answered("answer 1"), *questions(2, 2)]


def test_a_dropped_parallel_call_is_not_sent(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    parallel(t)
    history = sent(claude, model, repaired(server, world, t, "drop_calls"))
    assert history == [
        asked("question 1"),
        called("a"),
        called("c"),
        result_is("A"),
        result_is("C"),
        answered("answer 1"),
        *questions(2, 2),
    ]


def test_the_last_parallel_call_which_the_conversation_went_around_is_closed_too(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.prompt("question 1")
    t.parallel_tools([("Bash", {"command": "a"}, "A"), ("Bash", {"command": "b"}, None)])
    t.answer("answer 1")
    t.turn("question 2", "answer 2")
    history = sent(claude, model, repaired(server, world, t))
    assert history == [
        asked("question 1"),
        called("a"),
        called("b"),
        result_is("A"),
        result_is(LOST),
        answered("answer 1"),
        *questions(2, 2),
    ]


def test_a_call_at_the_end_of_a_killed_session_is_sent_with_its_result(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.turn("question 1", "answer 1")
    t.prompt("question 2")
    t.tool("Bash", {"command": "x"}, None)
    history = sent(claude, model, repaired(server, world, t))
    assert history[:5] == [
        *questions(1, 1),
        asked("question 2"),
        called("x"),
        result_is(LOST),
    ]


def test_results_without_a_call_are_not_sent(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.prompt("question 1")
    call = t.tool("Bash", {"command": "a"}, "A")
    t.answer("answer 1")
    t.turn("question 2", "answer 2")
    t.drop(call.use)
    history = sent(claude, model, repaired(server, world, t))
    assert history == questions(1, 2)


def test_unsigned_thinking_is_not_sent_and_signed_is(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.prompt("question 1")
    t.thinking("unsigned", "answer 1", signature="")
    t.prompt("question 2")
    t.thinking("signed", "answer 2")
    history = sent(claude, model, repaired(server, world, t))
    assert [part for part in history if part[1] != "thinking"] == questions(1, 2)
    assert ("assistant", "thinking", "unsigned") not in history
    assert ("assistant", "thinking", "signed") in history


def test_strays_are_sent_where_they_belong(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    other = Transcript(str(world.cwd), seed=9)
    other.turn("of the other")
    t.turns(3)
    other.records += t.records[2:4]
    del t.records[2:4]
    other.write(world.store)
    result = repaired(server, world, t)
    assert sent(claude, model, result) == questions(1, 3)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_session_in_another_encoding_is_sent_as_it_was_said(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript, encoding: str
) -> None:
    t.turn("question 新聞", "answer 新聞")
    t.turns(1, first=2)
    path = t.write(world.store)
    text = path.read_text().replace("\n", "\r\n")
    path.write_bytes(text.encode(encoding))
    params = {"session_id": f"claude-code:{t.session_id}", "new_session_id": new_id()}
    result = server.call("repair_session", params)
    assert sent(claude, model, result) == [
        asked("question 新聞"),
        answered("answer 新聞"),
        *questions(2, 2),
    ]


def picture() -> dict[str, Any]:
    """A PNG that is one."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\x00" + b"\x10\x20\x30" * 8 for _ in range(8)))
    data = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def test_stripped_images_are_sent_as_notes(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    image = picture()
    pixels = image["source"]["data"]
    t.prompt([{"type": "text", "text": "question 1"}, image])
    file = {"base64": pixels, "type": "image/png", "originalSize": 80}
    structured = {"type": "image", "file": file}
    t.tool("Read", {"file_path": str(world.cwd / "a.png")}, [image], structured=structured)
    t.attachment(
        "file",
        filename=str(world.cwd / "b.png"),
        displayPath="b.png",
        content={"type": "image", "file": file},
    )
    t.answer("answer 1")
    whole = repaired(server, world, t)
    claude.resume(whole["resume"], "with images")
    assert json.dumps(model.last().body).count(pixels) == 3

    history = sent(claude, model, repaired(server, world, t, "strip_images"))

    body = json.dumps(model.last().body)
    assert pixels not in body
    assert body.count("[image left out by a repair: image/png, ") == 3
    assert history[0] == asked("question 1")
    assert history[-1] == answered("answer 1")


def test_stripped_outputs_are_sent_as_their_beginnings(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.prompt("question 1")
    t.tool("Bash", {"command": "a"}, "新聞\n" * 6000)
    t.tool("Bash", {"command": "b"}, "short")
    t.answer("answer 1")
    history = sent(claude, model, repaired(server, world, t, "strip_outputs"))
    assert history[2][2].startswith("新聞\n") and history[2][2].endswith("left out by a repair]")
    assert len(history[2][2]) < 800
    assert [history[0], history[1], *history[3:]] == [
        asked("question 1"),
        called("a"),
        called("b"),
        result_is("short"),
        answered("answer 1"),
    ]


def test_what_a_compaction_preserved_is_sent_with_the_result_that_was_lost(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.turns(2)
    prompt = t.prompt("question 3")
    call = t.tool("Bash", {"command": "x"}, None)
    t.compact("auto", summary="In short.", preserved=[prompt, call.use])
    t.answer("answer 3")
    t.turn("question 4", "answer 4")
    history = sent(claude, model, repaired(server, world, t))
    assert "In short." in history[0][2]
    assert history[1:] == [
        asked("question 3"),
        called("x"),
        result_is(LOST),
        answered("answer 3"),
        *questions(4, 4),
    ]


def test_a_call_of_the_service_is_sent_together_with_its_result(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    t.prompt("question 1")
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    answer = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    t.blocks([call, answer, {"type": "text", "text": "answer 1"}])
    asks, answers, _ = t.messages()[-3:]
    last = t.head
    t.head = asks["uuid"]
    answers["parentUuid"] = t.meta("renamed")
    t.move_before(answers["parentUuid"], answers["uuid"])
    t.head = last
    t.turn("question 2", "answer 2")
    history = sent(claude, model, repaired(server, world, t))
    assert [kind for _, kind, _ in history[:4]] == ["text", "other", "other", "text"]
    assert history[-3:] == [answered("answer 1"), *questions(2, 2)]


def test_a_session_of_the_program_itself_is_repaired_after_a_bad_day(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    """A result and an answer are lost, a record is torn, another one glued to its stub."""
    calls = tuple(Tool("Bash", {"command": f"echo {n}", "description": n}) for n in "abc")
    model.script(
        Reply("Looking", thinking="first look", tools=calls), "answer 1", "answer 2", "answer 3"
    )
    native_id = claude.talk(world.cwd, *(f"question {n}" for n in (1, 2, 3)))
    whole = model.last().said()
    path = path_of(world, native_id)
    lines = path.read_bytes().splitlines()
    found = [json.loads(line) for line in lines]
    above = {record.get("parentUuid") for record in found}
    aside = next(n for n, r in enumerate(found) if "toolUseResult" in r and r["uuid"] not in above)
    text = found[aside]["message"]["content"][0]["content"]
    second = next(n for n, line in enumerate(lines) if b'"text":"answer 2"' in line)
    third = next(n for n, line in enumerate(lines) if b"question 3" in line and b'"uuid"' in line)
    lines[third] = b'{"type":"mode","mode":"nor' + lines[third]
    for lost in sorted((aside, second), reverse=True):
        del lines[lost]
    path.write_bytes(b"\n".join(lines) + b"\n")
    before = store_hash(world.store)

    params = {"session_id": f"claude-code:{native_id}", "new_session_id": new_id()}
    result = server.call("repair_session", params)

    assert_untouched(before, world.store)
    counts = {repaired["repair"]: repaired["count"] for repaired in result["repairs"]}
    assert counts == {"recover_lines": 1, "bridge_gaps": 1, "close_calls": 1}
    history = sent(claude, model, result)
    expected = [part for part in whole if part not in (result_is(text), answered("answer 2"))]
    # The program joins what a person said twice in a row.
    at = expected.index(asked("question 2"))
    expected[at : at + 2] = [asked("question 2\n"), asked("question 3")]
    history.remove(result_is(LOST))
    assert history == [*expected, answered("answer 3")]


def test_a_lost_result_before_a_compaction_in_mid_turn_is_sent_with_its_call(
    server: Client, claude: Claude, model: Model, world: World, t: Transcript
) -> None:
    """The terminal program goes on below the last result as if there were no boundary."""
    t.turn("question 1", "answer 1")
    t.prompt("question 2")
    t.parallel_tools([("Bash", {"command": "a"}, None), ("Bash", {"command": "b"}, "B")])
    t.compact_in_turn_as_the_tui(answer="answer 2")
    t.turn("question 3", "answer 3")
    result = repaired(server, world, t)
    assert [r["repair"] for r in result["repairs"]] == ["recover_lines", "close_calls"]
    assert sent(claude, model, result) == [
        asked("Summary of what was said."),
        called("a"),
        called("b"),
        result_is("B"),
        result_is(LOST),
        answered("answer 2"),
        *questions(3, 3),
    ]
