"""What a session says of itself: its kind, its titles, its directories, how it is resumed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from session.agents.base import Summary
from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.store import ClaudeStore
from session.errors import InvalidParams
from session.model import Boundary
from session.work import Work
from tests.builders import Transcript
from tests.session.agents.claude_code.opened import opened, opened_file


def summary(folder: Path, t: Transcript) -> Summary:
    return opened(folder, t).summary


# Kind


@pytest.mark.parametrize(
    ("entrypoint", "kind"),
    [
        ("cli", "main"),
        ("sdk-cli", "main"),
        ("claude-vscode", "main"),
        ("sdk-py", "sdk"),
        ("sdk-ts", "sdk"),
    ],
)
def test_runs_of_a_library_are_of_their_own_kind(
    tmp_path: Path, entrypoint: str, kind: str
) -> None:
    t = Transcript(entrypoint=entrypoint)
    t.turn("hello")
    assert summary(tmp_path, t).kind == kind


def test_a_library_run_that_a_person_took_up_is_still_one_by_its_first_record(
    tmp_path: Path,
) -> None:
    t = Transcript(entrypoint="sdk-py")
    t.turn("hello")
    t.entrypoint = "cli"
    t.turn("more")
    assert summary(tmp_path, t).kind == "sdk"


def test_a_subagents_file_is_one_in_both_layouts_and_names_its_parent(tmp_path: Path) -> None:
    t = Transcript()
    t.prompt("go")
    t.subagent("look", "looked", agent_id="ab12")
    t.answer("done")
    path = t.write(tmp_path)
    nested = path.with_suffix("") / "subagents" / "agent-ab12.jsonl"
    flat = path.with_name("agent-cd34.jsonl")
    flat.write_bytes(nested.read_bytes())
    for file in (nested, flat):
        told = opened_file(tmp_path, file).summary
        assert (told.kind, told.parent_id) == ("subagent", t.session_id)
    assert opened_file(tmp_path, path).summary.kind == "main"


def test_a_session_that_begins_with_a_side_chain_is_a_main_one(tmp_path: Path) -> None:
    t = Transcript()
    t.sidechain("look", "looked")
    t.turn("hello")
    assert summary(tmp_path, t).kind == "main"


def test_a_subagent_cannot_be_resumed_by_itself(tmp_path: Path) -> None:
    t = Transcript(str(tmp_path))
    t.prompt("go")
    t.subagent("look", "looked", agent_id="ab12")
    path = t.write(tmp_path)
    told = opened_file(tmp_path, path.with_suffix("") / "subagents" / "agent-ab12.jsonl").summary
    resume = ClaudeCode(ClaudeStore(tmp_path)).resume(told)
    assert not resume.resumable
    assert "parent" in str(resume.reason)


# Title


def test_the_title_is_the_persons_else_the_models_else_the_old_summary_else_the_first_prompt(
    tmp_path: Path,
) -> None:
    t = Transcript()
    t.turn("the first prompt\nof many lines")
    t.turn("the second")
    assert summary(tmp_path, t).title == "the first prompt of many lines"
    t.summary("an old summary")
    assert summary(tmp_path, t).title == "an old summary"
    t.ai_title("the model's")
    assert summary(tmp_path, t).title == "the model's"
    t.custom_title("mine")
    assert summary(tmp_path, t).title == "mine"
    t.ai_title("the model's again")
    assert summary(tmp_path, t).title == "mine"
    t.custom_title("mine again")
    assert summary(tmp_path, t).title == "mine again"


def test_a_title_from_before_a_compaction_stays(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    t.custom_title("mine")
    t.compact()
    t.turn("two")
    assert summary(tmp_path, t).title == "mine"


def test_a_session_without_any_prompt_has_no_title(tmp_path: Path) -> None:
    t = Transcript()
    t.meta("hello")
    t.answer("hi")
    assert summary(tmp_path, t).title is None


def test_the_first_prompt_that_names_a_session_is_one_of_its_live_branch(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.prompt("taken back")
    t.branch_from(None)
    t.turn("the real one")
    t.last_prompt("the real one")
    assert summary(tmp_path, t).title == "the real one"


# Directories and times


def test_first_and_last_directory_are_both_told(tmp_path: Path) -> None:
    t = Transcript("/home/ada/one")
    t.turn("hello")
    t.cwd = "/home/ada/two"
    t.turn("moved")
    told = summary(tmp_path, t)
    assert (told.cwd, told.last_cwd) == ("/home/ada/one", "/home/ada/two")


def test_a_session_that_was_relocated_is_where_it_went(tmp_path: Path) -> None:
    t = Transcript("/home/ada/one")
    t.turn("hello")
    t.relocated("/home/ada/two")
    told = summary(tmp_path, t)
    assert (told.cwd, told.last_cwd) == ("/home/ada/one", "/home/ada/two")


def test_times_are_those_of_records_not_of_the_file(tmp_path: Path) -> None:
    t = Transcript(start="2026-01-31T09:00:00.000Z")
    t.turn("one")
    last = t.find(str(t.head))["timestamp"]
    t.wait(3600)
    t.turn_duration()
    t.queue_operation()
    t.ai_title("later")
    told = summary(tmp_path, t)
    assert told.created_at == "2026-01-31T09:00:00.250Z"
    assert told.updated_at == last


def test_a_file_without_any_time_has_that_of_the_file(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    for record in t.messages():
        del record["timestamp"]
    path = t.write(tmp_path)
    os.utime(path, (1_700_000_000.125,) * 2)
    assert opened_file(tmp_path, path).summary.updated_at == "2023-11-14T22:13:20.125Z"


# Where it came from


def test_the_programs_own_branches_say_where_they_came_from(tmp_path: Path) -> None:
    source = "11111111-1111-4111-8111-111111111111"
    t = Transcript()
    t.turns(2)
    second = t.prompts[1]
    t.fork_of(source)
    t.turns(2, first=3)
    told = summary(tmp_path, t)
    assert (told.forked_from, told.forked_at, told.forked_turn) == (source, second, 2)


def test_a_session_that_was_not_forked_says_nothing(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    assert summary(tmp_path, t).forked_from is None


# Resuming


def test_a_session_is_resumed_by_its_id_in_its_directory(tmp_path: Path) -> None:
    cwd = tmp_path / "proj"
    cwd.mkdir()
    t = Transcript(str(cwd))
    t.turn("hello")
    agent = ClaudeCode(ClaudeStore(tmp_path))
    resume = agent.resume(summary(tmp_path, t))
    assert resume.command == ["claude", "--resume", t.session_id]
    assert (resume.cwd, resume.resumable, resume.reason) == (str(cwd), True, None)
    assert resume.env == {"CLAUDE_CONFIG_DIR": str(tmp_path)}


def test_it_is_resumed_in_the_directory_that_its_folder_is_named_for(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    t = Transcript(str(one))
    t.turn("hello")
    t.cwd = str(two)
    t.turn("in another directory now")
    agent = ClaudeCode(ClaudeStore(tmp_path))
    assert agent.resume(summary(tmp_path, t)).cwd == str(one)
    moved = ClaudeStore(tmp_path).folder_for(str(two))
    t.path(tmp_path).parent.rename(moved)
    told = opened_file(tmp_path, moved / f"{t.session_id}.jsonl").summary
    assert agent.resume(told).cwd == str(two)


def test_a_session_whose_directory_is_gone_says_why_it_cannot_be_resumed(tmp_path: Path) -> None:
    t = Transcript("/no/such/directory")
    t.turn("hello")
    resume = ClaudeCode(ClaudeStore(tmp_path)).resume(summary(tmp_path, t))
    assert not resume.resumable
    assert resume.reason == "its directory /no/such/directory does not exist"


@pytest.mark.parametrize(
    "native_id", ["", "x", "AAAAAAAA-0000-4000-8000-000000000001", "0f3c", "../x", "0" * 36]
)
def test_an_id_that_the_agent_would_not_take_is_refused(native_id: str) -> None:
    with pytest.raises(InvalidParams, match="lower-case UUID"):
        ClaudeCode().check_new_id(native_id)


def test_new_ids_are_taken_by_the_agent() -> None:
    agent = ClaudeCode()
    ids = {agent.new_id() for _ in range(50)}
    assert len(ids) == 50
    for native_id in ids:
        agent.check_new_id(native_id)


def test_an_index_that_is_not_used_any_more_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from session.agents.claude_code import agent as module

    monkeypatch.setattr(module, "_CACHED_LINES", 20)
    agent = ClaudeCode(ClaudeStore(tmp_path))
    for seed in range(10):
        t = Transcript(seed=seed)
        t.turns(5)
        path = t.write(tmp_path)
        for _ in range(2):
            history = agent.open(path, native_id=path.stem, work=Work())
            assert history.cut(Boundary(latest=True)).kept == 5
