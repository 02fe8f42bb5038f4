"""The chain of a repaired session: what leaves it, what is put in, and who follows whom then."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from session.agents.claude_code import records
from session.agents.claude_code.cut import Cut, Selection
from session.agents.claude_code.records import (
    ASSISTANT,
    COMPACT,
    KIND,
    RESULT,
    SPOKEN,
    TREE,
    Record,
)
from session.agents.claude_code.repairing import blocks, lost_results, preserving, stripping
from session.agents.claude_code.repairing.ailments import (
    Ailments,
    by_line,
    calls_by_line,
    is_unwanted,
    unwanted_blocks,
)
from session.agents.claude_code.repairing.mending import Mend
from session.agents.claude_code.splice import encoded
from session.agents.claude_code.transcript import Transcript
from session.model import Repairs

_NULL = b"null"


@define
class Added:
    """A stand-in for the result of `call`, to be put in the file after `line`; `aside`: off the
    chain, as its call is."""

    call: str
    caller: int
    uid: str
    line: int
    aside: bool


@define
class Regrown:
    """The copy's selection and changes, its leaf, and how often each repair applied.

    `joins_gaps`: no record of it will lack its parent.
    """

    selection: Selection
    mend: Mend
    leaf: str
    joins_gaps: bool
    added: int = 0
    bridged: int = 0
    closed: int = 0
    calls_left_out: int = 0
    orphans_left_out: int = 0
    joined: int = 0


def regrow(
    transcript: Transcript,
    cut: Cut,
    selection: Selection,
    found: Ailments,
    wanted: Repairs,
    native_id: str,
) -> Regrown:
    return _Regrowing(transcript, cut, selection, found, wanted, native_id).done()


@define
class _Regrowing:
    transcript: Transcript
    cut: Cut
    selection: Selection
    found: Ailments
    wanted: Repairs
    native_id: str
    mend: Mend = field(init=False)
    unwanted: dict[int, set[str]] = field(factory=dict)
    """Ids of calls whose blocks leave a line, be they calls or results."""
    additions: list[Added] = field(factory=list)
    follows: dict[int, list[int]] = field(factory=dict)
    """Lines that come to another place in the chain, or into it, by the line they will follow."""
    joined: int = 0
    kept: bytearray = field(init=False)
    _parents: dict[int, int | str] = field(factory=dict)
    """New parents by line: another line (-1: none), or the id of a record that is added."""
    _parents_of_added: dict[str, int | str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.mend = Mend.of(self.transcript)
        self.kept = bytearray(len(self.transcript.kinds))

    def done(self) -> Regrown:
        self._choose_calls()
        self._leave_out()
        for begin, end in self.selection.runs:
            self.kept[begin:end] = b"\x01" * (end - begin)
        for line, dropped in enumerate(self.mend.dropped):
            if dropped:
                self.kept[line] = 0
        leaf = self._follow_chain()
        bridged = self._bridge()
        self._follow_the_rest()
        self._mark_changes()
        names = self._write_parents(leaf)
        self._write_additions(names)
        wanted = self.wanted
        calls = [call for calls in self.unwanted.values() for call in calls]
        orphans = sum(map(len, by_line(self.found.orphans).values())) if calls else 0
        self.mend.change = self._change
        return Regrown(
            selection=self._selection(),
            mend=self.mend,
            leaf=leaf if isinstance(leaf, str) else names[leaf],
            joins_gaps=wanted.has("bridge_gaps") or wanted.has("cut_gaps"),
            added=len(self.additions),
            bridged=bridged,
            closed=len(self.additions),
            calls_left_out=len(calls) - orphans,
            orphans_left_out=orphans,
            joined=self.joined,
        )

    def _kind(self, line: int) -> int:
        return self.transcript.kinds[line] & KIND

    # Calls and results

    def _choose_calls(self) -> None:
        """Decide for each call without a result, and each result without a call."""
        found, wanted = self.found, self.wanted
        if not (wanted.has("close_calls") or wanted.has("drop_calls")):
            return
        self.unwanted = by_line(found.orphans)
        # Nobody can say in the service's place what became of its own calls.
        leaving = [calls_by_line(found.served), by_line(found.repeated)]
        if wanted.has("drop_calls"):
            leaving.append(calls_by_line(found.calls))
        for calls in leaving:
            for line, ids in calls.items():
                self.unwanted.setdefault(line, set()).update(ids)
        chain = self.cut.lines
        places = self._places()
        if wanted.has("close_calls"):
            for call, line in sorted(found.calls.items(), key=lambda pair: (pair[1], pair[0])):
                at = places.get(self._on_chain(line, places), -1)
                end = lost_results.place_after(self.transcript, chain, at) if at >= 0 else -1
                after = chain[end] if at >= 0 else line
                self.additions.append(Added(call, line, self._free_uuid(call), after, aside=at < 0))
        for call_line, result in found.apart:
            begin, end = places.get(call_line, -1), places.get(result, -1)
            if 0 <= begin < end and self._is_parted(begin, end):
                self.follows.setdefault(call_line, []).append(result)
                self.joined += 1

    def _on_chain(self, line: int, places: dict[int, int]) -> int:
        """The record of a call's message that is on the chain, -1 for none.

        Where the conversation went around the call it is put into the chain there, so that
        every program sends it together with its result.
        """
        parents = self.transcript.parents
        aside: list[int] = []
        above = line
        while above not in places and self._kind(above) == ASSISTANT:
            aside.append(above)
            above = parents[above]
        if above not in places:
            return -1
        if aside and not self.transcript.same_message(line, above):
            return -1
        followers = self.follows.setdefault(above, []) if aside else []
        followers += [one for one in reversed(aside) if one not in followers]
        return above

    def _free_uuid(self, call: str) -> str:
        number, uid = 1, lost_results.uuid_for(self.native_id, call)
        while self.transcript.find(uid) is not None:
            number += 1
            uid = lost_results.uuid_for(self.native_id, f"{call}/{number}")
        return uid

    def _places(self) -> dict[int, int]:
        """Where on the chain the lines are that something is wrong with."""
        concerned = set(self.found.calls.values()).union(*self.found.apart)
        if not concerned:
            return {}
        for line in tuple(concerned):
            above = self.transcript.parents[line]
            while above >= 0 and above not in concerned and self._kind(above) == ASSISTANT:
                concerned.add(above)
                above = self.transcript.parents[above]
        return {line: at for at, line in enumerate(self.cut.lines) if line in concerned}

    def _is_parted(self, begin: int, end: int) -> bool:
        """Whether someone else speaks between two records of one message."""
        chain, transcript = self.cut.lines, self.transcript
        return any(
            self._kind(line) in SPOKEN
            and not (self._kind(line) == ASSISTANT and transcript.same_message(line, chain[begin]))
            for line in chain[begin + 1 : end]
        )

    # What leaves

    def _leave_out(self) -> None:
        """Records of which every block is unwanted leave, others lose those blocks."""
        thinking = self.wanted.has("drop_thinking")
        concerned = set(self.unwanted)
        if thinking:
            concerned.update(line for line, mark in enumerate(self.found.unsigned) if mark)
        for line, text in self._texts(sorted(concerned)):
            total, unwanted = unwanted_blocks(
                text, self.unwanted.get(line, set()), thinking=thinking
            )
            if total == unwanted:
                self.mend.dropped[line] = 1
            else:
                self.mend.changed[line] = 1

    def _texts(self, lines: list[int]) -> Iterator[tuple[int, bytes]]:
        texts: list[bytes] = []

        def keep(text: bytes) -> Record:
            texts[:] = [text]
            return {}

        for line, _ in self.transcript.read(lines, keep):
            yield line, texts[0]

    # Who follows whom

    def _order(self) -> Iterator[tuple[int, int]]:
        """The chain's lines as they will follow each other, those that leave included, each
        with the line that it followed before."""
        chain = self.cut.lines
        moving = {line for lines in self.follows.values() for line in lines}
        before = -1
        for line in chain:
            if line not in moving:
                yield line, before
                for moved in self.follows.get(line, ()):
                    yield moved, self._followed(moved)
            before = line

    def _followed(self, line: int) -> int:
        """What a line that is to move follows now."""
        chain = self.cut.lines
        at = chain.index(line) if line in chain else 0
        return chain[at - 1] if at else self.transcript.parents[line]

    def _follow_chain(self) -> int | str:
        """Note new parents along the chain; returns the leaf: a line, or a new record's id."""
        parents = self.transcript.parents
        waiting: dict[int, list[Added]] = {}
        for added in self.additions:
            if not added.aside:
                waiting.setdefault(added.line, []).append(added)
        last: int | str = -1
        leaf: int | str = -1
        place = -1
        grown: dict[int, str] = {}
        for line, before in self._order():
            if self.kept[line]:
                if parents[line] == before and last != before:
                    self._parents[line] = last
                elif last == -1 and parents[line] >= 0:
                    self._parents[line] = -1
                elif self._kind(line) in SPOKEN - {RESULT} and parents[line] in grown:
                    # It goes around a compaction that stands before it in the chain.
                    self._parents[line] = grown[parents[line]]
                last = place = line
                if self._kind(line) in SPOKEN:
                    leaf = line
            for added in waiting.get(line, ()):
                added.line = place
                self._parents_of_added[added.uid] = last
                last = leaf = grown[line] = added.uid
        return leaf

    def _bridge(self) -> int:
        """Give a parent to records that lack theirs; returns how many there were."""
        if not (self.wanted.has("bridge_gaps") or self.wanted.has("cut_gaps")):
            return 0
        # A record that descends from itself is taken for a first one.
        broken = {*self.transcript.gaps, *self.transcript.circles}
        gaps = [line for line in sorted(broken) if self.kept[line]]
        for line in gaps:
            self._parents.setdefault(line, self._kept_above(line))
        return len(gaps)

    def _follow_the_rest(self) -> None:
        """Records off the chain whose parents leave hang below what is left above them."""
        kinds, parents, kept = self.transcript.kinds, self.transcript.parents, self.kept
        for line in self.selection.lines:
            above = parents[line]
            orphaned = above >= 0 and not kept[above] and kept[line]
            if orphaned and kinds[line] & KIND in TREE and line not in self._parents:
                self._parents[line] = self._kept_above(line)

    def _kept_above(self, line: int) -> int:
        parents = self.transcript.parents
        seen = 0
        above = parents[line]
        while above >= 0 and not self.kept[above] and seen < len(parents):
            above, seen = parents[above], seen + 1
        return above if above >= 0 and self.kept[above] else -1

    # Bytes

    def _mark_changes(self) -> None:
        for marks in (self.found.pictured, self.found.wordy):
            for line, mark in enumerate(marks):
                if mark:
                    self.mend.changed[line] = 1
        if self.additions or any(self.mend.dropped):
            for compaction in self.transcript.compactions:
                if compaction.preserved is not None and self.kept[compaction.line]:
                    self.mend.changed[compaction.line] = 1

    def _write_parents(self, leaf: int | str) -> dict[int, str]:
        """Fill in the new parents; returns the ids of the lines that others now refer to."""
        lines = {above for above in self._parents.values() if isinstance(above, int) and above >= 0}
        lines |= {above for above in self._parents_of_added.values() if isinstance(above, int)}
        lines |= {added.caller for added in self.additions}
        lines |= {added.line for added in self.additions}
        if isinstance(leaf, int):
            lines.add(leaf)
        names = {line: str(record["uuid"]) for line, record in self.transcript.read(sorted(lines))}
        for line, above in self._parents.items():
            name = above if isinstance(above, str) else names.get(above)
            # (orjson would leave a kilobyte of its buffer with each of them.)
            self.mend.parents[line] = _NULL if name is None else encoded(name)
        return names

    def _write_additions(self, names: dict[int, str]) -> None:
        callers = {added.caller for added in self.additions}
        calling = dict(self.transcript.read(sorted(callers)))
        times = {
            line: record.get("timestamp")
            for line, record in self.transcript.read(sorted({a.line for a in self.additions}))
        }
        prompts = {line: self.transcript.owner(line) for line in callers}
        asked = {
            line: record.get("promptId")
            for line, record in self.transcript.read(
                sorted({prompt for prompt in prompts.values() if prompt >= 0})
            )
        }
        for added in self.additions:
            above = added.caller if added.aside else self._parents_of_added[added.uid]
            record = lost_results.stand_in(
                calling[added.caller],
                added.call,
                uid=added.uid,
                parent=above if isinstance(above, str) else names[above],
                prompt_id=asked.get(prompts[added.caller]),
                at=times.get(added.line),
            )
            self.mend.added.setdefault(added.line, []).append(record)

    def _selection(self) -> Selection:
        lines = array("I", (line for line in self.selection.lines if self.kept[line]))
        moving = {line for moved in self.follows.values() for line in moved}
        runs: list[tuple[int, int]] = []
        for first in lines:
            for line in (first, *self.follows.get(first, ())) if first not in moving else ():
                if runs and runs[-1][1] == line:
                    runs[-1] = (runs[-1][0], line + 1)
                else:
                    runs.append((line, line + 1))
        span, offsets = self.transcript.span, self.transcript.offsets
        size = sum(span(end - 1)[1] - offsets[begin] for begin, end in runs)
        return Selection(lines, runs, size, self.selection.gap)

    def _change(self, line: int, text: bytes) -> bytes:
        """See `mending.Change`."""
        if self._kind(line) == COMPACT:
            return preserving.renamed(text, self._still_there)
        thinking = self.wanted.has("drop_thinking") and bool(self.found.unsigned[line])
        ids = self.unwanted.get(line, set())
        if ids or thinking:
            text = blocks.without(text, lambda block: is_unwanted(block, ids, thinking=thinking))
            if self._kind(line) == RESULT and not _has_result(text):
                text = blocks.as_context(text)
        if self.found.pictured[line]:
            text = stripping.strip_images(text)[0]
        if self.found.wordy[line]:
            text = stripping.strip_outputs(text, self.wanted.outputs_over)[0]
        return text

    def _still_there(self, names: list[Any]) -> list[str]:
        after: dict[str | None, list[str]] = {}
        for added in self.additions:
            # The result of a call that does not stay does not either.
            caller, place = map(self.transcript.uuid_at, (added.caller, added.line))
            if caller in names:
                after.setdefault(place if place in names else caller, []).append(added.uid)
        out: list[str] = []
        for name in names:
            line = self.transcript.find(name) if isinstance(name, str) else None
            if line is None or not self.mend.dropped[line]:
                out.append(name)
            out += after.get(name, ()) if isinstance(name, str) else ()
        return out


def _has_result(text: bytes) -> bool:
    record = records.parse(text)
    found = records.content_blocks(record) if record is not None else []
    return any(block.get("type") == "tool_result" for block in found)


__all__ = ["Regrown", "regrow"]
