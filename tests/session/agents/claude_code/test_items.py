"""Reading a turn: its items, in order, in pages that glue back to the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session.agents.claude_code.history import History
from session.errors import InvalidParams, TurnNotFound
from session.model import Item
from tests.builders import Transcript
from tests.session.agents.claude_code.opened import items, opened


def long_turn() -> tuple[Transcript, str]:
    t = Transcript("/home/ada/proj", seed=6)
    turn_id = t.prompt("an ordinary prompt 新聞 😀")
    t.attachment("note", content="remember")
    t.thinking("what now? " * 40, "I look first.")
    t.tool("Bash", {"command": "cat 新聞.txt", "nested": {"a": [1]}}, "ligne é — 😀\n" * 60)
    t.queued_prompt("and the tests")
    t.answer("Fertig. " * 30)
    t.turn_duration()
    return t, turn_id


def pages(history: History, turn_id: str, size: int) -> list[list[Item]]:
    out = []
    cursor = None
    while True:
        _, page, cursor = history.items(turn_id, size, cursor)
        out.append(page)
        if cursor is None:
            return out
        assert page, "a page with a next one holds something"


def test_items_tell_what_each_record_is(tmp_path: Path) -> None:
    t, turn_id = long_turn()
    found = items(opened(tmp_path, t), turn_id)
    assert [i.kind for i in found] == [
        "user",
        "event",
        "thinking",
        "assistant",
        "tool_call",
        "tool_result",
        "user",
        "assistant",
        "event",
    ]
    user, _, thinking, text, call, result, queued, answer, _ = found
    assert user.text == "an ordinary prompt 新聞 😀"
    assert thinking.text == "what now? " * 40
    assert text.text == "I look first."
    assert call.tool == "Bash"
    assert call.text == '{"command":"cat 新聞.txt","nested":{"a":[1]}}'
    assert call.call_id == result.call_id
    assert result.text == "ligne é — 😀\n" * 60
    assert queued.text == "and the tests"
    assert answer.text == "Fertig. " * 30
    assert not any(i.truncated for i in found)
    assert [i.bytes for i in found] == [len(i.text.encode()) for i in found]
    assert len({i.item_id for i in found}) == len(found)


def test_blocks_of_one_record_are_items_of_their_own(tmp_path: Path) -> None:
    t = Transcript()
    turn_id = t.prompt(
        [{"type": "image", "source": {"data": "AAAA"}}, {"type": "text", "text": "what is it?"}]
    )
    result = [{"type": "text", "text": "one"}, {"type": "image", "source": {"data": "BBBB"}}]
    t.tool("Look", {}, result)
    t.answer("a cat")
    found = items(opened(tmp_path, t), turn_id)
    assert [i.text for i in found] == ["[image]\nwhat is it?", "{}", "one\n[image]", "a cat"]


def test_a_result_and_what_was_typed_beside_it_are_two_items(tmp_path: Path) -> None:
    t = Transcript()
    turn_id = t.prompt("go")
    call = t.tool("Bash", {}, "ok")
    record = t.find(str(call.result))
    record["message"]["content"].append({"type": "text", "text": "also do X"})
    t.answer("done")
    found = items(opened(tmp_path, t), turn_id)
    assert [(i.kind, i.text) for i in found][2:4] == [("tool_result", "ok"), ("user", "also do X")]
    assert found[2].item_id != found[3].item_id


@given(size=st.integers(1, 900))
def test_pages_of_any_size_glue_back_to_the_whole(
    tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    t, turn_id = long_turn()
    history = opened(tmp_path_factory.mktemp("store"), t)
    whole = items(history, turn_id)
    glued: dict[str, str] = {}
    order = []
    for page in pages(history, turn_id, size):
        # A page may go over by less than one character of four bytes.
        assert sum(len(i.text.encode()) for i in page) < size + 4
        for item in page:
            if item.item_id not in glued:
                order.append(item)
            glued[item.item_id] = glued.get(item.item_id, "") + item.text
    assert glued == {i.item_id: i.text for i in whole}
    assert [(i.item_id, i.kind, i.tool, i.call_id, i.bytes) for i in order] == [
        (i.item_id, i.kind, i.tool, i.call_id, i.bytes) for i in whole
    ]


def test_an_item_that_is_cut_says_so_and_how_long_it_is(tmp_path: Path) -> None:
    t = Transcript()
    turn_id = t.prompt("x" * 1000)
    t.answer("done")
    history = opened(tmp_path, t)
    first, *rest = pages(history, turn_id, 300)
    (cut,) = first
    assert (len(cut.text), cut.bytes, cut.truncated) == (300, 1000, True)
    assert [p[0].truncated for p in rest[:-1]] == [True, True, True][: len(rest) - 1]


def test_a_cursor_that_is_none_is_refused(tmp_path: Path) -> None:
    t, turn_id = long_turn()
    history = opened(tmp_path, t)
    for cursor in ("x", "1.2", "1.2.x", "-1.0.0", ""):
        with pytest.raises(InvalidParams, match="cursor"):
            history.items(turn_id, 100, cursor)


def test_a_turn_that_is_not_there_is_told(tmp_path: Path) -> None:
    t, _ = long_turn()
    answer = t.messages()[-2]["uuid"]
    history = opened(tmp_path, t)
    for asked in ("nothing", answer, ""):
        with pytest.raises(TurnNotFound):
            history.items(asked, 100, None)


def test_a_turn_of_another_branch_is_read_whole(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    before = t.head
    abandoned = t.prompt("left")
    t.parallel_tools([("A", {}, "first"), ("B", {}, "second")])
    t.answer("left answer")
    t.branch_from(before)
    t.turn("two")
    t.last_prompt("two")
    history = opened(tmp_path, t)
    told = [i.text for i in items(history, abandoned)]
    assert told == ["left", "{}", "{}", "first", "second", "left answer"]


def test_a_turn_whose_answer_stands_before_it_in_the_file_begins_with_its_prompt(
    tmp_path: Path,
) -> None:
    t = Transcript(entrypoint="cli")
    turn_id = t.prompt("question")
    answer = t.answer("answer")
    t.move_before(answer, turn_id)
    t.last_prompt("question", answer)
    history = opened(tmp_path, t)
    assert [i.text for i in items(history, turn_id)] == ["question", "answer"]
