"""Where the agent keeps sessions, and who has them open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from session import osfile
from session.agents.claude_code.store import ClaudeStore, is_session_id, slug
from session.errors import StorageError
from session.model import Skipped
from tests.builders import Transcript, live_session

ID = "0f3c0000-0000-4000-8000-000000000001"


# What the agent's own rule (in JavaScript) makes of these paths.
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/ada/proj", "-home-ada-proj"),
        ("/home/ada/.config/a_b c", "-home-ada--config-a-b-c"),
        ("/home/ada/新聞", "-home-ada---"),
        ("/home/ada/😀", "-home-ada---"),
        ("/home/ada/é", "-home-ada--"),
        ("/a" * 100, "-a" * 100),
        ("/a" * 100 + "b", "-a" * 100 + "-f6id7e"),
        ("/新聞😀" * 60, "-" * 200 + "-ik45c0"),
    ],
)
def test_the_folder_of_a_directory_is_named_as_the_agent_names_it(path: str, name: str) -> None:
    assert slug(path) == name


def test_a_session_id_is_a_lower_case_uuid() -> None:
    assert is_session_id(ID)
    assert not is_session_id(ID.upper())
    assert not is_session_id(ID[:-1])
    assert not is_session_id(f"{ID}\n")
    assert not is_session_id("agent-ab12")


def test_the_project_folder_is_that_of_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    store = ClaudeStore(tmp_path / "store")
    assert store.folder_for(str(tmp_path / "link")) == store.folder_for(str(tmp_path / "target"))


def test_the_store_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    assert ClaudeStore().root == tmp_path / ".claude"
    assert ClaudeStore().env == {}
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "other"))
    assert ClaudeStore().projects == tmp_path / "other" / "projects"
    assert ClaudeStore().env == {"CLAUDE_CONFIG_DIR": str(tmp_path / "other")}
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    assert ClaudeStore().env == {}


# Who has a session open


@pytest.fixture
def sleeper() -> Iterator[int]:
    """The pid of a process that lives as long as the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    yield process.pid
    process.communicate(b"\n")


def test_a_living_program_of_the_registry_has_its_session_open(
    tmp_path: Path, sleeper: int
) -> None:
    live_session(tmp_path, sleeper, ID, procStart=osfile.process_start(sleeper))
    live = ClaudeStore(tmp_path).live()
    assert live[ID].pid == sleeper
    assert live[ID].since == "2026-01-31T09:00:00.000Z"


def test_an_entry_without_a_start_time_counts_while_its_process_lives(
    tmp_path: Path, sleeper: int
) -> None:
    live_session(tmp_path, sleeper, ID)
    assert set(ClaudeStore(tmp_path).live()) == {ID}


def test_a_reused_pid_does_not_make_a_session_live(tmp_path: Path, sleeper: int) -> None:
    live_session(tmp_path, sleeper, ID, procStart="1")
    assert ClaudeStore(tmp_path).live() == {}


def test_a_dead_process_does_not_make_a_session_live(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    live_session(tmp_path, process.pid, ID, procStart="1")
    live_session(tmp_path, 2**22 + 1, ID)
    assert ClaudeStore(tmp_path).live() == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"pid": "x"}', b'{"pid": 1}', b'{"pid": null, "sessionId": "x"}'],
)
def test_a_registry_entry_that_makes_no_sense_is_passed_over(
    tmp_path: Path, content: bytes, sleeper: int
) -> None:
    live_session(tmp_path, sleeper, ID)
    (tmp_path / "sessions" / "1.json").write_bytes(content)
    (tmp_path / "sessions" / "a-directory.json").mkdir()
    assert set(ClaudeStore(tmp_path).live()) == {ID}


def test_without_a_registry_no_session_is_live(tmp_path: Path) -> None:
    assert ClaudeStore(tmp_path).live() == {}


# Which files there are


