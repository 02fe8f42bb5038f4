"""Forks of a session of the real `claude`, resumed by it: what the model is sent.

One session of five turns with tools is recorded by the real program and is the source of
all forks here; no test writes to it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.client import Client
from tests.real.asking import Recorded, asked, fork, native, new_id, path_of, session_id
from tests.rig.claude import Claude
from tests.rig.model import Model, Reply, Tool
from tests.world import World, assert_untouched, store_hash

PROMPTS = [f"do task {n} 任務" for n in range(1, 6)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    world = World.make(tmp_path_factory.mktemp("five turns"))
    cwd = world.cwd
    (cwd / "a.py").write_text("print(1)\n")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=cwd, check=True)
    with Model() as model:
        model.script(
            Reply(
                "Writing b.py",
                thinking="b.py is missing",
                tools=(Tool("Write", {"file_path": str(cwd / "b.py"), "content": "one\n"}),),
            ),
            "turn 1 done",
            Reply(
                "Looking",
                tools=(
                    Tool("Read", {"file_path": str(cwd / "a.py")}),
                    Tool("Bash", {"command": "ls", "description": "list"}),
                    Tool("Bash", {"command": "seq 1 20000", "description": "much"}),
                ),
            ),
            "turn 2 done",
            Reply(
                tools=(
                    Tool(
                        "Edit",
                        {
                            "file_path": str(cwd / "a.py"),
                            "old_string": "print(1)",
                            "new_string": "print(3)",
                        },
                    ),
                )
            ),
            Reply(tools=(Tool("Write", {"file_path": str(cwd / "c.py"), "content": "c\n"}),)),
            "turn 3 done",
            Reply(
                "Asking",
                tools=(
                    Tool(
                        "Agent",
                        {
                            "description": "look around",
                            "prompt": "SUBAGENT: list the files",
                            "subagent_type": "general-purpose",
                        },
                    ),
                ),
            ),
            Reply(
                match="SUBAGENT", tools=(Tool("Bash", {"command": "ls", "description": "list"}),)
            ),
            Reply("a.py b.py c.py", match="SUBAGENT"),
            "turn 4 done",
            "turn 5 done",
        )
        return Recorded.talk(Claude(model, world.home), world, *PROMPTS)


@pytest.fixture
def world(source: Recorded) -> World:
    return source.world


@pytest.fixture(scope="module")
def server(source: Recorded) -> Iterator[Client]:
    with Client(source.world.env(), cwd=source.world.cwd) as client:
        yield client


def test_the_turns_of_the_session_are_listed_with_their_prompts(
    server: Client, source: Recorded
) -> None:
    page = server.list_turns(session_id=session_id(source.id))
    assert [t["prompt"] for t in page["turns"]] == PROMPTS
    assert [t["turn_number"] for t in page["turns"]] == [1, 2, 3, 4, 5]
    assert [t["tool_calls"] for t in page["turns"]] == [1, 3, 2, 1, 0]
    assert {t["status"] for t in page["turns"]} == {"complete"}
    assert [t["files"] for t in page["turns"]] == [["b.py"], [], ["a.py", "c.py"], [], []]


def test_a_fork_at_turn_2_sends_exactly_turns_1_and_2_and_the_new_prompt(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    before = store_hash(source.world.store)
    result = fork(server, source.id, 2)
    assert_untouched(before, source.world.store)

    assert result["status"] == "forked"
    assert result["turns"] == {"kept": 2, "source_total": 5}
    assert result["dropped_prompt"] == PROMPTS[2]
    answer = claude.resume(result["resume"], "what now?")

    assert answer.session_id == native(result["session"])
    sent = _paths_of(model.last().said(), native(result["session"]), source.id)
    assert sent == [*source.before(PROMPTS[2]), asked("what now?")]


def test_resuming_a_fork_leaves_its_source_as_it_was(
    server: Client, source: Recorded, claude: Claude
) -> None:
    before = {p: h for p, h in store_hash(source.world.store).items() if source.id in p}
    claude.resume(fork(server, source.id, 3)["resume"], "go on")
    after = store_hash(source.world.store)
    assert {p: after[p] for p in before} == before


def test_a_fork_sends_every_result_of_parallel_tool_calls(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    claude.resume(fork(server, source.id, 2)["resume"], "and now?")
    kinds = [kind for _, kind, _ in model.last().said()]
    assert kinds.count("tool_use") == kinds.count("tool_result") == 4


def test_a_fork_of_a_fork_sends_the_turns_that_both_kept(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    first = fork(server, source.id, 4)
    claude.resume(first["resume"], "in the first fork")
    second = fork(server, native(first["session"]), 5)
    third = fork(server, native(second["session"]), 3)

    claude.resume(second["resume"], "in the second fork")
    sent = _paths_of(model.last().said(), native(second["session"]), source.id)
    assert sent == [
        *source.before(PROMPTS[4]),
        asked("in the first fork"),
        ("assistant", "text", "answer to: in the first fork"),
        asked("in the second fork"),
    ]

    claude.resume(third["resume"], "in the third fork")
    sent = _paths_of(model.last().said(), native(third["session"]), source.id)
    assert sent == [*source.before(PROMPTS[3]), asked("in the third fork")]


def test_a_fork_into_another_directory_is_resumed_there(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    elsewhere = source.world.home / "other.dir_新 x"
    elsewhere.mkdir()
    result = fork(server, source.id, 1, cwd=str(elsewhere))
    assert result["resume"]["cwd"] == str(elsewhere)
    model.script(Reply(tools=(Tool("Bash", {"command": "pwd", "description": "where"}),)))

    claude.resume(result["resume"], "where are you?")

    said = model.last().said()
    assert said[: len(source.before(PROMPTS[1]))] == source.before(PROMPTS[1])
    assert said[-1] == ("user", "tool_result", str(elsewhere))


def test_a_large_tool_result_is_copied_and_the_records_name_the_copy(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    result = fork(server, source.id, 2)
    child = native(result["session"])
    path = path_of(source.world, child)
    kept = list(path.with_suffix("").glob("tool-results/*"))
    original = list(source.path.with_suffix("").glob("tool-results/*"))
    assert [p.read_bytes() for p in kept] == [p.read_bytes() for p in original]
    assert str(source.path.with_suffix("")) not in path.read_text()

    claude.resume(result["resume"], "look at it")
    previews = [text for _, kind, text in model.last().said() if "persisted-output" in text]
    assert len(previews) == 1
    assert str(kept[0]) in previews[0]


def test_a_fork_of_the_programs_own_fork_has_a_copy_of_the_large_result_too(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    """The program's own forks go on naming the file in the folder of their source."""
    theirs = claude.ask("their fork", source.world.cwd, "--fork-session", resume=source.id)
    assert theirs.session_id != source.id
    result = fork(server, theirs.session_id, 2)
    path = path_of(source.world, native(result["session"]))
    assert len(list(path.with_suffix("").glob("tool-results/*"))) == 1
    assert str(source.path.with_suffix("")) not in path.read_text()
    claude.resume(result["resume"], "look at it")
    sent = _paths_of(model.last().said(), native(result["session"]), source.id)
    assert sent == [*source.before(PROMPTS[2]), asked("look at it")]


