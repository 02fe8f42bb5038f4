"""What a repair could mend in the kept records, found in one pass over their lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from session.agents.claude_code import records
from session.agents.claude_code.cut import Selection
from session.agents.claude_code.records import (
    ASSISTANT,
    DUPLICATE,
    KIND,
    RESULT,
    SIDECHAIN,
    SYNTHETIC,
    TREE,
    Record,
)
from session.agents.claude_code.repairing import blocks, stripping
from session.agents.claude_code.repairing.mending import cleaned, is_clean, pieces
from session.agents.claude_code.transcript import Transcript
from session.work import Work

_MARKUP = b'"base64"'
_THINKING = b'"thinking"'


@define
class Tally:
    """How many there are of something, and the bytes that leaving it out saves."""

    count: int = 0
    saved: int = 0


@define
class Ailments:
    """`calls` without a result and `served` ones (the model's service ran them) by their ids;
    `orphans` are results without a call, as line and call id.  `unsigned`, `pictured` and
    `wordy` mark lines, one byte each."""

    unsigned: bytearray
    pictured: bytearray
    wordy: bytearray
    calls: dict[str, int] = field(factory=dict)
    served: dict[str, int] = field(factory=dict)
    orphans: list[tuple[int, str]] = field(factory=list)
    apart: list[tuple[int, int]] = field(factory=list)
    """Calls of the model's service and their results that are not on one line."""
    repeated: list[tuple[int, str]] = field(factory=list)
    """Calls without a result of which another record makes the same, as line and call id."""
    thoughts: int = 0
    dirty: int = 0
    images: Tally = field(factory=Tally)
    outputs: Tally = field(factory=Tally)


def look(
    transcript: Transcript,
    selection: Selection,
    work: Work,
    *,
    images: bool = False,
    outputs_over: int | None = None,
) -> Ailments:
    """Read the kept lines once.  Raises OSError, StorageError, Cancelled."""
    count = len(transcript.kinds)
    found = Ailments(bytearray(count), bytearray(count), bytearray(count))
    pairs = _Pairs(found)
    kinds = transcript.kinds
    done = 0
    for begin, end, data in pieces(transcript, selection.runs):
        done += len(data)
        clean = is_clean(data)
        base = transcript.offsets[begin]
        for line in range(begin, end):
            flagged = kinds[line]
            if flagged & KIND not in TREE:
                continue
            start, stop = transcript.span(line)
            text = data[start - base : stop - base]
            # (A mark inside a text, such as that of a file that was read, is none of the line's.)
            if not clean and cleaned(text) != text.removesuffix(b"\n"):
                found.dirty += 1
            if (images and _MARKUP in text) or (images and b'"image"' in text):
                _measure_images(found, line, text)
            if flagged & (SIDECHAIN | DUPLICATE):
                continue
            kind = flagged & KIND
            if kind == RESULT and outputs_over is not None and len(text) > outputs_over:
                _measure_outputs(found, line, text, outputs_over)
            if kind in (ASSISTANT, SYNTHETIC, RESULT):
                record = records.parse_said(text)
                if record is not None:
                    pairs.note(line, kind, record)
                    if kind != RESULT and _THINKING in text:
                        _note_thinking(found, line, record)
        work.checkpoint(done, selection.size, "Looking for damage")
    pairs.finish()
    return found


def _note_thinking(found: Ailments, line: int, record: Record) -> None:
    unsigned = sum(map(blocks.is_unsigned_thinking, records.content_blocks(record)))
    if unsigned:
        found.unsigned[line] = 1
        found.thoughts += unsigned


def _measure_images(found: Ailments, line: int, text: bytes) -> None:
    _, count, saved = stripping.strip_images(text)
    if count:
        found.pictured[line] = 1
        found.images.count += count
        found.images.saved += saved


def _measure_outputs(found: Ailments, line: int, text: bytes, over: int) -> None:
    _, count, saved = stripping.strip_outputs(text, over)
    if count:
        found.wordy[line] = 1
        found.outputs.count += count
        found.outputs.saved += saved


class _Pairs:
    """Calls and results as they pass, in any order; what finds its other half is forgotten."""

    def __init__(self, found: Ailments) -> None:
        self._found = found
        self._waiting: dict[str, int] = {}  # results whose call may stand further below
        self._lost: list[tuple[int, str]] = []
        self._met: set[int] = set()  # hashes of ids: all that is kept of a pair
        self._again: set[str] = set()

    def note(self, line: int, kind: int, record: Record) -> None:
        for block in records.content_blocks(record):
            if (call := blocks.call_of(block)) is not None:
                if kind == ASSISTANT:
                    self._call(line, call, self._found.calls)
            elif (call := blocks.served_call_of(block)) is not None:
                self._call(line, call, self._found.served)
            elif (call := blocks.result_of(block)) is not None:
                if block.get("type") == "tool_result" and kind != RESULT:
                    # The model cannot have answered its own call: it stays without a result.
                    self._lost.append((line, call))
                else:
                    self._result(line, call)

    def _call(self, line: int, call: str, among: dict[str, int]) -> None:
        if hash(call) in self._met:
            self._again.add(call)
        self._met.add(hash(call))
        result = self._waiting.pop(call, None)
        if result is None:
            among[call] = line
        elif among is self._found.served and result != line:
            self._found.apart.append((line, result))

    def _result(self, line: int, call: str) -> None:
        if self._found.calls.pop(call, None) is not None:
            return
        served = self._found.served.pop(call, None)
        if served is None:
            if call in self._waiting:
                self._lost.append((line, call))
            else:
                self._waiting[call] = line
        elif served != line:
            self._found.apart.append((served, line))

    def finish(self) -> None:
        calls = self._found.calls
        # A second result of one id would be as wrong as none.
        again = [call for call in calls if call in self._again]
        self._found.repeated = [(calls.pop(call), call) for call in again]
        waiting = ((line, call) for call, line in self._waiting.items())
        self._found.orphans = sorted([*waiting, *self._lost])


def by_line(pairs: Iterable[tuple[int, str]]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for line, call in pairs:
        found.setdefault(line, set()).add(call)
    return found


def calls_by_line(calls: dict[str, int]) -> dict[int, set[str]]:
    return by_line((line, call) for call, line in calls.items())


def unwanted_blocks(
    text: bytes, unwanted: Iterator[str] | set[str], *, thinking: bool
) -> tuple[int, int]:
    """How many content blocks a record has, and how many of them are to be left out."""
    record = records.parse(text)
    found = records.content_blocks(record) if record is not None else []
    ids = set(unwanted)
    return len(found), sum(is_unwanted(block, ids, thinking=thinking) for block in found)


def is_unwanted(block: Record, ids: set[str], *, thinking: bool) -> bool:
    if thinking and blocks.is_unsigned_thinking(block):
        return True
    call = blocks.call_of(block) or blocks.served_call_of(block) or blocks.result_of(block)
    return call is not None and call in ids
