"""Lines for another session: what is edited at the top level, and nothing below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from session.agents.claude_code.splice import Editor
from session.model import Boundary
from tests.builders import Transcript
from tests.session.agents.claude_code.slow import edited
from tests.session.agents.claude_code.test_fork_properties import CHILD, Forking

OLD = "aaaaaaaa-0000-4000-8000-000000000001"
NEW = "bbbbbbbb-0000-4000-8000-000000000002"
OTHER = "cccccccc-0000-4000-8000-000000000003"


def editor(**more: str) -> Editor:
    return Editor(OLD, NEW, **more)


LINES = [
    b'{"sessionId":"OLD"}',
    b'{"type":"user","sessionId":"OLD","version":"1"}',
    b'{"sessionId":"OLD","message":{"sessionId":"OLD","n":1e2}}',
    b'{"message":{"content":"\\"sessionId\\":\\"OLD\\""},"sessionId":"OLD","cwd":"/a"}',
    b'{"a":{"sessionId":"OLD","cwd":"/a"},"b":"OLD","sessionId":"OLD"}',
    b'{"a":{"b":"x","sessionId":"OLD","version":"1"}}',
    b'{"a":[{"sessionId":"OLD","version":"1"}],"sessionId":"OLD","version":"1"}',
    b'{ "sessionId" :\t"OLD" , "x" : -0 }  ',
    b'{"x":"OLD","y":"projects/OLD.jsonl"}',
    b'{"sessionId":null,"x":"OLD"}',
    b'{"sessionId":{"sessionId":"OLD"}}',
    b'{"sessionId":"OLD","sessionId":"OLD"}',
    b'{"cwd":"\\/a","entrypoint":"sdk-cli","sessionId":"OLD"}',
    b'{"text":"ends with ,\\"sessionId\\":\\"OLD\\",\\"version\\":\\"1\\"}","sessionId":"OLD"}',
    b"not JSON OLD",
    b"{",
]


@pytest.mark.parametrize("first", range(len(LINES)))
def test_whatever_line_comes_first_each_is_edited_at_its_top_level_alone(first: int) -> None:
    """The ending of a line that was edited is taken over to others: that must change nothing."""
    lines = [line.replace(b"OLD", OLD.encode()) for line in [*LINES[first:], *LINES[:first]] * 2]
    values = {"sessionId": NEW, "cwd": "/b 新", "entrypoint": "cli"}
    expected = [
        edited(line, **values) if line[-3:].strip()[-1:] == b"}" else line for line in lines
    ]
    data = b"".join(line + b"\n" for line in lines)
    tool = editor(cwd="/b 新", entrypoint="cli")
    assert tool.edit_block(data).split(b"\n")[:-1] == expected
    # And again, with all that was learnt.
    assert tool.edit_block(data).split(b"\n")[:-1] == expected


def test_without_a_directory_or_front_end_these_stay() -> None:
    line = b'{"cwd":"/a","entrypoint":"sdk-cli","sessionId":"%s"}\n' % OLD.encode()
    assert editor().edit_block(line) == line.replace(OLD.encode(), NEW.encode())


def test_line_ends_stay_as_they_are() -> None:
    lines = b'{"sessionId":"%s"}\r\n{"sessionId":"%s"}\n{"sessionId":"%s"}' % ((OLD.encode(),) * 3)
    assert editor().edit_block(lines) == lines.replace(OLD.encode(), NEW.encode())


def test_a_fork_of_more_than_a_block_is_edited_everywhere(tmp_path: Path) -> None:
    """Copied a megabyte at a time; more endings than are remembered; lines longer than that."""
    t = Transcript(seed=2)
    for number in range(60):
        t.version = f"2.1.{number % 17}"
        t.git_branch = f"branch-{number % 13}"
        t.cwd = f"/home/ada/{number % 7}"
        t.turn(f"p{number} {t.session_id}", "x" * (40_000 if number != 30 else 1_500_000))
    path = t.write(tmp_path)
    child = Forking(tmp_path).fork(path, Boundary(latest=True), cwd="/elsewhere 新聞")
    assert child is not None
    values = {"sessionId": CHILD, "cwd": "/elsewhere 新聞", "entrypoint": "cli"}
    expected = [edited(line, **values) for line in path.read_bytes().split(b"\n")[:-1]]
    assert child.read_bytes().split(b"\n")[:-3] == expected


def test_records_of_a_third_session_become_the_childs_too(tmp_path: Path) -> None:
    t = Transcript(seed=2)
    for number in range(6):
        t.turn(f"p{number}")
        if number % 2:
            for record in t.messages()[-2:]:
                record["sessionId"] = OTHER
    path = t.write(tmp_path)
    child = Forking(tmp_path).fork(path, Boundary(latest=True))
    assert child is not None
    assert OTHER.encode() not in child.read_bytes()
