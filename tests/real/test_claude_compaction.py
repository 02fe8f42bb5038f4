"""Compacted sessions of the real `claude`: forks and rewinds before, after and across."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import Transcript
from tests.client import Client
from tests.real.asking import Recorded, asked, before_prompt, fork, path_of, session_id
from tests.rig.claude import Claude
from tests.rig.model import Model, Reply, Tool
from tests.world import World

SUMMARY = "<summary>What was said, in short</summary>"
FULL = 190_000
"""Tokens to report when the program, told that 100,000 are its limit, shall compact."""


def _compacting(model: Model, world: World) -> Claude:
    # The program asks for a summary with a prompt of its own that demands text.
    for aside in (False, True):
        model.script(Reply(SUMMARY, match="TEXT ONLY", repeat=True, aside=aside))
    settings = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}
    return Claude(model, world.home, world.config_dir, settings)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Two turns, a compaction by hand, two turns."""
    world = World.make(tmp_path_factory.mktemp("compacted"))
    with Model() as model:
        claude = _compacting(model, world)
        return Recorded.talk(claude, world, "one", "two", "/compact", "three", "four")


@pytest.fixture
def world(recorded: Recorded) -> World:
    return recorded.world


@pytest.fixture
def claude(model: Model, world: World) -> Claude:
    return _compacting(model, world)


@pytest.fixture(scope="module")
def server(recorded: Recorded) -> Iterator[Client]:
    with Client(recorded.world.env(), cwd=recorded.world.cwd) as client:
        yield client


@pytest.fixture
def compacted(recorded: Recorded) -> str:
    """The native id of a copy of the recorded session."""
    return recorded.copied()


def test_a_compaction_by_hand_is_no_turn(server: Client, recorded: Recorded) -> None:
    page = server.list_turns(session_id=session_id(recorded.id))
    assert [t["prompt"] for t in page["turns"]] == ["one", "two", "three", "four"]
    assert [t["compacted"] for t in page["turns"]] == [True, True, False, False]


def test_a_fork_before_a_compaction_sends_the_turns_in_full(
    server: Client, recorded: Recorded, claude: Claude, model: Model
) -> None:
    claude.resume(fork(server, recorded.id, 1)["resume"], "in the fork")
    assert model.last().said() == [*recorded.before("two"), asked("in the fork")]
    claude.resume(fork(server, recorded.id, 2)["resume"], "in the other fork")
    assert model.last().prompts() == ["one", "two", "in the other fork"]


def test_a_fork_after_a_compaction_sends_the_summary_and_the_turns_after_it(
    server: Client, recorded: Recorded, claude: Claude, model: Model
) -> None:
    claude.resume(fork(server, recorded.id, 3)["resume"], "in the fork")
    assert model.last().said() == [*recorded.before("four"), asked("in the fork")]
    claude.resume(fork(server, recorded.id, None)["resume"], "at the end")
    assert model.last().said() == [
        *recorded.before("four"),
        asked("four"),
        ("assistant", "text", "answer to: four"),
        asked("at the end"),
    ]


def test_a_rewind_to_before_a_compaction_sends_the_turns_in_full_and_is_undone_bytewise(
    server: Client, compacted: str, recorded: Recorded, claude: Claude, model: Model, world: World
) -> None:
    before = path_of(world, compacted).read_bytes()
    rewound = server.rewind(session_id=session_id(compacted), to={"turn_number": 1})
    assert rewound["turns"] == {"kept": 1, "removed": 3}
    undone = server.undo(session_id=session_id(compacted))
    assert path_of(world, compacted).read_bytes() == before
    server.redo(session_id=session_id(compacted))

    claude.resume(undone["session"]["resume"], "another two")
    assert model.last().said() == [*recorded.before("two"), asked("another two")]


def test_a_rewind_to_after_a_compaction_sends_the_summary_and_the_kept_turns(
    server: Client, compacted: str, recorded: Recorded, claude: Claude, model: Model
) -> None:
    rewound = server.rewind(session_id=session_id(compacted), to={"by": 1})
    claude.resume(rewound["session"]["resume"], "another four")
    kept = recorded.before("four", in_copy=compacted)
    assert model.last().said() == [*kept, asked("another four")]


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

    # Told of the limit again, the program would compact the kept turns too.
    unlimited = Claude(model, world.home)
    unlimited.resume(fork(server, source, 2)["resume"], "after two")
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


def test_between_two_compactions_a_fork_and_a_rewind_send_the_first_summary(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    t.compact(summary="The first summary.")
    t.turns(2, first=3)
    t.compact(summary="The second summary.")
    t.turns(2, first=5)
    path = t.write(world.store)
    before = path.read_bytes()

    for number, summary in ((3, "The first summary."), (5, "The second summary.")):
        claude.resume(fork(server, t.session_id, number)["resume"], "in the fork")
        assert model.last().prompts() == [summary, f"question {number}", "in the fork"]
    claude.resume(fork(server, t.session_id, 2)["resume"], "in the fork")
    assert model.last().prompts() == ["question 1", "question 2", "in the fork"]

    server.rewind(session_id=session_id(t.session_id), to={"turn_number": 3})
    server.undo(session_id=session_id(t.session_id))
    assert path.read_bytes() == before
    redone = server.redo(session_id=session_id(t.session_id))
    claude.resume(redone["session"]["resume"], "rewound")
    assert model.last().prompts() == ["The first summary.", "question 3", "rewound"]


def test_a_session_that_ends_in_a_compaction_is_forked_with_its_summary(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turns(2)
    t.compact(summary="All of it.")
    t.write(world.store)
    result = fork(server, t.session_id, None)
    assert result["turns"]["kept"] == 2
    claude.resume(result["resume"], "in the fork")
    in_fork = model.last().said()
    claude.ask("in the fork", world.cwd, resume=t.session_id)
    assert in_fork == model.last().said()
    assert in_fork[0] == asked("All of it.")


def test_a_compaction_of_an_older_version_that_preserves_nothing_is_crossed_too(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    t = Transcript(str(world.cwd), version="2.1.50")
    t.turns(2)
    t.compact(summary="An old summary.", preserved=())
    t.turns(2, first=3)
    t.write(world.store)
    claude.resume(fork(server, t.session_id, 3)["resume"], "after it")
    assert [p.strip() for p in model.last().prompts()] == [
        "An old summary.",
        "question 3",
        "after it",
    ]
    rewound = server.rewind(session_id=session_id(t.session_id), to={"turn_number": 1})
    claude.resume(rewound["session"]["resume"], "rewound")
    assert model.last().prompts() == ["question 1", "rewound"]