def found(store: Path) -> tuple[list[str], list[str]]:
    """Native ids of what is found; names and reasons of what is not looked at, in order."""
    skipped: list[Skipped] = []
    files = sorted(f.native_id for f in ClaudeStore(store).files(skipped, {}))
    return files, sorted(f"{Path(s.path).name}: {s.reason}" for s in skipped)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project folder with one good session."""
    t = Transcript(session_id=ID)
    t.turn("hello")
    return t.write(tmp_path).parent


def test_what_is_no_session_of_the_agent_is_told_and_hides_nothing(
    tmp_path: Path, folder: Path
) -> None:
    (folder / "notes.jsonl").write_text("{}\n")
    (folder / "readme.txt").write_text("hello")
    (folder / "sessions-index.json").write_text("{}")
    (folder / "0f3c0000-0000-4000-8000-000000000002.jsonl").write_bytes(b"")
    (folder / "0f3c0000-0000-4000-8000-000000000003.jsonl").mkdir()
    os.mkfifo(folder / "0f3c0000-0000-4000-8000-000000000004.jsonl")
    (folder / "0f3c0000-0000-4000-8000-000000000005.jsonl").symlink_to("nowhere")
    (tmp_path / "projects" / "a-file").write_text("")
    files, skipped = found(tmp_path)
    assert files == [ID]
    assert skipped == [
        "0f3c0000-0000-4000-8000-000000000002.jsonl: empty file",
        "0f3c0000-0000-4000-8000-000000000003.jsonl: not a regular file",
        "0f3c0000-0000-4000-8000-000000000004.jsonl: not a regular file",
        "0f3c0000-0000-4000-8000-000000000005.jsonl: No such file or directory",
        "notes.jsonl: its name is not a session id (a UUID)",
    ]


def test_a_store_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    assert found(tmp_path / "nothing") == ([], [])


def test_a_project_folder_that_is_a_link_is_looked_into(tmp_path: Path, folder: Path) -> None:
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    folder.symlink_to(moved)
    assert found(tmp_path)[0] == [ID]
    assert ClaudeStore(tmp_path).locate(ID) == folder / f"{ID}.jsonl"


def test_a_loop_of_links_is_passed_over(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "projects" / "loop").symlink_to("loop")
    assert found(tmp_path)[0] == [ID]
    assert ClaudeStore(tmp_path).locate(ID) is not None


def test_folders_in_which_turntree_builds_are_not_looked_into(tmp_path: Path, folder: Path) -> None:
    stage = folder / ".turntree-x"
    stage.mkdir()
    (stage / f"{ID}.jsonl").write_text("{}\n")
    hidden = tmp_path / "projects" / ".turntree-y"
    hidden.mkdir()
    (hidden / "0f3c0000-0000-4000-8000-000000000002.jsonl").write_text("{}\n")
    assert found(tmp_path) == ([ID], [])


def test_subagents_are_found_in_both_layouts(tmp_path: Path, folder: Path) -> None:
    (folder / ID / "subagents").mkdir(parents=True)
    (folder / ID / "subagents" / "agent-ab12.jsonl").write_text("{}\n")
    (folder / ID / "subagents" / "agent-ab12.meta.json").write_text("{}")
    (folder / "agent-cd34.jsonl").write_text("{}\n")
    files, skipped = found(tmp_path)
    assert (set(files), skipped) == ({ID, "agent-ab12", "agent-cd34"}, [])
    assert ClaudeStore(tmp_path).locate("agent-ab12") is not None
    assert ClaudeStore(tmp_path).locate("agent-cd34") == folder / "agent-cd34.jsonl"


def test_of_two_files_with_one_id_the_larger_is_the_session(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "projects" / "another"
    other.mkdir()
    path = other / f"{ID}.jsonl"
    path.write_bytes((folder / f"{ID}.jsonl").read_bytes() + b'{"type":"mode"}\n')
    assert ClaudeStore(tmp_path).locate(ID) == path
    path.write_bytes(b"{}\n")
    assert ClaudeStore(tmp_path).locate(ID) == folder / f"{ID}.jsonl"


def test_only_regular_files_are_located(tmp_path: Path, folder: Path) -> None:
    pipe, directory = (f"0f3c0000-0000-4000-8000-00000000000{n}" for n in (2, 3))
    os.mkfifo(folder / f"{pipe}.jsonl")
    (folder / f"{directory}.jsonl").mkdir()
    for native_id, what in ((pipe, "a named pipe"), (directory, "a directory")):
        with pytest.raises(StorageError, match=what) as failure:
            ClaudeStore(tmp_path).locate(native_id)
        assert failure.value.data["path"] == str(folder / f"{native_id}.jsonl")


def test_no_id_reaches_out_of_the_store(tmp_path: Path, folder: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text(json.dumps({"a": 1}))
    for native_id in ("../../secret", "*", "agent-*", "", ".", "agent-../../../secret", "\x00"):
        located = ClaudeStore(tmp_path).locate(native_id)
        assert located is None, (native_id, located)
