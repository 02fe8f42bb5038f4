"""Where the real `claude` looks for a session, and where Turntree therefore puts a fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Transcript
from tests.client import Client
from tests.real.asking import asked, fork, native, session_id
from tests.rig.claude import Claude
from tests.rig.model import Model
from tests.world import World

SAID = [
    asked("question 1"),
    ("assistant", "text", "answer 1"),
    asked("question 2"),
    ("assistant", "text", "answer 2"),
]


def _source(world: World, cwd: Path | None = None) -> str:
    t = Transcript(str(cwd or world.cwd))
    t.turns(3)
    t.write(world.store)
    return t.session_id


def test_a_fork_in_a_store_named_by_the_environment_is_resumed_with_that_variable(
    configured_world: World, model: Model
) -> None:
    world = configured_world
    source = _source(world)
    claude = Claude(model, world.home, world.config_dir)
    with Client(world.env(), cwd=world.cwd) as server:
        result = fork(server, source, 2)
    assert result["resume"]["env"] == {"CLAUDE_CONFIG_DIR": str(world.config_dir)}
    claude.resume(result["resume"], "in the fork")
    assert model.last().said() == [*SAID, asked("in the fork")]


def test_a_fork_in_the_default_store_needs_no_variable(
    world: World, server: Client, claude: Claude, model: Model
) -> None:
    result = fork(server, _source(world), 2)
    assert result["resume"]["env"] == {}
    claude.resume(result["resume"], "in the fork")
    assert model.last().said() == [*SAID, asked("in the fork")]


@pytest.mark.parametrize("name", ["dots.and_underscores", "x" * 120 + "/" + "新聞" * 40])
def test_a_fork_into_a_directory_of_any_name_is_resumed_there(
    world: World, server: Client, claude: Claude, model: Model, name: str
) -> None:
    elsewhere = world.home / name
    elsewhere.mkdir(parents=True)
    result = fork(server, _source(world), 2, cwd=str(elsewhere))
    claude.resume(result["resume"], "in the fork")
    assert model.last().said() == [*SAID, asked("in the fork")]


def test_a_fork_into_a_linked_directory_is_resumed_through_the_link(
    world: World, server: Client, claude: Claude, model: Model
) -> None:
    (world.home / "real").mkdir()
    link = world.home / "link"
    link.symlink_to(world.home / "real")
    result = fork(server, _source(world), 2, cwd=str(link))
    claude.resume(result["resume"], "in the fork")
    assert model.last().said() == [*SAID, asked("in the fork")]


def test_the_builders_and_the_program_name_the_same_folder(world: World, claude: Claude) -> None:
    for name in ("plain", "with 新聞 and.dots", "y" * 110 + "/" + "z" * 110):
        cwd = world.home / name
        cwd.mkdir(parents=True)
        native_id = claude.ask("where?", cwd).session_id
        built = Transcript(str(cwd), session_id=native_id)
        built.prompt("where?")
        assert built.path(world.store).exists()


def test_a_fork_that_continue_would_pick_is_warned_about(
    world: World, server: Client, claude: Claude, model: Model
) -> None:
    result = fork(server, _source(world), 2)
    assert result["warnings"]
    answer = claude.ask("go on", world.cwd, "--continue")
    assert answer.session_id == native(result["session"])
    assert model.last().said() == [*SAID, asked("go on")]


def test_sessions_of_the_program_are_listed_in_the_directory_where_they_run(
    world: World, server: Client, claude: Claude
) -> None:
    here = claude.ask("one", world.cwd).session_id
    elsewhere = world.home / "elsewhere"
    elsewhere.mkdir()
    claude.ask("two", elsewhere)
    page = server.list_sessions(cwd=str(world.cwd))
    assert [s["session_id"] for s in page["sessions"]] == [session_id(here)]
    assert page["sessions"][0]["resume"]["command"] == ["claude", "--resume", here]
    assert len(server.list_sessions()["sessions"]) == 2
