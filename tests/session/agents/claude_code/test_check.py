"""Checks of single files: nothing is wrong with healthy ones, and any file can be checked."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session.agents.claude_code import transcript
from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.checking import walk
from session.agents.claude_code.checking.places import kept_days
from session.agents.claude_code.store import ClaudeStore
from session.errors import Cancelled, StorageError
from session.model import Finding
from session.work import Work
from tests.builders import Transcript
from tests.chain import to_json
from tests.session.agents.claude_code.stories import Story, stories

EXPECTED = ("missing_directory", "not_utf8", "no_records")
"""Stories are told in no directory, some write what is no UTF-8, some hold nothing."""
HEALTHY = ("dangling", "unanswered", "twice", "no_record", "setting")
"""Steps of stories that leave something to be told, or to be typed again."""


def checked(folder: Path, t: Transcript, **how: Any) -> list[Finding]:
    return checked_file(folder, t.write(folder), **how)


def checked_file(
    folder: Path, path: Path, agent: ClaudeCode | None = None, *, siblings: bool = True
) -> list[Finding]:
    agent = agent or ClaudeCode(ClaudeStore(folder))
    history = agent.open(path, native_id=path.stem, work=Work())
    found = agent.check(history, siblings=siblings, work=Work())
    wrong = sum(finding.severity == "error" for finding in found)
    assert history.summary.finding_count == wrong
    assert history.summary.damaged == bool(wrong)
    return found


def codes(found: list[Finding], *, but: tuple[str, ...] = ()) -> list[str]:
    return [f.code for f in found if f.code not in ("missing_directory", *but)]


@given(stories(without=HEALTHY))
def test_nothing_is_wrong_with_what_the_program_itself_writes(story: Story) -> None:
    with tempfile.TemporaryDirectory() as name:
        found = checked(Path(name), story.transcript)
        told = [f for f in found if f.severity != "info" and f.code not in EXPECTED]
        assert told == [], story.outline()


@given(stories(), st.data())
def test_any_file_can_be_checked_and_places_are_those_of_lines(
    story: Story, data: st.DataObject
) -> None:
    content = story.data
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, max(0, len(content))))
        kind = data.draw(st.sampled_from(("cut", "drop", "glue", "nul", "mark", "byte", "repeat")))
        end = min(len(content), at + data.draw(st.integers(0, 300)))
        if kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[end:]
        elif kind == "glue":
            content = content[:at] + content[at:end].replace(b"\n", b"") + content[end:]
        elif kind == "repeat":
            content = content[:end] + content[at:end] + content[end:]
        else:
            odd = {"nul": b"\x00" * 9, "mark": b"\xef\xbb\xbf", "byte": b"\xfe"}[kind]
            content = content[:at] + odd + content[at:]
    with tempfile.TemporaryDirectory() as name:
        path = story.transcript.write(Path(name))
        path.write_bytes(content)
        found = checked_file(Path(name), path)
        starts = [0, *(at + 1 for at, byte in enumerate(content) if byte == 10)]
        for finding in found:
            if finding.line is not None:
                assert finding.byte_offset == starts[finding.line - 1], finding


@given(stories(), st.lists(st.integers(1, 4000), min_size=1, max_size=5))
def test_a_file_that_grew_is_told_as_one_that_is_read_for_the_first_time(
    story: Story, sizes: list[int]
) -> None:
    content = story.data
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = story.transcript.write(folder)
        path.write_bytes(b"")
        agent = ClaudeCode(ClaudeStore(folder))
        for size in [*sizes, len(content)]:
            piece, content = content[:size], content[size:]
            with path.open("ab") as file:
                file.write(piece)
            grown = checked_file(folder, path, agent)
        assert grown == checked_file(folder, path)


# What is told of several lines together


def test_records_that_a_compaction_repeats_are_not_told(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    t.prompt("two")
    t.tool("Bash", {"command": "ls"}, "a.py")
    t.compact_in_turn_as_the_tui()
    t.turn("three")
    assert codes(checked(tmp_path, t)) == []


def test_a_glued_line_has_the_turn_of_the_record_that_is_whole(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    turn_id = t.turn("two")
    t.records[3] = b'{"type":"mode","mo' + to_json(t.records[3])
    (finding,) = [f for f in checked(tmp_path, t) if f.code == "glued_line"]
    assert (finding.line, finding.turn_id) == (4, turn_id)
    assert "1 whole record and what is left of 1 torn one" in finding.message


def test_lines_after_a_glued_one_have_their_right_numbers(tmp_path: Path) -> None:
    t = Transcript()
    t.turns(5)
    lines = t.dump().splitlines()
    t.records[2:5] = [lines[2] + lines[3] + lines[4]]
    t.records[5] = lines[7][:50]
    found = checked(tmp_path, t)
    assert [(f.code, f.line) for f in found if f.severity == "error"] == [
        ("glued_line", 3),
        ("torn_line", 6),
        ("missing_parent", 7),
    ]


def test_a_line_too_long_to_be_held_is_told_and_what_follows_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (transcript, walk):
        monkeypatch.setattr(module, "LONGEST_LINE", 2 << 20)
    t = Transcript()
    t.prompt("one")
    t.tool("Bash", {"command": "cat"}, "x" * (5 << 20))
    t.answer()
    t.records.append(b'{"torn')
    found = checked(tmp_path, t)
    errors = [(f.code, f.line) for f in found if f.severity == "error"]
    assert errors == [("huge_line", 3), ("missing_parent", 4), ("torn_line", 5)]
    assert [(f.code, f.line) for f in found if f.code == "dangling_call"] == [("dangling_call", 2)]


# Records that went to another session's file


def strays(folder: Path, t: Transcript) -> list[str]:
    return [f.message for f in checked(folder, t) if f.code == "stray_records"]


def two(folder: Path) -> tuple[Transcript, Transcript]:
    own, other = Transcript(seed=1), Transcript(seed=2)
    own.turns(3)
    other.turns(2)
    return own, other


def test_strays_are_told_with_their_file_and_first_line(tmp_path: Path) -> None:
    own, other = two(tmp_path)
    other.records.insert(2, b"")
    other.records += own.records[2:]
    del own.records[2:]
    path = other.write(tmp_path)
    (message,) = strays(tmp_path, own)
    assert message.startswith("4 records of this session, with 2 prompts")
    assert f"from line 6 of {path} on" in message
    assert checked(tmp_path, own, siblings=False) == [
        f for f in checked(tmp_path, own) if f.code != "stray_records"
    ]


def test_strays_that_another_tool_spelled_with_spaces_are_found(tmp_path: Path) -> None:
    own, other = two(tmp_path)
    other.records.append(to_json(own.records.pop()).replace(b'":', b'": '))
    other.write(tmp_path)
    assert len(strays(tmp_path, own)) == 1


def test_copies_of_records_that_the_session_has_are_no_strays(tmp_path: Path) -> None:
    own, other = two(tmp_path)
    other.records += own.records
    other.write(tmp_path)
    assert strays(tmp_path, own) == []


def test_a_copy_under_another_name_that_went_on_is_no_stray(tmp_path: Path) -> None:
    own, other = two(tmp_path)
    own.write(tmp_path)
    copy = Transcript(seed=1)
    copy.turns(5)
    copy.session_id = other.session_id
    copy.write(tmp_path)
    assert strays(tmp_path, own) == []


def test_the_agents_own_forks_hold_no_strays(tmp_path: Path) -> None:
    own, _ = two(tmp_path)
    fork = Transcript(seed=1, session_id="0f3c0000-0000-4000-8000-000000000001")
    fork.turns(5)
    fork.fork_of(own.session_id)
    fork.write(tmp_path)
    assert strays(tmp_path, own) == []


def test_what_cannot_be_read_beside_the_session_hides_nothing(tmp_path: Path) -> None:
    own, other = two(tmp_path)
    other.records.append(own.records.pop())
    folder = other.write(tmp_path).parent
    for number, make in enumerate((os.mkfifo, os.mkdir, partial(os.symlink, "/nowhere")), 1):
        make(folder / f"0000000{number}-0000-4000-8000-000000000000.jsonl")
    assert len(strays(tmp_path, own)) == 1


# Age


@pytest.mark.parametrize(
    ("settings", "local", "days"),
    [
        (None, None, 30),
        ({}, None, 30),
        ({"cleanupPeriodDays": 365}, None, 365),
        ({"cleanupPeriodDays": 7.0}, None, 7),
        ({"cleanupPeriodDays": 365}, {"cleanupPeriodDays": 20}, 20),
        # The program refuses these, and then deletes nothing.
        ({"cleanupPeriodDays": 0}, None, None),
        ({"cleanupPeriodDays": -1}, None, None),
        ({"cleanupPeriodDays": "30"}, None, None),
        ({"cleanupPeriodDays": True}, None, None),
        ({"cleanupPeriodDays": 1.5}, None, None),
    ],
)
def test_how_long_sessions_are_kept(
    tmp_path: Path, settings: object, local: object, days: int | None
) -> None:
    for name, value in (("settings.json", settings), ("settings.local.json", local)):
        if value is not None:
            (tmp_path / name).write_bytes(to_json(value))
    assert kept_days(tmp_path) == days


def test_settings_that_are_no_json_count_as_none(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b'{"cleanupPeriodDays": 1')
    assert kept_days(tmp_path) == 30


# Long work


class Cancelling(Work):
    """Work that is cancelled while it runs, after so many steps."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def checkpoint(self, done: int = 0, total: int = 0, doing: str = "") -> None:
        super().checkpoint(done, total, doing)
        self.left -= 1
        if not self.left:
            self.cancel()


