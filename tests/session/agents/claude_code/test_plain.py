"""The extension that reads plain lines knows what the ordinary code knows, or leaves it alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from session.agents.claude_code import plain, records, transcript
from session.agents.claude_code.transcript import Transcript as Index
from tests.builders import Transcript
from tests.corpus import CASES
from tests.session.agents.claude_code.stories import Story, stories
from tests.session.agents.claude_code.test_refresh import columns
from tests.world import World

SID = "3f6c2a1e-5b7d-4c8e-9f01-23456789abcd"
SAID = (b"/home/ada/proj", b"2.1.197", b"cli", SID.encode())
HELD = ("_recent", "_remembered_from", "_pending", "_aside", "_bridges", "_last_main")


def indexed(data: bytes, *, name: str = SID, window: int = 1 << 20) -> dict[str, Any]:
    """All that an index of a file with these bytes knows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.jsonl")
        path.write_bytes(data)
        index = Index(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transcript, "_WINDOW", window)
            index.refresh()
        known = columns(index) | {name: getattr(index, name) for name in HELD}
    del known["path"], known["identity"]
    return known


@contextmanager
def no_extension() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "native", None)
        yield


def differ(data: bytes, **how: Any) -> list[str]:
    """What an index knows otherwise with the extension than without."""
    with no_extension():
        expected = indexed(data, **how)
    found = indexed(data, **how)
    return [f"{k}: {found[k]!r}, not {v!r}" for k, v in expected.items() if found[k] != v]


def taken(data: bytes) -> int:
    """How many lines the extension reads of a file with these bytes."""
    lines = 0

    def counted(*args: Any) -> Any:
        nonlocal lines
        run = scan(*args)
        lines += run[1]
        return run

    scan = plain._scan.scan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain._scan, "scan", counted)
        indexed(data)
    return lines


def a_session(turns: int = 3) -> Transcript:
    """An ordinary one, of which all lines but the first ones are plain."""
    t = Transcript("/home/ada/proj", session_id=SID, entrypoint="cli")
    for number in range(turns):
        t.prompt(f"question {number}")
        t.snapshot(t.prompts[-1], {"a.py": None})
        t.thinking("hm", "let me look")
        t.tool("Bash", {"command": "ls", "deep": [[{"a": [1, -2.5e3]}]]}, "a.py\nb.py \\ \u2028 é")
        t.tool("Agent", {"prompt": "look"}, "found")
        t.answer("two files 新聞")
        t.last_prompt("", t.head)
    return t


def test_the_extension_was_built() -> None:
    assert plain._scan is not None


def test_an_ordinary_session_is_read_by_the_extension_but_for_its_first_lines() -> None:
    data = a_session(20).dump()
    assert taken(data) >= data.count(b"\n") - 3
    assert not differ(data)


@pytest.mark.parametrize("name", CASES)
def test_every_case_of_the_corpus_makes_the_same_index_with_and_without_the_extension(
    world: World, name: str
) -> None:
    case = CASES[name](world)
    if case.path.is_file():
        assert not differ(case.path.read_bytes(), name=case.native_id)


@given(
    st.lists(stories(), min_size=1, max_size=2),
    st.integers(0, 3),
    st.sampled_from([256, 4096, 1 << 20]),
)
def test_any_story_makes_the_same_index_with_and_without_the_extension(
    told: list[Story], again: int, window: int
) -> None:
    note("\n".join(story.outline() for story in told))
    data = b"".join(story.data for story in told) + told[0].data * (again == 1)
    own = told[0].transcript.session_id
    assert not differ(data, window=window)
    assert not differ(data, name=own, window=window)


