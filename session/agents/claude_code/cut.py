"""Where a boundary cuts, and which lines of the file belong to what is kept."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left

from session.agents.claude_code import records
from session.agents.claude_code.records import (
    ASSISTANT,
    ATTACHMENT,
    COMPACT,
    DUPLICATE,
    FOREIGN,
    GAP,
    KIND,
    LOCAL,
    NOTE,
    POINTER,
    PROMPT,
    RESULT,
    SIDECHAIN,
    SNAPSHOT,
    SYNTHETIC,
    TORN,
    TREE,
)
from session.agents.claude_code.transcript import Transcript
from session.errors import BoundaryOutOfRange, InvalidParams, TurnInProgress, TurnNotFound
from session.model import Boundary
from session.values import value


@value
class Cut:
    """`kept` of `total` turns, of the live branch or (`abandoned`) of another one.

    `lines` are the kept lines from the root to the cut, `leaf` the last one at which someone
    speaks (-1: none kept), `next_prompt` the line of the first prompt after it (-1: none).
    """

    kept: int
    total: int
    lines: array[int]
    leaf: int
    next_prompt: int
    abandoned: bool = False


def cut_at(transcript: Transcript, boundary: Boundary, *, open_turn: bool) -> Cut:
    """Resolve a boundary; `open_turn` says that the live branch's last turn is being written.

    Raises InvalidParams, BoundaryOutOfRange, TurnNotFound, TurnInProgress.
    """
    total = transcript.turn_count
    last_whole = total - 1 if open_turn else total
    names = ("latest", "through_turn", "before_turn", "turn_number", "by")
    values = {name: getattr(boundary, name) for name in names}
    given = [name for name, value in values.items() if value is not None and value is not False]
    if len(given) != 1:
        raise InvalidParams(
            "A boundary is exactly one of latest, through_turn, before_turn, turn_number"
            " (and for rewind, by).",
            field="at",
        )
    if given == ["latest"]:
        return _active(transcript, last_whole)
    if boundary.through_turn is not None or boundary.before_turn is not None:
        through = boundary.through_turn is not None
        turn_id = boundary.through_turn if through else boundary.before_turn
        return _at_turn(transcript, str(turn_id), through=through, last_whole=last_whole)
    if boundary.by is not None:
        # Dropping turns from the end drops an open one first.
        if not 0 <= boundary.by <= total:
            raise _out_of_range(transcript, boundary.by, "drop")
        return _active(transcript, total - boundary.by)
    number = boundary.turn_number
    if number is None or not 0 <= number <= total:
        raise _out_of_range(transcript, number, "keep")
    if number > last_whole:
        raise _in_progress(transcript, number)
    return _active(transcript, number)


def _out_of_range(transcript: Transcript, asked: int | None, verb: str) -> BoundaryOutOfRange:
    total = transcript.turn_count
    return BoundaryOutOfRange(
        f"Cannot {verb} {_turns(asked)}: the session has {_turns(total)}.",
        requested=asked,
        turn_count=total,
    )


def _turns(count: int | None) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"


def _in_progress(transcript: Transcript, number: int) -> TurnInProgress:
    turn_id = transcript.uuid_at(transcript.turn_lines(number)[0])
    return TurnInProgress(
        f"Turn {number} is still being written by another program. Cut before it, or wait.",
        turn_id=turn_id,
    )


def _at_turn(transcript: Transcript, turn_id: str, *, through: bool, last_whole: int) -> Cut:
    line = find_turn(transcript, turn_id)
    number = active_number(transcript, line)
    if number is None:
        return _abandoned(transcript, line, through=through)
    if not through:
        return _active(transcript, number - 1)
    if number > last_whole:
        raise _in_progress(transcript, number)
    return _active(transcript, number)


def find_turn(transcript: Transcript, turn_id: str) -> int:
    """The prompt line of a turn, of any branch; raises TurnNotFound."""
    line = transcript.find(turn_id)
    kind = transcript.kinds[line] if line is not None else 0
    if line is None or kind & KIND != PROMPT or kind & SIDECHAIN:
        raise TurnNotFound(
            f"No turn {turn_id} in this session; list_turns with branch 'all' names them.",
            turn_id=turn_id,
        )
    return line


def active_number(transcript: Transcript, prompt: int) -> int | None:
    """The number of a turn on the live branch, None when it is on another."""
    chain, starts = transcript.chain, transcript.turn_starts
    # Prompts on a chain stand in file order, but for oddities that are looked for one by one.
    index = bisect_left(starts, prompt, key=lambda at: chain[at])
    if index < len(starts) and chain[starts[index]] == prompt:
        return index + 1
    return next((n for n, at in enumerate(starts, 1) if chain[at] == prompt), None)


def _active(transcript: Transcript, kept: int) -> Cut:
    total = transcript.turn_count
    end = _end_of(transcript, kept)
    lines = transcript.chain[:end] if kept else array("I")
    after = transcript.chain[transcript.turn_starts[kept]] if kept < total else -1
    return Cut(kept, total, lines, _last_spoken(transcript, lines), after)


def _abandoned(transcript: Transcript, prompt: int, *, through: bool) -> Cut:
    tree = transcript.tree
    path = tree.path(prompt)
    total = tree.longest_through(prompt)
    if through:
        leaf = transcript.spoken(tree.end_of(prompt))
        lines = transcript.path_to(leaf, trailing=True)
        return Cut(len(path), total, lines, leaf, -1, abandoned=True)
    lines = array("I")
    if len(path) > 1:
        lines = transcript.path_to(transcript.parents[prompt])
    return Cut(
        len(path) - 1,
        total,
        lines,
        _last_spoken(transcript, lines),
        prompt,
        abandoned=True,
    )


def _last_spoken(transcript: Transcript, lines: array[int]) -> int:
    return transcript.spoken(lines[-1]) if lines else -1


def _end_of(transcript: Transcript, kept: int) -> int:
    """Position in the chain where `kept` turns end.

    What stands between two turns and belongs to neither is left out: records that the program
    writes ahead of the next prompt (they carry its promptId), and a compaction that a person
    asked for after the turn, so that a cut before it has the full history.
    """
    if kept == 0:
        return 0
    if kept == transcript.turn_count:
        return len(transcript.chain)
    chain, kinds = transcript.chain, transcript.kinds
    begin, end = transcript.turn_starts[kept - 1], transcript.turn_starts[kept]
    end = _before_notes(transcript, begin, end)
    for at in range(end - 1, begin, -1):
        kind = kinds[chain[at]] & KIND
        if kind in (ASSISTANT, RESULT):
            break
        if kind == COMPACT:
            end = at
    return end


def _before_notes(transcript: Transcript, begin: int, end: int) -> int:
    chain, kinds = transcript.chain, transcript.kinds
    prompt_id = _prompt_id(transcript, chain[end])
    at = end - 1
    while prompt_id and at > begin and kinds[chain[at]] & KIND in (NOTE, SYNTHETIC, ATTACHMENT):
        if kinds[chain[at]] & KIND == NOTE:
            if _prompt_id(transcript, chain[at]) != prompt_id:
                break
            end = at
        at -= 1
    return end


def _prompt_id(transcript: Transcript, line: int) -> str | None:
    for _, record in transcript.read([line]):
        prompt_id = record.get("promptId")
        return prompt_id if isinstance(prompt_id, str) else None
    return None


# Kinds of messages that are no side chain and repeat no other.
_PLAIN = bytes(kind | gap for kind in sorted(TREE) for gap in (0, GAP))
_NOT_PLAIN = re.compile(b"[^" + re.escape(_PLAIN) + b"]", re.DOTALL)
_WANTED = re.compile(b"\x01+")


@value
class Selection:
    """Lines to copy, in file order: as `runs` of neighbours (end exclusive) and one by one.

    `size` is their bytes; `gap` the first line whose parent is missing though turns stand
    before it (None: none).
    """

    lines: array[int]
    runs: list[tuple[int, int]]
    size: int
    gap: int | None

    def has(self, line: int) -> bool:
        at = bisect_left(self.lines, line)
        return at < len(self.lines) and self.lines[at] == line


def select(transcript: Transcript, cut: Cut, *, own_records: bool, moves: bool) -> Selection:
    """The lines that hold the kept turns and the settings in force there.

    With `own_records` (a rewind's copy) records that belong to this one session stay too;
    with `moves` (a fork into another directory) those that say where it is do not.
    """
    kinds, parents, ids = transcript.kinds, transcript.parents, transcript.ids
    wanted = bytearray(len(kinds))
    for line in cut.lines:
        wanted[line] = 1
    _want_parallel_calls(transcript, cut, wanted)
    for line in transcript.preserved_by(cut.lines):
        wanted[line] = 1
    prompts = [line for line in cut.lines if kinds[line] & KIND == PROMPT]
    snapshots = transcript.snapshot_ids(prompts)
    left_out = set(transcript.relocations) if moves else set()
    owner_kept = bool(cut.lines)
    looked_at = -1
    # Of a plain message `wanted` says all; what stands behind one follows it.
    for match in _NOT_PLAIN.finditer(kinds):
        line = match.start()
        if line > looked_at + 1:
            owner_kept = bool(wanted[line - 1])
        looked_at = line
        flagged = kinds[line]
        kind = flagged & KIND
        if kind in TREE:
            if flagged & SIDECHAIN and not wanted[line]:
                wanted[line] = parents[line] >= 0 and wanted[parents[line]]
            if flagged & DUPLICATE:
                wanted[line] = 0
        elif kind == SNAPSHOT:
            wanted[line] = ids[line] in snapshots
        elif kind == FOREIGN:
            # Another session may have them nowhere else.
            wanted[line] = own_records
        else:
            own = kind in (TORN, POINTER) or (flagged & LOCAL and not own_records)
            wanted[line] = owner_kept and not own and line not in left_out
    lines = array("I")
    runs = [match.span() for match in _WANTED.finditer(wanted)]
    for begin, end in runs:
        lines.extend(range(begin, end))
    size = sum(transcript.span(end - 1)[1] - transcript.offsets[first] for first, end in runs)
    gaps = [line for line in transcript.gaps if wanted[line] and parents[line] >= 0]
    return Selection(lines, runs, size, min(gaps, default=None))


def _want_parallel_calls(transcript: Transcript, cut: Cut, wanted: bytearray) -> None:
    """Off the chain, but part of a message on it: parallel calls and their results."""
    kinds, parents = transcript.kinds, transcript.parents
    last = max(cut.lines, default=-1)
    # In file order, and a line that becomes wanted makes others so.
    for match in re.finditer(b"\x00", bytes(wanted[: last + 4096])):
        line = match.start()
        kind = kinds[line]
        if kind & KIND not in (RESULT, ASSISTANT):
            continue
        parent = parents[line]
        if parent < 0 or not wanted[parent] or kinds[parent] & KIND != ASSISTANT:
            continue
        if kind & (SIDECHAIN | DUPLICATE | GAP):
            continue
        if kind & KIND == RESULT or transcript.same_message(line, parent):
            wanted[line] = 1


def dropped_prompt(transcript: Transcript, cut: Cut) -> str | None:
    """The full text of the first prompt after the cut."""
    if cut.next_prompt < 0:
        return None
    for _, record in transcript.read([cut.next_prompt]):
        text = records.prompt_text(record)
        return None if text is None else records.clean(text)
    return None
