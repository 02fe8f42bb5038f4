"""The command line on a real terminal: tables, the question before a rewind, interruption."""

from __future__ import annotations

import json
import re

import pytest

from tests.builders import Transcript
from tests.server.program import Terminal, conversation, result, turntree
from tests.world import World, store_hash

_STYLE = re.compile("\x1b\\[[0-9;]*m")


def test_on_a_terminal_ids_are_short_and_rows_fit(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    transcript.turn("新聞 " * 40)
    transcript.write(world.store)
    with Terminal(world, "sessions", columns=80) as terminal:
        assert terminal.end() == 0
    header, row = _STYLE.sub("", terminal.text).splitlines()
    assert header.split() == ["SESSION", "UPDATED", "TURNS", "TITLE"]
    assert row.split()[0] == transcript.session_id[:8]
    assert row.rstrip().endswith("…")
    assert "\x1b[36m" in terminal.text


def test_no_color_is_honoured(world: World) -> None:
    conversation(world)
    with Terminal(world, "sessions", env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    assert not re.search("\x1b\\[[0-9;]*3[0-9]", terminal.text)


def test_a_prompt_cannot_steer_a_real_terminal(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    transcript.turn("\x1b]0;pwned\x07 \x1b[2J \x9b2J", "ok")
    transcript.write(world.store)
    for arguments in (["turns", "last"], ["show", "last", "1"], ["turns", "last", "--json"]):
        with Terminal(world, *arguments) as terminal:
            assert terminal.end() == 0
        assert not {"\x1b", "\x07", "\x9b"} & set(_STYLE.sub("", terminal.text))


def test_a_rewind_shows_what_it_would_drop_and_asks(world: World) -> None:
    native = conversation(world, 4)
    before = store_hash(world.store)
    with Terminal(world, "rewind", "last", "--by", "2") as terminal:
        terminal.wait_for("[y/N]")
        assert "question 3" in terminal.text
        terminal.type("n\r")
        assert terminal.end() == 1
    assert "Nothing was changed." in terminal.text
    assert store_hash(world.store) == before
    with Terminal(world, "rewind", "last", "--by", "2") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\r")
        assert terminal.end() == 0
    assert f"turntree undo {native[:8]}" in terminal.text
    assert result(world, "turns", native)["total_turns"] == 2


def test_a_turn_that_was_added_before_the_answer_stops_the_rewind(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    transcript.turns(4)
    transcript.write(world.store)
    with Terminal(world, "rewind", "last", "--by", "1") as terminal:
        terminal.wait_for("[y/N]")
        transcript.turn("question 5")
        transcript.write(world.store)
        terminal.type("y\r")
        assert terminal.end() == 1
    assert "error: " in terminal.text
    assert result(world, "turns", "last")["total_turns"] == 5


def test_an_undo_asks_only_when_something_was_done_since(world: World) -> None:
    native = conversation(world, 4)
    first = result(world, "rewind", native, "--by", "1")["operation_id"]
    result(world, "rewind", native, "--by", "1")
    before = store_hash(world.store)
    with Terminal(world, "undo", "--operation", first[:8]) as terminal:
        terminal.wait_for("[y/N]")
        assert "To undo" in terminal.text
        terminal.type("n\r")
        assert terminal.end() == 1
    assert store_hash(world.store) == before
    with Terminal(world, "undo", "--operation", first[:8], "--yes") as terminal:
        assert terminal.end() == 0
    assert "[y/N]" not in terminal.text
    assert result(world, "turns", native)["total_turns"] == 4


def test_an_undo_of_the_newest_rewind_does_not_ask(world: World) -> None:
    native = conversation(world, 4)
    result(world, "rewind", native, "--by", "1")
    for verb in ("undo", "redo"):
        with Terminal(world, verb, native) as terminal:
            assert terminal.end() == 0
        assert "[y/N]" not in terminal.text


def test_a_turn_that_was_added_before_the_answer_stops_the_undo(world: World) -> None:
    transcript = Transcript(str(world.cwd), start="2100-01-01T00:00:00Z")
    transcript.turns(4)
    transcript.write(world.store)
    native = transcript.session_id
    result(world, "rewind", native, "--by", "1")
    (path,) = world.store.rglob(f"{native}.jsonl")
    with Terminal(world, "undo", native) as terminal:
        terminal.wait_for("[y/N]")
        added = Transcript(str(world.cwd), session_id=native, seed=5)
        added.head = transcript.head
        added.turn("question 5")
        with path.open("ab") as file:
            file.writelines(json.dumps(record).encode() + b"\n" for record in added.records)
        terminal.type("y\r")
        assert terminal.end() == 1
    assert "error: " in terminal.text


@pytest.mark.parametrize("flag", ["--yes", "--json", "--dry-run"])
def test_a_rewind_does_not_ask_when_told_so(world: World, flag: str) -> None:
    conversation(world, 4)
    with Terminal(world, "rewind", "last", "--by", "1", flag) as terminal:
        assert terminal.end() == 0
    assert "[y/N]" not in terminal.text


def test_interrupting_the_question_exits_130_and_changes_nothing(world: World) -> None:
    conversation(world, 4)
    before = store_hash(world.store)
    with Terminal(world, "rewind", "last", "--by", "2") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("\x03")
        assert terminal.end() == 130
    assert "Traceback" not in terminal.text
    assert store_hash(world.store) == before


def test_an_end_of_input_at_the_question_is_a_no(world: World) -> None:
    conversation(world, 4)
    with Terminal(world, "rewind", "last", "--by", "2") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("\x04")
        assert terminal.end() == 1
    assert len(turntree(world, "turns", "last").lines) == 7
