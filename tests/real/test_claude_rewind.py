"""Rewinds, undo and redo of sessions of the real `claude`, resumed by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client import Client, RpcError
from tests.real.asking import Recorded, asked, new_id, path_of, session_id
from tests.rig.claude import Claude
from tests.rig.model import Model, Reply, Tool
from tests.world import World, store_hash


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A session of three turns, the second with a tool call."""
    world = World.make(tmp_path_factory.mktemp("three turns"))
    with Model() as model:
        model.script(
            "first done",
            Reply("looking", tools=(Tool("Bash", {"command": "echo two", "description": "say"}),)),
            "second done",
            "third done",
        )
        return Recorded.talk(Claude(model, world.home), world, "one", "two", "three")


@pytest.fixture
def world(recorded: Recorded) -> World:
    return recorded.world


@pytest.fixture(scope="module")
def server(recorded: Recorded) -> Iterator[Client]:
    with Client(recorded.world.env(), cwd=recorded.world.cwd) as client:
        yield client


@pytest.fixture
def source(recorded: Recorded) -> str:
    """The native id of a copy of the recorded session, for this test to rewind."""
    return recorded.copied()


def test_a_rewound_session_sends_exactly_the_kept_turns_and_the_new_prompt(
    server: Client, source: str, recorded: Recorded, claude: Claude, model: Model
) -> None:
    result = server.rewind(session_id=session_id(source), to={"turn_number": 2})
    assert result["status"] == "rewound"
    assert result["turns"] == {"kept": 2, "removed": 1}
    assert result["dropped_prompt"] == "three"

    answer = claude.resume(result["session"]["resume"], "another third")

    assert answer.session_id == source
    assert model.last().said() == [*recorded.before("three"), asked("another third")]


def test_a_rewind_holds_when_the_session_goes_on(
    server: Client, source: str, claude: Claude, model: Model, world: World
) -> None:
    server.rewind(session_id=session_id(source), to={"by": 2})
    claude.talk(world.cwd, "new two", "new three", resume=source)
    assert model.last().prompts() == ["one", "new two", "new three"]
    page = server.list_turns(session_id=session_id(source))
    assert [t["prompt"] for t in page["turns"]] == ["one", "new two", "new three"]
    branches = server.list_branches(session_id=session_id(source))["branches"]
    assert [(b["active"], b["turn_count"], b["last_prompt"]) for b in branches] in (
        [(True, 3, "new three"), (False, 3, "three")],
        [(False, 3, "three"), (True, 3, "new three")],
    )


def test_an_undone_rewind_sends_all_turns_and_leaves_the_file_as_it_was(
    server: Client, source: str, claude: Claude, model: Model, world: World
) -> None:
    before = path_of(world, source).read_bytes()
    server.rewind(session_id=session_id(source), to={"turn_number": 1})
    undone = server.undo(session_id=session_id(source))
    assert undone["status"] == "undone"
    assert path_of(world, source).read_bytes() == before

    claude.resume(undone["session"]["resume"], "four")
    assert model.last().prompts() == ["one", "two", "three", "four"]


def test_a_redone_rewind_sends_the_kept_turns_again(
    server: Client, source: str, recorded: Recorded, claude: Claude, model: Model
) -> None:
    server.rewind(session_id=session_id(source), to={"turn_number": 1})
    server.undo(session_id=session_id(source))
    redone = server.redo(session_id=session_id(source))
    assert redone["status"] == "redone"

    claude.resume(redone["session"]["resume"], "after redo")
    assert model.last().said() == [*recorded.before("two"), asked("after redo")]


def test_a_rewind_to_nothing_sends_only_the_new_prompt(
    server: Client, source: str, claude: Claude, model: Model
) -> None:
    result = server.rewind(session_id=session_id(source), to={"turn_number": 0})
    assert result["turns"] == {"kept": 0, "removed": 3}

    answer = claude.resume(result["session"]["resume"], "from the start")

    assert answer.session_id == source
    assert model.last().said() == [asked("from the start")]


def test_a_rewind_undone_after_new_turns_keeps_those_turns_reachable(
    server: Client, source: str, claude: Claude, model: Model, world: World
) -> None:
    rewound = server.rewind(session_id=session_id(source), to={"turn_number": 1})
    claude.talk(world.cwd, "new two", resume=source)
    undone = server.undo(operation_id=rewound["operation_id"])

    claude.resume(undone["session"]["resume"], "four")
    assert model.last().prompts() == ["one", "two", "three", "four"]
    branches = server.list_branches(session_id=session_id(source))["branches"]
    assert "new two" in {b["last_prompt"] for b in branches}


def test_a_fork_of_the_dropped_turns_sends_them_although_they_were_rewound(
    server: Client, source: str, claude: Claude, model: Model
) -> None:
    turns = server.list_turns(session_id=session_id(source))["turns"]
    server.rewind(session_id=session_id(source), to={"turn_number": 1})
    child = server.fork_session(
        session_id=session_id(source),
        new_session_id=new_id(),
        at={"through_turn": turns[2]["turn_id"]},
    )
    claude.resume(child["resume"], "in the fork")
    assert model.last().prompts() == ["one", "two", "three", "in the fork"]


def test_a_rewind_that_keeps_everything_writes_nothing(
    server: Client, source: str, world: World
) -> None:
    before = store_hash(world.store)
    result = server.rewind(session_id=session_id(source), to={"turn_number": 3})
    assert result["status"] == "already_at_target"
    assert store_hash(world.store) == before


def test_a_rewind_is_refused_while_the_terminal_has_the_session_open(
    server: Client, source: str, claude: Claude, model: Model, world: World
) -> None:
    with claude.tui(world.cwd, "--resume", source) as tui:
        tui.wait_for("third done")
        before = path_of(world, source).read_bytes()
        with pytest.raises(RpcError) as refused:
            server.rewind(session_id=session_id(source), to={"turn_number": 1}, wait_ms=0)
        assert refused.value.kind == "session_busy"
        assert refused.value.data["holder"]["pid"] == tui.pid
        assert server.get_session(session_id=session_id(source))["session"]["live"]["pid"] == (
            tui.pid
        )
        assert path_of(world, source).read_bytes() == before

        alternative = refused.value.data["alternative"]
        child = server.call(alternative["method"], alternative["params"])
        claude.resume(child["resume"], "in the alternative")
        assert model.last().prompts() == ["one", "in the alternative"]

        tui.say("still here", "answer to: still here")
        assert model.last().prompts() == ["one", "two", "three", "still here"]
        tui.leave()
    result = server.rewind(session_id=session_id(source), to={"turn_number": 1})
    assert result["turns"] == {"kept": 1, "removed": 3}