def test_a_fork_that_drops_the_large_tool_result_has_no_copy_of_it(
    server: Client, source: Recorded
) -> None:
    child = native(fork(server, source.id, 1)["session"])
    path = path_of(source.world, child)
    assert not list(path.with_suffix("").glob("tool-results/*"))


def test_a_fork_keeps_the_call_of_a_subagent_and_what_it_answered(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    result = fork(server, source.id, 4)
    claude.resume(result["resume"], "who was asked?")
    sent = _paths_of(model.last().said(), native(result["session"]), source.id)
    assert sent == [*source.before(PROMPTS[4]), asked("who was asked?")]
    assert any(text.startswith("Agent ") for _, kind, text in sent if kind == "tool_use")


def test_a_fork_of_no_turns_starts_an_empty_session_under_the_new_id(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    child = new_id()
    result = fork(server, source.id, 0, new_session_id=child)
    assert result["resume"]["command"] == ["claude", "--session-id", child]
    assert result["dropped_prompt"] == PROMPTS[0]

    answer = claude.resume(result["resume"], "from the start")

    assert answer.session_id == child
    assert model.last().said() == [asked("from the start")]


def test_a_staged_fork_is_unknown_to_the_program_until_it_is_promoted(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    child = new_id()
    staged = fork(server, source.id, 2, new_session_id=child, stage=True)
    assert staged["session"]["state"] == "staged"
    with pytest.raises(AssertionError, match="No conversation found"):
        claude.ask("too early", source.world.cwd, resume=child)

    promoted = server.promote_session(session_id=session_id(child))["session"]
    assert promoted["state"] == "ready"
    claude.resume(promoted["resume"], "now")
    sent = _paths_of(model.last().said(), child, source.id)
    assert sent == [*source.before(PROMPTS[2]), asked("now")]


def test_the_program_restores_files_from_the_history_that_a_fork_carries(
    server: Client, source: Recorded, claude: Claude
) -> None:
    turns = server.list_turns(session_id=session_id(source.id))["turns"]
    result = fork(server, source.id, 3)
    cwd = source.world.cwd
    was = {p.name: p.read_text() for p in cwd.glob("*.py")}
    assert was == {"a.py": "print(3)\n", "b.py": "one\n", "c.py": "c\n"}
    try:
        claude.rewind_files(native(result["session"]), turns[2]["turn_id"], cwd)
        assert {p.name: p.read_text() for p in cwd.glob("*.py")} == {
            "a.py": "print(1)\n",
            "b.py": "one\n",
        }
    finally:
        for name, text in was.items():
            (cwd / name).write_text(text)


def test_the_programs_own_picker_offers_a_fork_by_its_title(
    server: Client, source: Recorded, claude: Claude, model: Model
) -> None:
    result = fork(server, source.id, 2, title="Tea with 新聞 at four")
    with claude.tui(source.world.cwd) as tui:
        tui.say("/resume")
        tui.wait_for("Tea with 新聞 at four")
        tui.type("Tea with")
        tui.keys("Enter")
        tui.wait_for("turn 2 done")
        tui.say("from the picker", "answer to: from the picker")
    sent = _paths_of(model.last().said(), native(result["session"]), source.id)
    assert sent == [*source.before(PROMPTS[2]), asked("from the picker")]


def _paths_of(
    said: list[tuple[str, str, str]], child: str, source: str
) -> list[tuple[str, str, str]]:
    """`said` with the names of the child's own files put back to those of the source."""
    return [(role, kind, text.replace(child, source)) for role, kind, text in said]
