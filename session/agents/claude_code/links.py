"""How the lines of a transcript hang together: their ids, and which line is the parent of which.

A parent may stand behind its child, on a side chain, or nowhere.  Once all lines are read, the
line before stands in for one that is nowhere; before more lines are read, these bridges are
taken away again, so that a file is understood the same in one step and in many.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain

from session.agents.claude_code.records import (
    DUPLICATE,
    FOREIGN,
    GAP,
    KIND,
    PROMPT,
    SIDECHAIN,
    SPOKEN,
    TREE,
    id_of,
)
from session.values import value

_RECENT = 8192
_SLOW_LOOKUPS = 64


@value
class Missing:
    """A line whose parent is in no record; `line` is its index in the table."""

    line: int
    missing: str


class Links:
    """The columns of a table of lines, and the tree that they form.

    Columns are arrays, 21 bytes a line: where the line starts, which record it is, which line
    is its parent, what kind it is.
    """

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.ids = array("q")
        self.parents = array("i")
        self.kinds = bytearray()
        # The turns of all branches: prompt lines, and for each the prompt line before it.
        self.prompts = array("I")
        self.prompt_parents = array("i")
        self.prompt_ids = array("q")  # ids of their promptIds, 0 for none
        self.gaps: dict[int, Missing] = {}
        self.circles: list[int] = []  # records that descend from themselves: taken for roots
        # Scanning state.
        self.settled_late = False  # a parent came after its absence was bridged
        self.parents_moved = False
        self.parents_below = False  # some parent stands behind its child in the file
        # Ids of the last records with their lines: all from `_remembered_from` on, and earlier
        # ones that came again.
        self._recent: dict[int, int] = {}
        self._remembered_from = 0
        self._known: dict[int, int] | None = None
        self._slow_lookups = 0
        self._pending: dict[int, list[Missing]] = {}  # by the id of the parent
        self._aside: list[Missing] = []  # of these the parent stands on a side chain
        self._bridges: dict[int, int] = {}  # which neighbour stands in for a missing parent
        self._last_main = -1

    def _append(self, offset: int, kind: int, id_: int = 0, parent: int = -1) -> int:
        self.offsets.append(offset)
        self.kinds.append(kind)
        self.ids.append(id_)
        self.parents.append(parent)
        return len(self.kinds) - 1

    def expect(self, missing: Missing) -> None:
        """A parent that no line has yet."""
        self._pending.setdefault(id_of(missing.missing), []).append(missing)

    def remember_from(self, begin: int, earlier: Iterable[int]) -> None:
        """Know the ids of all lines from `begin` on, and those of a few `earlier` ones."""
        for line in (*earlier, *range(begin, len(self.kinds))):
            kind = self.kinds[line]
            placed = kind & KIND in TREE or kind & KIND == FOREIGN
            if placed and not kind & DUPLICATE and self.ids[line]:
                self._recent[self.ids[line]] = line
        self._remembered_from = begin

    def _remember(self, id_: int, line: int) -> None:
        recent = self._recent
        recent[id_] = line
        if self._known is not None:
            self._known.setdefault(id_, line)
        if len(recent) > _RECENT:
            self._forget_before(line - _RECENT // 2)

    def _remember_all(self, new: dict[int, int], ids: array[int], lines: array[int]) -> None:
        """`_remember` for `new` ids, which are `ids` in order."""
        if self._known is None and len(self._recent) + len(new) <= _RECENT:
            self._recent |= new
            return
        if self._known is not None:
            for id_, line in zip(ids, lines, strict=True):
                self._known.setdefault(id_, line)
        begin = 0
        while begin < len(ids):
            end = begin + _RECENT + 1 - len(self._recent)
            self._recent.update(zip(ids[begin:end], lines[begin:end], strict=True))
            if len(self._recent) > _RECENT:
                self._forget_before(lines[end - 1] - _RECENT // 2)
            begin = end

    def _forget_before(self, line: int) -> None:
        self._recent = {id_: at for id_, at in self._recent.items() if at >= line}
        self._remembered_from = line

    def _find_parent(self, uid: str | None) -> int:
        if uid is None:
            return -1
        id_ = id_of(uid)
        line = self._recent.get(id_)
        if line is None and id_ not in self._pending:
            line = self._find(id_)
        return -1 if line is None else line

    def _find(self, id_: int) -> int | None:
        """The first line with this id.  Rare in most files; a file of many branches gets a map."""
        if self._known is not None:
            return self._known.get(id_)
        self._slow_lookups += 1
        if self._slow_lookups > _SLOW_LOOKUPS:
            self._known = {}
            for line, (known, kind) in enumerate(zip(self.ids, self.kinds, strict=True)):
                placed = kind & KIND in TREE or kind & KIND == FOREIGN
                if placed and not kind & DUPLICATE:
                    self._known.setdefault(known, line)
            return self._known.get(id_)
        try:
            return self.ids.index(id_)
        except ValueError:
            return None

    def _find_newest(self, id_: int) -> int | None:
        """As `_find`, for an id that most likely belongs to one of the last lines."""
        line = self._recent.get(id_)
        if line is not None:
            return line
        if self._known is not None:
            return self._known.get(id_)
        try:
            return self.ids.index(id_)
        except ValueError:
            return None

    def find(self, uid: str) -> int | None:
        """The line of the record with this uuid, None when there is none."""
        id_ = id_of(uid)
        line = self._recent.get(id_)
        line = line if line is not None else self._find(id_)
        return line if line is not None and line < len(self.kinds) else None

    def _settle(self, id_: int, line: int) -> bool:
        """Whether others already named this record, which now comes, as their parent."""
        waiting_for = self._pending.pop(id_, ())
        for waiting in waiting_for:
            self.parents[waiting.line] = line
            self.kinds[waiting.line] &= ~GAP
            self.parents_moved = self.parents_below = True
            self.settled_late |= self.gaps.pop(waiting.line, None) is not None
        return bool(waiting_for)

    def _cut_circle(self, line: int, newest: int) -> None:
        """Of records that descend from each other the one that named a later one is a root."""
        while self.parents[line] != newest:
            line = self.parents[line]
        self.parents[line] = -1
        self.circles.append(line)

    def owner(self, line: int) -> int:
        """The prompt line of the turn that a line belongs to, -1 for none."""
        kinds, parents = self.kinds, self.parents
        while line >= 0 and kinds[line] & KIND != PROMPT:
            line = parents[line]
        return line

    def spoken(self, line: int) -> int:
        """The nearest user or assistant record at or above a line."""
        while line >= 0 and self.kinds[line] & KIND not in SPOKEN:
            line = self.parents[line]
        return line

    def descends(self, line: int, ancestor: int) -> bool:
        while line >= 0 and line != ancestor:
            line = self.parents[line]
        return line >= 0

    def part_gaps(self) -> None:
        """Before lines are added: as it was while the earlier ones were read."""
        for line in self._bridges:
            self.parents[line] = -1

    def bridge_gaps(self) -> None:
        """Let a neighbour stand in for each parent that no line has."""
        gaps = [*self._aside, *chain.from_iterable(self._pending.values())]
        gaps.sort(key=lambda missing: missing.line)
        before, self._bridges = self._bridges, {}
        for missing in gaps:
            line = missing.line
            neighbour = self._main_before(line)
            if self.parents_below and self.descends(neighbour, line):
                neighbour = -1  # a bridge to its own descendant would close a circle
            self.parents[line] = self._bridges[line] = neighbour
            self.gaps[line] = missing
        if self.parents_moved or self._bridges != before:
            owners = [self.owner(self.parents[prompt]) for prompt in self.prompts]
            self.prompt_parents = array("i", owners)
            self.parents_moved = False

    def _main_before(self, line: int) -> int:
        kinds = self.kinds
        for at in range(line - 1, -1, -1):
            kind = kinds[at]
            if kind & KIND in TREE and not kind & (SIDECHAIN | DUPLICATE):
                return at
        return -1