LINES = a_session().dump().split(b"\n")[:-1]
SPELLINGS = (
    b"\\", b'"', b"\\u0041", b"\\ud800", b"\\u00", b"\x00", b"\xff", b"\xc3\xa9", b"\xe3\x80\x80",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x1f", b"\x7f", b"\r", b"\t", b" ", b"{", b"}", b"[",
    b"]", b",", b":", b"null", b"true", b"0", b"-", b"1e5", b"01", b"<", b"0" * 70, b"[" * 70,
    b'"type":"user",', b'"uuid":null,', b'"isSidechain":true,', b'"parentUuid":null,',
    b'"message":{"content":[]},', b'"sessionId":"x",', b'"cwd":"/x",', b'"forkedFrom":{},',
    b'"isMeta":true,', b'"promptId":"x",', b'"explicit":true,', b'"timestamp":"2099",',
    b"\xef\xbb\xbf",
)  # fmt: skip
_edits = st.tuples(
    st.integers(0, len(LINES) - 1),
    st.integers(0, 4000),
    st.integers(0, 40),
    st.one_of(st.sampled_from(SPELLINGS), st.binary(max_size=4)),
)


@settings(max_examples=400)
@given(st.lists(_edits, min_size=1, max_size=6), st.booleans())
def test_any_change_of_bytes_makes_the_same_index_with_and_without_the_extension(
    edits: list[tuple[int, int, int, bytes]], at_quotes: bool
) -> None:
    lines = list(LINES)
    for number, place, length, instead in edits:
        line = lines[number]
        quotes = [match.start() for match in re.finditer(rb'[",:]', line)] or [0]
        at = quotes[place % len(quotes)] + place % 2 if at_quotes else place % (len(line) + 1)
        lines[number] = line[:at] + instead + line[at + (length if not at_quotes else length % 3) :]
    assert not differ(b"\n".join(lines) + b"\n")


def changed(line: bytes, **members: Any) -> bytes:
    record = json.loads(line)
    record.update(members)
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


ODD: tuple[dict[str, Any], ...] = (
    {"timestamp": None},
    {"timestamp": "2026-03-02T09:00:00Z"},
    {"timestamp": "2026-03-02T09:00:0٣.000Z"},
    {"timestamp": "9999-03-02T09:00:00.000Z"},
    {"cwd": "/elsewhere"},
    {"cwd": None},
    {"cwd": 'C:\\Users\\"ada"\t新'},
    {"version": "9.9.9"},
    {"entrypoint": "sdk-cli"},
    {"sessionId": str(uuid.UUID(int=7, version=4))},
    {"sessionId": 7},
    {"sessionId": [7]},
    {"isSidechain": True},
    {"isSidechain": 1},
    {"isMeta": 1},
    {"isMeta": True},
    {"isCompactSummary": True},
    {"uuid": "not-a-uuid"},
    {"uuid": str(uuid.UUID(int=9, version=4)).upper()},
    {"uuid": ""},
    {"uuid": None},
    {"parentUuid": "not-a-uuid"},
    {"parentUuid": str(uuid.UUID(int=8, version=4))},
    {"parentUuid": json.loads(LINES[-2])["uuid"]},
    {"type": "progress"},
    {"type": 3},
    {"type": "system", "subtype": "compact_boundary"},
    {"origin": {"kind": "task-notification"}},
    {"origin": {"kind": "human"}},
    {"origin": None},
    {"promptId": None},
    {"promptId": "one"},
    {"promptId": json.loads(LINES[0])["promptId"]},
    {"promptId": json.loads(LINES[0])["promptId"], "parentUuid": json.loads(LINES[2])["uuid"]},
    {"forkedFrom": {"sessionId": SID, "messageUuid": "x"}},
    {"explicit": True},
    {"leafUuid": None},
    {"message": "nothing"},
    {"message": {"content": "<command-name>/x</command-name>"}},
    {"message": {"content": "\u3000<bash-stdout>"}},
    {"message": {"content": " 「新聞」"}},
    {"message": {"content": "「新聞」"}},
    {"message": {"content": ""}},
    {"message": {"content": []}},
    {"message": {"content": ["x"]}},
    {"message": {"content": [{"type": "text", "text": "a"}, {"type": "image"}]}},
    {"message": {"content": [{"type": "text"}]}},
    {"message": {"content": [{"type": "tool_use"}]}},
    {"message": {"content": [{"type": "tool_use", "id": "x", "name": "Task"}]}},
    {"message": {"content": [{"type": "tool_result", "tool_use_id": "x"}]}},
    {"message": {"model": "<synthetic>", "content": [{"type": "tool_use", "id": "x"}]}},
)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_odd_member_is_understood_as_the_ordinary_code_does(odd: dict[str, Any]) -> None:
    for at in range(4, len(LINES)):
        lines = [*LINES]
        lines[at] = changed(lines[at], **odd)
        assert not differ(b"\n".join(lines) + b"\n"), at


@given(st.lists(st.integers(0, 30), min_size=8, max_size=60), st.integers(0, 12))
def test_ids_that_come_again_and_parents_that_come_late_are_left_to_the_ordinary_code(
    order: list[int], beginning: int
) -> None:
    lines = LINES[:beginning] + [LINES[at % len(LINES)] for at in order]
    assert not differ(b"\n".join(lines) + b"\n")


def test_a_long_session_forgets_the_same_ids_with_and_without_the_extension() -> None:
    t = Transcript("/home/ada/proj", session_id=SID)
    t.turns(9000)
    first = t.records[:40]
    data = t.dump()
    again = b"".join(json.dumps(record).encode() + b"\n" for record in first)
    assert not differ(data + again + data[: len(data) // 3])


@given(st.uuids(version=4), st.text(max_size=40))
@example(uuid.UUID("00000000-0000-4000-8000-000000000000"), "\ud800")
def test_ids_are_the_same_in_every_process_and_fit_the_column(one: uuid.UUID, text: str) -> None:
    for uid in (str(one), str(one).upper(), text):
        id_ = records.id_of(uid)
        assert id_ == records.id_of.__wrapped__(uid)
        assert -(1 << 63) <= id_ < 1 << 63
        assert id_


def test_an_id_is_what_it_was_when_tables_were_stored() -> None:
    assert records.id_of("01234567-89ab-4cde-8f01-23456789abcd") == 1841754565666242043
    assert records.id_of("msg-1") == 7242962694023129886


@given(
    st.one_of(st.binary(max_size=200), st.sampled_from(LINES)),
    st.integers(-2, 300),
    st.integers(-2, 300),
    st.integers(0, 15),
)
def test_no_bytes_and_no_bounds_bring_the_extension_down(
    data: bytes, start: int, stop: int, flags: int
) -> None:
    index = Index(Path(f"{SID}.jsonl"))
    columns = (index.ids, index.parents, index.kinds, index.prompts, index.prompt_ids)
    try:
        run = plain._scan.scan(data + b"\n", start, stop, 0, *columns, *SAID, flags)
    except ValueError:
        return
    assert start <= run[0] <= stop


def test_without_the_extension_a_session_is_read_all_the_same() -> None:
    code = "from session.agents.claude_code import plain; print(plain.native)"
    env = {**os.environ, "TURNTREE_PURE": "1"}
    said = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "None"


def test_the_extension_is_there_to_be_tested() -> None:
    assert plain.native is not None, (
        "the extension was not built, so that its tests prove nothing: install a C compiler and "
        "Python's headers (python3-dev), then `make clean`"
    )
