"""The index of a fork, made from the index of its source.

A fork's lines are lines of its source, so where each belongs is known.  What was written is
compared byte for byte as it is written; what remains is to number the kept lines anew, to
read the few lines on which facts about the whole depend with the ordinary parser, and to
resolve the live branch with the ordinary code.  Tests hold the result to a fresh scan.
"""

from __future__ import annotations

from array import array
from pathlib import Path

from session.agents.claude_code.links import Missing
from session.agents.claude_code.records import DUPLICATE, GAP, KIND, SIDECHAIN, TREE, id_of
from session.agents.claude_code.table import Compaction, Origin
from session.agents.claude_code.transcript import Transcript

_ENDS = 64
_REMEMBERED = 4096


def derive(
    source: Transcript,
    path: Path,
    lines: array[int],
    runs: list[tuple[int, int]],
    offsets: array[int],
    *,
    session: str,
    bridged: bool,
    origin: Origin,
) -> Transcript | None:
    """The index of `session`'s file at `path`: `lines` (as `runs`) of `source` and records added
    after them, with line `i` at `offsets[i]`.

    None when it cannot be known without scanning: a kept record whose parent was left out.
    Raises OSError.
    """
    child = Transcript(path, session)
    count = len(lines)
    # One place more, at the end, for a parent that there is not: -1.
    place = array("i", [-1]) * (len(source.kinds) + 1)
    parents = source.parents
    child.offsets = offsets[:count]
    # Generators and slices, not lists: a list of a million numbers takes more than the index.
    for begin, end in runs:
        first = len(child.kinds)
        place[begin:end] = array("i", range(first, first + end - begin))
        child.ids.extend(source.ids[begin:end])
        child.kinds.extend(source.kinds[begin:end])
    roots = 0
    for begin, end in runs:
        of = parents[begin:end]
        roots += of.count(-1)
        child.parents.extend(map(place.__getitem__, of))
    lost = child.parents.count(-1) > roots
    for new, old in enumerate(lines if lost else ()):
        if child.parents[new] < 0 <= parents[old] and not child.kinds[new] & SIDECHAIN:
            return None
    for old, missing in source.gaps.items():
        new = place[old]
        if new >= 0 and bridged and parents[old] >= 0:
            child.kinds[new] &= ~GAP
        elif new >= 0:
            child.expect(Missing(new, missing.missing))
    child.open_calls = _placed(source.open_calls, place)
    child.orphan_results = _placed(source.orphan_results, place)
    child.agent_calls = _placed(source.agent_calls, place)
    child.relocations = [place[line] for line in source.relocations if place[line] >= 0]
    child.compactions = [
        Compaction(place[c.line], c.preserved) for c in source.compactions if place[c.line] >= 0
    ]
    turns = zip(source.prompts, source.prompt_parents, source.prompt_ids, strict=True)
    for prompt, before, prompt_id in turns:
        if place[prompt] >= 0:
            child.prompts.append(place[prompt])
            child.prompt_parents.append(place[before])
            child.prompt_ids.append(prompt_id)
    child.has_own = True
    child.parents_below = source.parents_below
    child.measure()
    child.offsets.append(offsets[count] if len(offsets) > count else child.scanned)
    child.note_known(child.read(_telling(child, count)))
    child.offsets.pop()
    for offset, record in child.read_from(offsets[count:]):
        child.add_record(offset, record)
    child.forked_from = origin
    child.finish_scan(_REMEMBERED)
    return child


def _placed(calls: dict[str, int], place: array[int]) -> dict[str, int]:
    return {call: place[line] for call, line in calls.items() if place[line] >= 0}


def _telling(child: Transcript, count: int) -> list[int]:
    """The lines on which facts about the whole depend: the first and the last ones."""
    ends = {*range(min(_ENDS, count)), *range(max(0, count - _ENDS), count)}
    if child.prompts:
        ends |= {child.prompts[0], child.prompts[-1]}
    tree = [
        line
        for line in ends
        if child.kinds[line] & KIND in TREE and not child.kinds[line] & DUPLICATE
    ]
    return sorted([*tree, *child.relocations])


def same_prompts(child: Transcript, source: Transcript, lines: array[int], source_id: str) -> bool:
    """Whether each kept prompt stands where the child's index says, no longer the source's."""
    kept = bytearray(len(source.kinds))
    for old in lines:
        kept[old] = 1
    wanted = array("q", (source.ids[old] for old in source.prompts if kept[old]))
    found = array("q")
    for _, record in child.read(child.prompts):
        if record.get("type") != "user" or record.get("sessionId") == source_id:
            return False
        uid = record.get("uuid")
        found.append(id_of(uid) if isinstance(uid, str) else 0)
    return found == wanted
