"""Reading past another session's file: every line of the session, and memory that is bounded."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session.agents.claude_code import passing

NAME = b'"of-this-session"'


@given(
    st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.integers(0, 60)), max_size=12),
    st.booleans(),
)
def test_each_line_of_the_session_is_given_with_its_place(
    lines: list[tuple[int, bool, int]], ended: bool
) -> None:
    written = [b"x" * before + NAME * named + b"y" * after for before, named, after in lines]
    data = b"\n".join(written) + b"\n" * ended
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passing, "_WINDOW", 7)
        patch.setattr(passing, "_LONG", 19)
        path = Path(os.devnull)
        patch.setattr(passing.osfile, "pread", lambda fd, size, at: data[at : at + size])
        found = {}
        for block in passing.blocks(path, (NAME,)):
            assert data[block.offset : block.offset + len(block.data)] == block.data
            for number, line in enumerate(block.data.split(b"\n"), block.first):
                if NAME in line:
                    found[number] = line
    assert found == {number: line for number, line in enumerate(written, 1) if NAME in line}


def test_a_long_line_of_no_interest_is_passed_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.write_bytes(b"first\n")
    os.truncate(path, 128 << 20)
    with path.open("ab") as file:
        file.write(b"\n" + NAME + b"\n")
    tracemalloc.start()
    try:
        found = [block.data for block in passing.blocks(path, (NAME,))]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [b"first\n", NAME + b"\n"]
    assert peak < 20 << 20
