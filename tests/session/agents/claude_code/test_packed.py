"""An index that was kept is the one that was made, or it is not believed."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from session.agents.claude_code import packed
from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.store import ClaudeStore
from session.agents.claude_code.transcript import Transcript as Index
from session.store.native_files import Identity
from session.work import Work
from tests.builders import Transcript
from tests.session.agents.claude_code.stories import Story, stories
from tests.session.agents.claude_code.test_refresh import columns

MADE_AGAIN = {
    "earlier",  # other states of the file, of this process
    "kept_until",
    "_tree",
    "_leaves",
    "_placed_prompts",
    "_known",
    "_slow_lookups",
}


def everything(index: Index) -> dict[str, Any]:
    return {k: v for k, v in vars(index).items() if k not in MADE_AGAIN}


def indexed(path: Path) -> Index:
    index = Index(path)
    index.refresh()
    return index


def again(index: Index) -> Index:
    """The index as another process would have it."""
    pieces = packed.pack(index)
    assert pieces is not None
    made = packed.unpack(b"".join(pieces), index.path, index.session)
    assert made is not None
    return made


@given(stories(), st.booleans(), st.integers(0, 400))
def test_an_index_comes_back_as_it_was_and_goes_on_as_it_would_have(
    story: Story, named: bool, cut: int
) -> None:
    note(story.outline())
    with tempfile.TemporaryDirectory() as folder:
        name = story.transcript.session_id if named else "3f6c2a1e-5b7d-4c8e-9f01-23456789abcd"
        path = Path(folder, f"{name}.jsonl")
        lines = story.data.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: cut % (len(lines) + 1)]))
        index = indexed(path)
        if packed.pack(index) is None:
            assert r"\ud800" in ascii(vars(index))  # half a character, which no JSON of ours holds
            return
        kept = again(index)
        assert everything(kept) == everything(index)
        assert columns(kept) == columns(index)
        with path.open("ab") as file:
            file.write(b"".join(lines[cut % (len(lines) + 1) :]))
        kept.refresh()
        assert columns(kept) == columns(indexed(path))


def test_a_long_session_is_known_again_with_the_ids_that_it_remembers(tmp_path: Path) -> None:
    t = Transcript("/home/ada/proj")
    t.turns(6000)
    path = t.write(tmp_path)
    index = indexed(path)
    with path.open("ab") as file:
        for record in t.records[-9000:-8900]:
            file.write(json.dumps(record).encode() + b"\n")
    index.refresh()
    assert everything(again(index)) == everything(index)
    assert len(index._recent) > 4000


def a_kept(folder: Path) -> tuple[Path, bytes]:
    t = Transcript("/home/ada/proj")
    t.turns(3)
    path = t.write(folder)
    pieces = packed.pack(indexed(path))
    assert pieces is not None
    return path, b"".join(pieces)


@given(st.data())
def test_a_kept_index_with_other_bytes_is_not_believed(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, blob = a_kept(Path(folder))
        at = data.draw(st.integers(0, len(blob) - 1))
        flipped = bytearray(blob)
        flipped[at] ^= data.draw(st.integers(1, 255))
        assert packed.unpack(bytes(flipped), path, None) is None
        assert packed.unpack(blob[:at], path, None) is None
        assert packed.unpack(blob + b"x", path, None) is None
        assert packed.unpack(data.draw(st.binary()), path, None) is None


def test_what_other_code_made_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, blob = a_kept(tmp_path)
    monkeypatch.setattr(packed, "_edition", lambda: bytes(16))
    assert packed.unpack(blob, path, None) is None


def agent_of(folder: Path) -> ClaudeCode:
    return ClaudeCode(ClaudeStore(folder))


def big(folder: Path, turns: int = 200) -> Path:
    t = Transcript("/home/ada/proj")
    t.turns(turns)
    return t.write(folder)


def test_a_kept_index_is_not_made_again_and_a_grown_file_read_from_where_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = big(tmp_path)
    first = agent_of(tmp_path).index(path, None, Work())
    assert first.entry is not None
    assert first.saved is not None
    line = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(line)
    seen = []
    scan = Index.add_lines
    monkeypatch.setattr(
        Index,
        "add_lines",
        lambda self, at, data, stop: seen.append(at) or scan(self, at, data, stop),
    )
    second = agent_of(tmp_path).index(path, first.saved, Work())
    assert seen == [first.saved.size]
    assert second.saved is None  # hardly more than what is kept
    assert second.entry is not None
    history = agent_of(tmp_path).open(path, native_id=None, work=Work(), saved=first.saved)
    assert history.turn_count == 200


def test_a_small_file_is_not_worth_an_index(tmp_path: Path) -> None:
    assert agent_of(tmp_path).index(big(tmp_path, 3), None, Work()).saved is None


def test_an_index_is_kept_once_and_again_when_the_file_has_grown_by_a_part(tmp_path: Path) -> None:
    path, agent = big(tmp_path), agent_of(tmp_path)

    def saved() -> bool:
        return agent.saved(agent.open(path, native_id=None, work=Work())) is not None

    assert saved()
    assert not saved()
    data = path.read_bytes()
    with path.open("ab") as file:
        file.write(data[:1000])
    assert not saved()
    with path.open("ab") as file:
        file.write(data)
    assert saved()


@pytest.mark.parametrize("same_inode", [True, False])
def test_a_file_of_the_same_size_in_the_place_of_the_indexed_one_is_read(
    tmp_path: Path, same_inode: bool
) -> None:
    path = big(tmp_path)
    kept = agent_of(tmp_path).index(path, None, Work()).saved
    assert kept is not None
    other = path.read_bytes().replace(b"question 19", b"question 91").replace(b"r 200", b"r 002")
    assert len(other) == kept.size
    if same_inode:
        path.write_bytes(other)
    else:
        path.with_name("new").write_bytes(other)
        os.replace(path.with_name("new"), path)
    os.utime(path, ns=(kept.mtime_ns + 1, kept.mtime_ns + 1))
    agent = agent_of(tmp_path)
    history = agent.open(path, native_id=None, work=Work(), saved=kept)
    assert [turn.prompt for turn in history.turns([19])] == ["question 91"]
    assert Identity(*kept[:4]) != history.transcript.identity
