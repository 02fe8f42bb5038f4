"""An index that is brought up to date knows what one made from nothing knows."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from session.agents.claude_code.transcript import Transcript as Index
from tests.builders import Transcript
from tests.session.agents.claude_code.stories import Story, stories


def columns(transcript: Index) -> dict[str, Any]:
    """Everything that an index says in public."""
    said = {k: v for k, v in vars(transcript).items() if not k.startswith("_")}
    del said["earlier"], said["kept_until"]  # of other states of the file
    tree = transcript.tree
    return {
        **said,
        "turn_count": transcript.turn_count,
        "revision": transcript.revision,
        "is_empty": transcript.is_empty,
        "tree": tree.prompts,
        "leaves": tree.leaves,
        "ends": [tree.end_of(prompt) for prompt in tree.prompts],
        "turns": [transcript.turn_lines(n + 1) for n in range(transcript.turn_count)],
        "side results": sorted(transcript.side_results(transcript.chain)),
    }


def fresh(path: Path) -> dict[str, Any]:
    transcript = Index(path)
    transcript.refresh()
    return columns(transcript)


class Writer:
    """Another program at work on a session's file, one step at a time."""

    def __init__(self, path: Path, lines: list[bytes]) -> None:
        self.path = path
        self.coming = lines
        self.partial = b""

    def ids(self) -> list[str]:
        ids = []
        for line in self.path.read_bytes().split(b"\n"):
            try:
                ids.append(json.loads(line)["uuid"])
            except (ValueError, KeyError, TypeError):
                continue
        return ids

    def add(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def append(self, a: int) -> None:
        """Some lines, the last one perhaps without its end."""
        count = a % 5 + 1
        lines, self.coming = self.coming[:count], self.coming[count:]
        data = self.partial + b"".join(line + b"\n" for line in lines)
        cut = len(data) - (a * 37 % len(data) if a % 3 == 0 and data else 0)
        if data[:cut].rstrip(b" \t\r").endswith(b"}"):
            cut -= 2
        self.add(data[:cut])
        self.partial = data[cut:]

    def rewind(self, a: int) -> None:
        ids: list[str | None] = [None, "no-such-record", *self.ids()]
        pointer = {"type": "last-prompt", "leafUuid": ids[a % len(ids)], "explicit": a % 4 > 0}
        self.add(b"\n" + json.dumps(pointer).encode() + b"\n")

    def truncate(self, a: int) -> None:
        size = self.path.stat().st_size
        size = max(0, size - a * 13 % (size + 1))
        # Not between a record and its newline: what is then glued to it is another matter.
        ends_a_record = self.path.read_bytes()[:size].rstrip(b" \t\r").endswith(b"}")
        os.truncate(self.path, size - 2 if ends_a_record else size)

    def truncate_a_line(self, a: int) -> None:
        lines = self.path.read_bytes().splitlines(keepends=True)
        os.truncate(self.path, sum(map(len, lines[: -1 - a % 3])))

    def replace(self, a: int) -> None:
        """A rewritten file without one of its lines."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        if lines:
            del lines[a % len(lines)]
        new = self.path.with_name("new")
        new.write_bytes(b"".join(lines))
        os.replace(new, self.path)

    def branch(self, a: int) -> None:
        """A prompt below any record that is there, or below one that is not."""
        ids = [None, "no-such-record", *self.ids()]
        uid = f"added-{self.path.stat().st_size}"
        record = {
            "type": "user",
            "uuid": uid,
            "parentUuid": ids[a % len(ids)],
            "timestamp": "2026-02-01T00:00:00.000Z",
            "message": {"role": "user", "content": uid},
        }
        self.add(b"\n" + json.dumps(record).encode() + b"\n")


STEPS: tuple[Callable[[Writer, int], None], ...] = (
    Writer.append,
    Writer.append,
    Writer.append,
    Writer.append,
    Writer.rewind,
    Writer.truncate,
    Writer.truncate_a_line,
    Writer.replace,
    Writer.branch,
)


@given(
    stories(),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 60)), min_size=2, max_size=10),
    st.sets(st.integers(0, 30), max_size=2),
    st.integers(0, 3),
)
def test_any_sequence_of_changes_leaves_the_index_that_a_fresh_scan_makes(
    story: Story,
    steps: list[tuple[Callable[[Writer, int], None], int]],
    left_out: set[int],
    swapped: int,
) -> None:
    lines = [line for at, line in enumerate(story.data.split(b"\n")[:-1]) if at not in left_out]
    if swapped and len(lines) > swapped:
        lines[swapped - 1], lines[swapped] = lines[swapped], lines[swapped - 1]
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Path(folder, "session.jsonl"), lines)
        writer.path.write_bytes(b"")
        grown = Index(writer.path)
        for step, a in steps:
            step(writer, a)
            grown.refresh()
            known, expected = columns(grown), fresh(writer.path)
            if known != expected:
                data = writer.path.read_bytes().decode("utf-8", "replace")
                note("\n".join(line[:300] for line in data.split("\n")))
                note(f"after {step.__name__}({a})")
            assert known == expected


@given(stories(), st.integers(1, 12))
def test_a_view_is_not_changed_by_what_is_appended_later(story: Story, known: int) -> None:
    lines = [line + b"\n" for line in story.data.split(b"\n")[:-1]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        path.write_bytes(b"".join(lines[:known]))
        transcript = Index(path)
        transcript.refresh()
        view = transcript.view()
        before = columns(view)
        frozen = copy.deepcopy(before)
        for line in lines[known:]:
            with path.open("ab") as file:
                file.write(line)
            transcript.refresh()
        assert columns(view) == frozen


def test_a_result_whose_call_a_rewind_keeps_is_still_the_calls(tmp_path: Path) -> None:
    """Found by the property above, once in a thousand examples."""
    t = Transcript("/home/ada/proj", seed=1)
    t.prompt("one")
    calls = t.parallel_tools([("A", {}, "a"), ("B", {}, "b"), ("C", {}, "c")])
    t.answer("done")
    path = t.write(tmp_path)
    grown = Index(path)
    grown.refresh()
    t.rewind_pointer(calls[2].use)
    t.write(tmp_path)
    grown.refresh()
    assert columns(grown) == fresh(path)
