"""Which records open a turn, and what the person wrote in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from session.agents.claude_code import records
from tests.builders import Transcript
from tests.session.agents.claude_code.opened import all_turns, opened, prompts


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": "u", "message": {"role": "user", "content": content}, **more}


def text(value: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": value}]


@pytest.mark.parametrize(
    "record",
    [
        user("hello", isMeta=True),
        user("hello", isCompactSummary=True),
        user([{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]),
        user([{"type": "tool_result", "tool_use_id": "t", "content": "ok"}, *text("also")]),
        user("<command-name>/compact</command-name>"),
        user("  \n<command-name>/compact</command-name>"),
        user("<local-command-stdout>Compacted</local-command-stdout>"),
        user("<local-command-stderr>oops</local-command-stderr>"),
        user("<local-command-caveat>Not for you.</local-command-caveat>"),
        user("<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>"),
        user("<bash-stderr>no such file</bash-stderr>"),
        user("<system-reminder>\nTodos changed.</system-reminder>"),
        user("<task-notification>\ndone</task-notification>"),
        user("<user-prompt-submit-hook>ran</user-prompt-submit-hook>"),
        user("<session-start-hook>ran</session-start-hook>"),
        user("<user-memory-input>remember</user-memory-input>"),
        user("<teammate-message from='b'>hi</teammate-message>"),
        user("<ide_opened_file>The user opened a.py</ide_opened_file>"),
        user("<ide_selection>lines 1 to 3</ide_selection>"),
        user("<new-diagnostics>none</new-diagnostics>"),
        user(text("[Request interrupted by user]")),
        user(text("[Request interrupted by user for tool use]")),
        user("a background task ended", origin={"kind": "task-notification"}),
        user("go on", origin={"kind": "auto-continuation"}),
        user([]),
        user(None),
        user([{"type": "text"}]),
        user(["no block"]),
        {"type": "user", "uuid": "u"},
        {"type": "user", "uuid": "u", "message": "no object"},
    ],
    ids=lambda record: str(record.get("message", {}))[:60],
)
def test_what_the_program_wrote_opens_no_turn(record: dict[str, Any]) -> None:
    assert records.kind_of(record) & records.KIND != records.PROMPT


@pytest.mark.parametrize(
    ("content", "typed"),
    [
        ("hello", "hello"),
        (text("hello"), "hello"),
        ("tell me about <system-reminder> tags", "tell me about <system-reminder> tags"),
        ("[Request] interrupted", "[Request] interrupted"),
        ("", ""),
        ("<bash-input>ls -l</bash-input>", "!ls -l"),
        (
            "<command-message>x</command-message>\n<command-name>/x</command-name>\n"
            "<command-args>foo bar</command-args>",
            "/x foo bar",
        ),
        (
            "<command-message>x</command-message>\n<command-name>/x</command-name>",
            "/x",
        ),
        ([{"type": "image", "source": {}}, *text("what is this?")], "[image]\nwhat is this?"),
        ([{"type": "document", "source": {}}], "[document]"),
        ([*text("<ide_opened_file>a.py</ide_opened_file>"), *text("fix it")], "fix it"),
        ([*text("<system-reminder>x</system-reminder>"), *text("one"), *text("two")], "one\ntwo"),
    ],
)
def test_what_a_person_wrote_is_the_prompt_as_they_typed_it(content: Any, typed: str) -> None:
    record = user(content, origin={"kind": "human"})
    assert records.kind_of(record) & records.KIND == records.PROMPT
    assert records.prompt_text(record) == typed


def test_a_shell_command_and_its_output_are_one_turn(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.bash_mode("ls", "a.py")
    t.answer("one file")
    assert prompts(opened(tmp_path, t)) == ["!ls"]


def test_a_custom_command_and_its_expansion_are_one_turn(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    turn_id = t.custom_command("review", "main.py", expansion="Look at the file with care.")
    t.answer("looked")
    (turn,) = all_turns(opened(tmp_path, t))
    assert (turn.turn_id, turn.prompt) == (turn_id, "/review main.py")


def test_local_commands_are_no_turns(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.turn("one")
    t.slash_command("cost", "0.10")
    t.turn("two")
    t.compact()
    t.turn("three")
    assert prompts(opened(tmp_path, t)) == ["one", "two", "three"]


def test_a_prompt_typed_while_a_tool_runs_belongs_to_the_running_turn(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.prompt("run the tests")
    t.queue_operation("enqueue", "and the linter")
    t.tool("Bash", {"command": "make test"}, "ok")
    t.queue_operation("remove")
    t.queued_prompt("and the linter")
    t.answer("both done")
    t.turn("thanks")
    assert prompts(opened(tmp_path, t)) == ["run the tests", "thanks"]


def test_a_prompt_that_waited_for_the_turns_end_is_a_turn_of_its_own(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.prompt("first")
    t.queue_operation("enqueue", "second")
    t.answer("done")
    t.queue_operation("dequeue")
    t.prompt("second", promptSource="queued")
    t.answer("done too")
    assert prompts(opened(tmp_path, t)) == ["first", "second"]


def test_a_person_who_breaks_in_opens_no_turn_by_that(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.prompt("run it")
    t.tool("Bash", {"command": "sleep 9"}, "The user doesn't want to proceed", is_error=True)
    t.interrupt(in_tool=True)
    t.turn("do something else")
    assert prompts(opened(tmp_path, t)) == ["run it", "do something else"]


def test_side_chains_in_the_file_are_no_turns(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    t.sidechain("look around", "looked")
    t.turn("two")
    assert prompts(opened(tmp_path, t)) == ["one", "two"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"uuid": 1}',
        b'{"type": "user", "uuid": null}',
        b'{"uuid": "x", "type": 5}',
        b'{"uuid": "x", "type": "user", "message": 1}',
        b'{"type": "attachment", "uuid": "x", "attachment": []}',
        b'{"type": "assistant", "uuid": "x", "message": {"content": [null, 1, {"type": {}}]}}',
        b'{"type": "assistant", "uuid": "x", "message": {"content": {"type": "text"}}}',
        b'{"type": "file-history-snapshot", "snapshot": 1, "messageId": []}',
        b'{"type": "last-prompt", "leafUuid": 5}',
        b'{"type": "system", "uuid": "x", "subtype": "compact_boundary", "compactMetadata": 1}',
        b'{"type": "system", "uuid": "x", "subtype": "compact_boundary",'
        b' "compactMetadata": {"preservedMessages": {"uuids": [1, null]}}}',
        b'{"type": "custom-title", "customTitle": 1, "forkedFrom": 2}',
        b'{"type": "relocated", "relocatedCwd": 1}',
        b'{"type": "user", "uuid": "x", "isSidechain": "yes", "cwd": 4, "version": 1, "forkedFrom":'
        b' {"sessionId": 3}, "entrypoint": {}, "timestamp": 5, "parentUuid": 6, "promptId": []}',
    ],
)
def test_members_of_another_type_than_they_should_have_do_no_harm(
    tmp_path: Path, line: bytes
) -> None:
    t = Transcript()
    t.turn("one")
    t.append(line)
    t.turn("two")
    history = opened(tmp_path, t)
    assert prompts(history)[:1] == ["one"]
    assert prompts(history)[-1:] == ["two"]
    assert history.summary.title
    assert history.branches()


def test_previews_are_one_line_of_at_most_two_hundred_characters() -> None:
    assert records.preview("a\n\n  b\tc") == "a b c"
    assert records.preview("新聞😀" * 200) == ("新聞😀" * 67)[:199] + "…"
    assert len(records.preview("\ud800" * 500)) == 200
    records.preview("\ud800 x").encode()


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("2026-01-31T09:00:00.250Z", "2026-01-31T09:00:00.250Z"),
        ("2026-01-31T09:00:00Z", "2026-01-31T09:00:00.000Z"),
        ("2026-01-31T09:00:00.5Z", "2026-01-31T09:00:00.500Z"),
        ("2026-01-31T09:00:00.123456Z", "2026-01-31T09:00:00.123Z"),
        ("yesterday", None),
        (5, None),
        (None, None),
    ],
)
def test_times_have_milliseconds_or_are_none(stamp: Any, time: str | None) -> None:
    assert records.time_of({"timestamp": stamp}) == time