def test_a_check_tells_how_far_it_is_and_stops_when_cancelled(tmp_path: Path) -> None:
    own, other = two(tmp_path)
    for t in (own, other):
        t.answer("y" * (3 << 20))
    other.write(tmp_path)
    agent, path = ClaudeCode(ClaudeStore(tmp_path)), own.write(tmp_path)
    history = agent.open(path, native_id=path.stem, work=Work())
    reports: list[tuple[int, int, str]] = []
    agent.check(history, siblings=True, work=Work(lambda *told: reports.append(told)))
    done = [at for at, _, _ in reports]
    assert done == sorted(done) and len({total for _, total, _ in reports}) == 1
    assert len({doing for _, _, doing in reports}) == 2
    for after in (1, len(reports) - 1):
        work = Cancelling(after)
        with pytest.raises(Cancelled):
            agent.check(history, siblings=True, work=work)
        assert work.left == 0


def test_a_file_that_was_cut_meanwhile_is_told(tmp_path: Path) -> None:
    t = Transcript()
    t.turns(3)
    agent, path = ClaudeCode(ClaudeStore(tmp_path)), t.write(tmp_path)
    history = agent.open(path, native_id=path.stem, work=Work())
    os.truncate(path, 100)
    with pytest.raises(StorageError, match="became shorter"):
        agent.check(history, siblings=True, work=Work())
