"""Lines that are longer than memory should hold: runs of NULs, and lines that never end."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from session.agents.claude_code import transcript as transcripts
from tests.builders import Transcript
from tests.session.agents.claude_code.opened import opened_file, prompts

MANY = 96 << 20


def written(folder: Path, *, hole: int, end: bytes) -> tuple[Path, list[str]]:
    """A session with two turns, then `hole` NULs (a sparse file), `end`, and two more turns."""
    t = Transcript()
    t.turns(2)
    before = t.dump()
    t.turns(2, first=3)
    after = t.dump()[len(before) :]
    path = t.write(folder)
    path.write_bytes(before)
    with path.open("r+b") as file:
        file.seek(len(before) + hole)
        file.write(end + after)
    return path, ["question 1", "question 2", "question 3", "question 4"]


@pytest.mark.parametrize("end", [b"\n", b""], ids=["on a line", "before a record"])
@pytest.mark.parametrize("hole", [1 << 20, (1 << 20) + 1, MANY])
def test_a_run_of_nuls_hides_nothing_and_is_not_held(tmp_path: Path, end: bytes, hole: int) -> None:
    path, expected = written(tmp_path, hole=hole, end=end)
    tracemalloc.start()
    history = opened_file(tmp_path, path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert prompts(history) == expected
    assert history.summary.finding_count == 0 and not history.gaps()
    assert peak < 24 << 20


def test_nuls_at_the_end_are_passed_over_and_what_follows_later_is_read(tmp_path: Path) -> None:
    t = Transcript()
    t.turns(2)
    path = t.write(tmp_path)
    size = path.stat().st_size
    os.truncate(path, size + MANY)
    index = transcripts.Transcript(path)
    index.refresh()
    assert len(index.turn_starts) == 2
    t.turn("after the crash")
    with path.open("ab") as file:
        file.write(b"\n" + t.dump()[size:])
    index.refresh()
    assert len(index.turn_starts) == 3


def test_a_line_that_is_too_long_is_one_error_and_the_lines_around_it_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "LONGEST_LINE", 2 << 20)
    t = Transcript()
    t.turns(2)
    t.append(b'{"type":"progress","data":"' + b"x" * (5 << 20) + b'"}')
    t.turns(2, first=3)
    history = opened_file(tmp_path, t.write(tmp_path))
    assert prompts(history) == ["question 1", "question 2", "question 3", "question 4"]
    assert history.summary.finding_count == 1
