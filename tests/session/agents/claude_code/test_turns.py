"""What is told of one turn: its status, its answer, its tools, its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from session import osfile
from session.agents.claude_code.history import History
from tests.builders import Transcript, live_session
from tests.session.agents.claude_code.opened import all_turns, items, only_turn, opened


def said(entrypoint: str = "sdk-cli") -> Transcript:
    t = Transcript("/home/ada/proj", seed=4, entrypoint=entrypoint)
    t.prompt("do it")
    return t


def opened_live(folder: Path, t: Transcript) -> History:
    """As `opened`, while a program (this one) has the session open."""
    live_session(folder, os.getpid(), t.session_id, procStart=osfile.process_start(os.getpid()))
    return opened(folder, t)


# Status


def test_a_turn_that_ends_with_an_answer_is_complete(tmp_path: Path) -> None:
    t = said()
    t.answer("done")
    assert only_turn(tmp_path, t).status == "complete"


def test_a_turn_is_complete_whatever_the_program_notes_after_it(tmp_path: Path) -> None:
    t = said("cli")
    t.answer("done")
    t.turn_duration()
    t.attachment()
    t.slash_command("cost", "0.10")
    assert only_turn(tmp_path, t).status == "complete"


def test_an_answer_that_the_program_made_up_completes_the_turn(tmp_path: Path) -> None:
    t = said()
    t.answer("No response requested.", model="<synthetic>")
    turn = only_turn(tmp_path, t)
    assert (turn.status, turn.response) == ("complete", None)


def _nothing(t: Transcript) -> None:
    pass


def _call(t: Transcript) -> None:
    t.tool("Bash", {}, None)


def _result(t: Transcript) -> None:
    t.tool("Bash", {}, "ok")


def _thought(t: Transcript) -> None:
    t.thinking("hm")


def _told(t: Transcript) -> None:
    t.answer("I am looking.", end_turn=False)
    t.tool("Bash", {}, None)


@pytest.mark.parametrize("so_far", [_nothing, _call, _result, _thought, _told])
def test_a_turn_without_an_end_is_in_progress_only_while_a_program_lives(
    tmp_path: Path, so_far: object
) -> None:
    t = said()
    so_far(t)  # type: ignore[operator]
    assert only_turn(tmp_path, t).status == "interrupted"
    (turn,) = all_turns(opened_live(tmp_path, t))
    assert turn.status == "in_progress"


def test_a_turn_that_a_person_broke_off_is_interrupted_even_while_the_program_lives(
    tmp_path: Path,
) -> None:
    t = said("cli")
    t.tool("Bash", {}, "no", is_error=True)
    t.interrupt(in_tool=True)
    (turn,) = all_turns(opened_live(tmp_path, t))
    assert turn.status == "interrupted"


def test_only_the_last_turn_of_a_live_session_can_be_in_progress(tmp_path: Path) -> None:
    t = said()
    t.prompt("do that instead")
    t.tool("Bash", {}, None)
    statuses = [turn.status for turn in all_turns(opened_live(tmp_path, t))]
    assert statuses == ["interrupted", "in_progress"]


def test_a_finished_turn_of_a_live_session_is_complete(tmp_path: Path) -> None:
    t = said()
    t.answer("done")
    (turn,) = all_turns(opened_live(tmp_path, t))
    assert turn.status == "complete"


# Answer, tools and times


def test_the_response_is_the_last_text_of_the_turn(tmp_path: Path) -> None:
    t = said()
    t.tool("Bash", {}, "ok", say="first I look")
    t.thinking("so", "it is\n  done")
    t.answer("  ")
    assert only_turn(tmp_path, t).response == "it is done"


def test_a_turn_without_any_text_has_no_response(tmp_path: Path) -> None:
    t = said()
    t.tool("Bash", {}, "ok")
    assert only_turn(tmp_path, t).response is None


def test_long_prompts_and_answers_are_shown_in_two_hundred_characters(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("新聞 " * 500, "x" * 500)
    turn = only_turn(tmp_path, t)
    assert (len(turn.prompt), len(turn.response or "")) == (200, 200)
    assert turn.prompt_bytes == len(("新聞 " * 500).encode())


def test_parallel_calls_are_all_counted_and_their_results_are_read(tmp_path: Path) -> None:
    t = said()
    calls = t.parallel_tools([("Read", {"n": n}, f"text {n}") for n in range(3)], say="reading")
    t.answer("read")
    history = opened(tmp_path, t)
    (turn,) = all_turns(history)
    assert (turn.tool_calls, turn.status, turn.response) == (3, "complete", "read")
    told = [(i.kind, i.call_id, i.text) for i in items(history, turn.turn_id)][2:]
    assert told == [
        *[("tool_call", call.id, f'{{"n":{n}}}') for n, call in enumerate(calls)],
        *[("tool_result", call.id, f"text {n}") for n, call in enumerate(calls)],
        ("assistant", None, "read"),
    ]


def test_a_turn_lasts_from_its_prompt_to_its_last_word(tmp_path: Path) -> None:
    t = said("cli")
    t.wait(60)
    last = t.answer("done")
    t.wait(3600)
    t.turn_duration()
    turn = only_turn(tmp_path, t)
    assert turn.started_at == "2026-01-31T09:00:00.250Z"
    assert turn.ended_at == t.find(last)["timestamp"]


def test_turns_are_numbered_from_one_and_know_the_turn_before(tmp_path: Path) -> None:
    t = Transcript()
    first, second = t.turns(2)
    one, two = all_turns(opened(tmp_path, t))
    assert (one.turn_id, one.turn_number, one.parent_turn_id) == (first, 1, None)
    assert (two.turn_id, two.turn_number, two.parent_turn_id) == (second, 2, first)
    assert {one.branch, two.branch} == {"active"}
    assert (one.origin_turn_id, one.snapshot) == (None, None)


# Files


def test_files_are_those_that_tools_wrote_relative_to_the_directory(tmp_path: Path) -> None:
    t = said()
    t.write_file("/home/ada/proj/src/a.py", "new")
    t.write_file("/home/ada/proj/src/a.py", "newer", before="new")
    t.write_file("/etc/hosts", "x", before="y")
    t.write_file("/home/ada/project/b.py", "beside")
    t.answer("written")
    assert only_turn(tmp_path, t).files == ["src/a.py", "/etc/hosts", "/home/ada/project/b.py"]


def test_files_that_were_only_read_are_not_changed_ones(tmp_path: Path) -> None:
    t = said()
    read = {"type": "text", "file": {"filePath": "/home/ada/proj/a.py", "content": "x"}}
    t.tool("Read", {"file_path": "/home/ada/proj/a.py"}, "x", structured=read)
    t.answer("read")
    assert only_turn(tmp_path, t).files == []


def test_files_of_parallel_calls_count(tmp_path: Path) -> None:
    t = said()
    calls = t.parallel_tools([("Write", {}, "ok"), ("Write", {}, "ok")])
    for name, call in zip("ab", calls, strict=True):
        t.find(str(call.result))["toolUseResult"] = {"filePath": f"/home/ada/proj/{name}.py"}
    t.answer("both")
    assert sorted(only_turn(tmp_path, t).files) == ["a.py", "b.py"]


def test_a_write_that_failed_changed_no_file(tmp_path: Path) -> None:
    t = said()
    t.tool("Write", {"file_path": "/home/ada/proj/a.py"}, "refused", structured="Error: refused")
    t.answer("no")
    assert only_turn(tmp_path, t).files == []


def test_a_directory_with_a_trailing_slash_or_the_root_itself_is_still_the_directory(
    tmp_path: Path,
) -> None:
    t = Transcript("/", seed=8)
    t.prompt("do it")
    t.write_file("/etc/hosts", "x")
    t.answer("done")
    assert only_turn(tmp_path, t).files == ["etc/hosts"]
