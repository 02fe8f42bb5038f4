"""Compacted sessions of the real `claude`: forks and rewinds before, after and across."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Transcript
from tests.client import Client
from tests.real.asking import asked, before_prompt, fork, session_id
from tests.rig.claude import Claude
from tests.rig.model import Model, Reply, Tool
from tests.world import World

SUMMARY = "<summary>What was said, in short</summary>"
FULL = 190_000
"""Tokens to report when the program, told that 100,000 are its limit, shall compact."""


@pytest.fixture
def claude(world: World, model: Model) -> Claude:
    # The program asks for a summary with a prompt of its own that demands text.
    for aside in (False, True):
        model.script(Reply(SUMMARY, match="TEXT ONLY", repeat=True, aside=aside))
    return Claude(
        model,
        world.home,
        world.config_dir,
        settings={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"},
    )


def _path(world: World, native_id: str) -> Path:
    return next((world.store / "projects").glob(f"*/{native_id}.jsonl"))


@pytest.fixture
def compacted(claude: Claude, world: World) -> str:
    """Two turns, a compaction by hand, two turns."""
    return claude.talk(world.cwd, "one", "two", "/compact", "three", "four")


def test_a_compaction_by_hand_is_no_turn(server: Client, compacted: str) -> None:
    page = server.list_turns(session_id=session_id(compacted))
    assert [t["prompt"] for t in page["turns"]] == ["one", "two", "three", "four"]
    assert [t["compacted"] for t in page["turns"]] == [True, True, False, False]


def test_a_fork_before_a_compaction_sends_the_turns_in_full(
    server: Client, compacted: str, claude: Claude, model: Model
) -> None:
    claude.resume(fork(server, compacted, 1)["resume"], "in the fork")
    assert model.last().said() == [*before_prompt(model.asked("two")), asked("in the fork")]
    claude.resume(fork(server, compacted, 2)["resume"], "in the other fork")
    assert model.last().prompts() == ["one", "two", "in the other fork"]


def test_a_fork_after_a_compaction_sends_the_summary_and_the_turns_after_it(
    server: Client, compacted: str, claude: Claude, model: Model
) -> None:
    claude.resume(fork(server, compacted, 3)["resume"], "in the fork")
    assert model.last().said() == [*before_prompt(model.asked("four")), asked("in the fork")]
    claude.resume(fork(server, compacted, None)["resume"], "at the end")
    assert model.last().said() == [
        *model.asked("four").said(),
        ("assistant", "text", "answer to: four"),
        asked("at the end"),
    ]


def test_a_rewind_to_before_a_compaction_sends_the_turns_in_full_and_is_undone_bytewise(
    server: Client, compacted: str, claude: Claude, model: Model, world: World
) -> None:
    before = _path(world, compacted).read_bytes()
    rewound = server.rewind(session_id=session_id(compacted), to={"turn_number": 1})
    assert rewound["turns"] == {"kept": 1, "removed": 3}
    undone = server.undo(session_id=session_id(compacted))
    assert _path(world, compacted).read_bytes() == before
    server.redo(session_id=session_id(compacted))

    claude.resume(undone["session"]["resume"], "another two")
    assert model.last().said() == [*before_prompt(model.asked("two")), asked("another two")]


def test_a_rewind_to_after_a_compaction_sends_the_summary_and_the_kept_turns(
    server: Client, compacted: str, claude: Claude, model: Model
) -> None:
    rewound = server.rewind(session_id=session_id(compacted), to={"by": 1})
    claude.resume(rewound["session"]["resume"], "another four")
    assert model.last().said() == [*before_prompt(model.asked("four")), asked("another four")]


def test_a_turn_that_was_compacted_in_its_middle_is_one_turn_and_is_kept_whole(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    model.script(
        "first done",
        Reply(
            "looking",
            tools=(Tool("Bash", {"command": "echo x", "description": "say"}),),
            tokens=FULL,
            match="two",
        ),
        Reply("second done", match="continued"),
    )
    source = claude.talk(world.cwd, "one", "two", "three", "four")
    page = server.list_turns(session_id=session_id(source))
    assert [t["prompt"] for t in page["turns"]] == ["one", "two", "three", "four"]
    assert page["turns"][1]["response"] == "second done"

    claude.resume(fork(server, source, 1)["resume"], "after one")
    assert model.last().said() == [*before_prompt(model.asked("two")), asked("after one")]
    claude.resume(fork(server, source, 2)["resume"], "after two")
    assert model.last().said() == [*before_prompt(model.asked("three")), asked("after two")]
    rewound = server.rewind(session_id=session_id(source), to={"turn_number": 2})
    claude.resume(rewound["session"]["resume"], "rewound to two")
    assert model.last().said() == [*before_prompt(model.asked("three")), asked("rewound to two")]


def test_a_turn_whose_prompt_set_off_a_compaction_is_kept_whole(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    model.script(Reply("first done"), Reply("second done", tokens=FULL))
    source = claude.talk(world.cwd, "one", "two", "three", "four")
    page = server.list_turns(session_id=session_id(source))
    assert [t["prompt"] for t in page["turns"]] == ["one", "two", "three", "four"]

    claude.resume(fork(server, source, 2)["resume"], "after two")
    assert model.last().prompts() == ["one", "two", "after two"]
    claude.resume(fork(server, source, 3)["resume"], "after three")
    assert model.last().said() == [*before_prompt(model.asked("four")), asked("after three")]


def test_a_turn_compacted_in_the_terminal_is_kept_as_the_terminal_continues_it(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    """The terminal program hangs the answer off a record before the boundary."""
    t = Transcript(str(world.cwd), entrypoint="cli")
    t.turn("one")
    t.prompt("two")
    t.tool("Bash", {"command": "echo x"}, "x", say="looking")
    t.compact_in_turn_as_the_tui(answer="second done")
    t.turn("three")
    t.write(world.store)
    claude.ask("what the source sends", world.cwd, resume=t.session_id)
    sends = before_prompt(model.last())

    page = server.list_turns(session_id=session_id(t.session_id))
    assert [x["prompt"] for x in page["turns"]] == [
        "one",
        "two",
        "three",
        "what the source sends",
    ]
    claude.resume(fork(server, t.session_id, 3)["resume"], "in the fork")
    assert model.last().said() == [*sends, asked("in the fork")]
    claude.resume(fork(server, t.session_id, 2)["resume"], "after two")
    assert model.last().said() == [*sends[:-2], asked("after two")]
    claude.resume(fork(server, t.session_id, 1)["resume"], "after one")
    assert model.last().prompts() == ["one", "after one"]


def test_a_compacted_session_over_five_mebibytes_is_forked_and_rewound_like_a_small_one(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    """The program reads such files by another routine, from the compaction on."""
    t = Transcript(str(world.cwd))
    t.turn("one", "x" * (3 << 20))
    t.turn("two", "y" * (3 << 20))
    t.compact()
    t.turn("three")
    t.turn("four")
    t.write(world.store)

    claude.resume(fork(server, t.session_id, 1)["resume"], "after one")
    assert model.last().prompts() == ["one", "after one"]
    claude.resume(fork(server, t.session_id, 3)["resume"], "after three")
    assert model.last().prompts() == ["Summary of what was said.", "three", "after three"]
    rewound = server.rewind(session_id=session_id(t.session_id), to={"turn_number": 1})
    claude.resume(rewound["session"]["resume"], "another two")
    assert model.last().prompts() == ["one", "another two"]
