"""The live branch of a table of lines: which records the agent would resume, and in which order.

The branch is chosen as the agent chooses it (docs/claude-code.md).  It is kept as the `chain`,
lines from the root to the leaf, with the positions at which turns start; lines that are added
lengthen it, a rewind shortens it, and only what fits neither builds it anew.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from session.agents.claude_code import plain
from session.agents.claude_code.records import (
    ASSISTANT,
    ATTACHMENT,
    COMPACT,
    DUPLICATE,
    FOREIGN,
    KIND,
    NOTE,
    PASSAGE,
    PROMPT,
    RESULT,
    SIDECHAIN,
    SPOKEN,
    SYSTEM,
    TREE,
)
from session.agents.claude_code.table import SNAPSHOT_SALT, Compaction, LineTable
from session.agents.claude_code.tree import TurnTree

_FEW = 64
_ONE_BY_ONE = 3  # lines that are looked for sooner than all of a chain are marked
_LATE = 1 << 16  # no result of a parallel call stands further behind its turn than this
_READ_WHOLE = 5 << 20
_SILENT = frozenset((ATTACHMENT, SYSTEM, PASSAGE))


class BranchTable(LineTable):
    """A table of lines whose live branch is known; see `LineTable` for the columns."""

    def __init__(self, own_ids: frozenset[str] | None = None) -> None:
        super().__init__(own_ids)
        self.scanned = 0  # bytes of the file that the table describes
        # Lines from the root to the leaf, and where each turn starts among them.
        self.chain = array("I")
        self.turn_starts = array("I")
        self.compacted_at = -1  # position in the chain of its newest compaction
        self.leaf = -1
        self._side_results = (array("I"), array("I"))
        self._goes_around = False  # a compaction that parent links go around is not in the chain
        self._tree: TurnTree | None = None
        # Shared with views, and replaced when a prompt is added or gets another place.
        self._leaves: list[array[int]] = []
        self._placed_prompts = array("i")

    def resolve(self, indexed: int) -> None:
        """Choose the live branch; `indexed` is how many lines an earlier choice knew."""
        self.bridge_gaps()
        self._tree = None
        if self._placed_prompts != self.prompt_parents:
            self._leaves, self._placed_prompts = self._grown_leaves(), self.prompt_parents[:]
        if self.settled_late:
            indexed, self.settled_late = 0, False
        self.leaf = self._live_leaf()
        if not (
            indexed
            and not self._goes_around
            and (self._extend_chain(indexed) or self._retreat_chain(indexed))
        ):
            self.chain = self._with_compactions(self.path_to(self.leaf, trailing=True))
            self.turn_starts = array("I")
            self.compacted_at = -1
            self._side_results = (array("I"), array("I"))
            self._survey_all()
            on_chain = set(self.chain) if self.compactions else set()
            self._goes_around = any(
                c.preserved and c.line not in on_chain for c in self.compactions
            )

    def _extend_chain(self, indexed: int) -> bool:
        """Lengthen the chain by lines that continue its end; False when they do not."""
        added = array("I")
        line = self.leaf
        if self._compacted_since(indexed):
            return False
        while line >= indexed and len(added) < len(self.kinds) - indexed:
            added.append(line)
            line = self.parents[line]
        if line >= indexed:
            return False  # the added records form a circle
        tail = self.chain[-8:]
        if line < 0 or line not in tail:
            return False
        keep = len(self.chain) - len(tail) + tail.index(line) + 1
        if self.turn_starts and self.turn_starts[-1] >= keep:
            return False
        dropped = sorted(self.chain[keep:])
        del self.chain[keep:]
        added.reverse()
        self.chain.extend(added)
        self.chain.extend(self._silent_below(self.leaf))
        self._survey(keep)
        self._collect_side_results([*dropped, *range(indexed, len(self.kinds))])
        return True

    def _retreat_chain(self, indexed: int) -> bool:
        """Shorten the chain to a leaf on it, as after a rewind; False when it is elsewhere."""
        if self._compacted_since(indexed):
            return False
        if self.leaf < 0:
            keep = 0
        else:
            keep = len(self.chain)
            while keep and self.chain[keep - 1] != self.leaf:
                keep -= 1
            if not keep:
                return False
        dropped = self.chain[keep:]
        del self.chain[keep:]
        del self.turn_starts[bisect_left(self.turn_starts, keep) :]
        if self.leaf >= 0:
            self.chain.extend(self._silent_below(self.leaf))
        # A result that was on the chain may be one of a call that still is.
        gone = self._marks(dropped)
        self._collect_side_results(
            sorted(
                line for line in dropped if self.parents[line] >= 0 and not gone[self.parents[line]]
            )
        )
        results, calls = self._side_results[1], self._side_results[0]
        ordered = sorted(zip(results, calls, strict=True))
        self._side_results = (
            array("I", (call for _, call in ordered)),
            array("I", (result for result, _ in ordered)),
        )
        if self.compacted_at >= keep:
            self.compacted_at = -1
            for at in range(keep):
                if self.kinds[self.chain[at]] & KIND == COMPACT:
                    self.compacted_at = at
        return True

    def _survey_all(self) -> None:
        """What is known of a chain that was built anew."""
        if plain.native is None:
            self._survey(0)
            self._collect_side_results(range(len(self.kinds)))
            return
        starts, self.compacted_at, calls, results = plain.native.survey(
            self.kinds, self.parents, self.chain
        )
        self.turn_starts.frombytes(starts)
        self._side_results[0].frombytes(calls)
        self._side_results[1].frombytes(results)

    def _survey(self, begin: int) -> None:
        """Note where turns start and where the newest compaction is, from position `begin`."""
        kinds = self.kinds
        for at in range(begin, len(self.chain)):
            kind = kinds[self.chain[at]] & KIND
            if kind == PROMPT:
                self.turn_starts.append(at)
            elif kind == COMPACT:
                self.compacted_at = at

    def _live_leaf(self) -> int:
        if self.cleared:
            return -1
        pointer = self._find_newest(self.pointer) if self.pointer is not None else None
        if pointer is not None:
            flagged = self.kinds[pointer]
            if flagged & SIDECHAIN or flagged & KIND == FOREIGN:
                pointer = None
        compaction = self.compactions[-1] if self.compactions else None
        if compaction is not None and compaction.preserved is not None:
            return self._leaf_after(compaction, pointer)
        if any(c.preserved is not None for c in self.compactions) and compaction is not None:
            pointer = pointer if pointer is not None and pointer > compaction.line else None
        if pointer is None:
            return self.spoken(self.newest)
        if not self.explicit and self.descends(self.newest, pointer):
            return self.spoken(self.newest)
        return self.spoken(pointer)

    def _leaf_after(self, compaction: Compaction, pointer: int | None) -> int:
        """The leaf when the newest compaction names what it preserved.

        The agent then forgets every record before it that is not named, and trusts a pointer
        only when it is explicit; else the tip of what is left, the newest if there are more.
        """
        named = set(compaction.preserved or ())
        kinds, parents = self.kinds, self.parents
        left = [
            line
            for line in range(len(kinds))
            if kinds[line] & KIND in SPOKEN
            and not kinds[line] & (SIDECHAIN | DUPLICATE)
            and (line > compaction.line or self.ids[line] in named)
        ]
        known = pointer is not None and (pointer > compaction.line or self.ids[pointer] in named)
        if self.explicit and known and pointer is not None:
            return self.spoken(pointer)
        continued = {self.spoken(parents[line]) for line in left}
        # The preserved records hang below the summary, and what follows it below their last.
        for summary in self._summary_below(compaction.line) if named else ():
            continued.add(summary)
            if summary in parents[summary:]:
                last = self._find((compaction.preserved or [0])[-1])
                continued.add(-1 if last is None else last)
        tips = [line for line in left if line not in continued]
        if len(tips) == 1:
            return tips[0]
        return pointer if pointer in tips else self.spoken(self.newest)

    def newest_of(self, lines: array[int]) -> int:
        """The last of `lines` that is on the main line of the conversation, -1 for none."""
        for line in reversed(lines):
            kind = self.kinds[line]
            if kind & KIND in TREE and not kind & (SIDECHAIN | DUPLICATE):
                return line
        return -1

    def path_to(self, leaf: int, *, trailing: bool = False) -> array[int]:
        """Lines from the root to `leaf`; with `trailing`, what hangs silently below it too."""
        if plain.native is not None:
            path = array("I", plain.native.climb(self.kinds, self.parents, leaf))
        else:
            path = self._climb(leaf)
        if trailing and leaf >= 0:
            path.extend(self._silent_below(leaf))
        return path

    def _climb(self, line: int) -> array[int]:
        path = array("I")
        seen = bytearray(len(self.kinds))
        while line >= 0 and not seen[line]:
            seen[line] = 1
            path.append(line)
            line = self.parents[line]
        path.reverse()
        return path

    def _with_compactions(self, chain: array[int]) -> array[int]:
        """Put compactions into the chain that its parent links go around.

        After a compaction in the middle of a turn the TUI lets the next record hang off the
        record before the boundary, though what it sends begins with the boundary.
        """
        members = self._marks(chain) if self.compactions else bytearray()
        for compaction in self.compactions:
            at = next((i for i, line in enumerate(chain) if line > compaction.line), len(chain))
            named = set(compaction.preserved or ())
            if members[compaction.line] or not named or at == len(chain):
                continue
            if not any(self.ids[line] in named for line in chain[:at]):
                continue
            summary = self._summary_below(compaction.line)
            inserted = array("I", [compaction.line, *summary])
            chain = chain[:at] + inserted + chain[at:]
        return chain

    def _summary_below(self, boundary: int) -> list[int]:
        kinds, parents = self.kinds, self.parents
        after = range(boundary + 1, len(kinds))
        found = (at for at in after if parents[at] == boundary and kinds[at] == NOTE)
        return list(islice(found, 1))

    def _compacted_since(self, indexed: int) -> bool:
        """Whether a compaction, or the summary of one, is not among the lines before."""
        if not self.compactions:
            return False
        newest = self.compactions[-1].line
        return newest >= indexed or any(at >= indexed for at in self._summary_below(newest))

    def _silent_below(self, leaf: int) -> array[int]:
        """Attachments and system records that hang below a leaf with no one speaking."""
        below = array("I")
        tails = {leaf}
        kinds, parents = self.kinds, self.parents
        for at in range(leaf + 1, len(kinds)):
            kind = kinds[at]
            if kind in _SILENT and parents[at] in tails:
                tails.add(at)
                below.append(at)
        return below

    def _marks(self, lines: array[int]) -> bytearray:
        """One byte a line of the table, 1 for those in `lines`: a set of lines that stays small."""
        marks = bytearray(len(self.kinds))
        for line in lines:
            marks[line] = 1
        return marks

    def _collect_side_results(self, among: Sequence[int]) -> None:
        """Results of parallel calls: off the chain, but their call is on it."""
        kinds, parents = self.kinds, self.parents
        answers = [
            line
            for line in among
            if kinds[line] == RESULT
            and parents[line] >= 0
            and kinds[parents[line]] & KIND == ASSISTANT
        ]
        if not answers:
            return
        is_live: Callable[[int], object] = self._is_live
        if len(answers) > _ONE_BY_ONE:
            is_live = self._marks(self.chain).__getitem__
        calls, results = self._side_results
        for line in answers:
            if is_live(parents[line]) and not is_live(line):
                calls.append(parents[line])
                results.append(line)

    def side_results(self, lines: array[int]) -> dict[int, list[int]]:
        """Off-chain results of calls that `lines` of a branch make, by the line of the call."""
        calls, results = self._side_results
        members = set(lines)
        found: dict[int, list[int]] = {}
        if lines and not self._is_live(lines[0]):
            kinds, parents = self.kinds, self.parents
            for line in range(min(members), len(kinds)):
                call = parents[line]
                answers = kinds[line] == RESULT and line not in members and call in members
                if answers and kinds[call] & KIND == ASSISTANT:
                    found.setdefault(call, []).append(line)
            return found
        first = bisect_left(results, min(members, default=0))
        last = bisect_left(results, max(members, default=0) + _LATE)
        for at in range(first, last):
            if calls[at] in members:
                found.setdefault(calls[at], []).append(results[at])
        return found

    def side_calls(self, lines: array[int]) -> list[int]:
        """Off-chain assistant records right below one of `lines`: perhaps calls of its message,
        of which no result came."""
        if not lines:
            return []
        kinds, parents = self.kinds, self.parents
        members = set(lines)
        found: list[int] = []
        for line in range(min(members), min(max(members) + _FEW, len(kinds))):
            above = parents[line]
            aside = kinds[line] == ASSISTANT and line not in members and above in members
            if aside and kinds[above] & KIND == ASSISTANT:
                found.append(line)
                members.add(line)
        return found

    def with_side_results(self, lines: array[int], calls: list[int]) -> list[int]:
        """`lines` with off-chain `calls` of their messages, and with results of parallel calls
        right after the message that calls."""
        ordered: list[int] = []
        for line in lines:
            ordered.append(line)
            ordered += [call for call in calls if self.parents[call] == line]
        found = self.side_results(array("I", ordered))
        if not found:
            return ordered
        lines = array("I", ordered)
        ordered = []
        waiting: list[int] = []
        for line in lines:
            if waiting and self.kinds[line] & KIND != ASSISTANT:
                ordered += waiting
                waiting = []
            ordered.append(line)
            waiting += found.get(line, ())
        return ordered + waiting

    def _is_live(self, line: int) -> bool:
        at = bisect_left(self.chain, line)
        return (at < len(self.chain) and self.chain[at] == line) or line in self.chain

    @property
    def turn_count(self) -> int:
        return len(self.turn_starts)

    @property
    def is_empty(self) -> bool:
        """No record that takes part in a conversation."""
        return not any(kind & KIND in SPOKEN for kind in self.kinds)

    def turn_lines(self, number: int) -> array[int]:
        """The chain's lines of turn `number` (1-based)."""
        return self.chain[self.turn_starts[number - 1] : self.turn_end(number)]

    def turn_end(self, number: int) -> int:
        """Position in the chain right after turn `number`."""
        return self.turn_starts[number] if number < self.turn_count else len(self.chain)

    def preserved_by(self, chain: array[int]) -> list[int]:
        """Lines that the compactions on `chain` name as preserved."""
        members = self._marks(chain) if self.compactions else bytearray()
        named: set[int] = set()
        for compaction in self.compactions:
            if members[compaction.line]:
                named.update(compaction.preserved or ())
        return [line for line, id_ in enumerate(self.ids) if id_ in named] if named else []

    def honours_pointer(self, leaf: int) -> bool:
        """Whether an explicit pointer to `leaf`, appended now, is what the agent resumes at."""
        if not self.compactions or leaf > self.compactions[-1].line:
            return True
        if any(compaction.preserved is not None for compaction in self.compactions):
            return False
        # Files over 5 MiB are read from the newest compaction on.
        return self.scanned <= _READ_WHOLE

    def snapshot_ids(self, prompts: Iterable[int]) -> set[int]:
        """The column values that snapshots of these prompt lines have."""
        return {self.ids[line] ^ SNAPSHOT_SALT for line in prompts}

    def leaf_prompts(self) -> array[int]:
        """The prompt lines of turns that no other turn follows."""
        if not self._leaves:
            inner = bytearray(len(self.kinds))
            for line in self.prompt_parents:
                if line >= 0:
                    inner[line] = 1
            self._leaves.append(array("I", (p for p in self.prompts if not inner[p])))
        return self._leaves[0]

    def _grown_leaves(self) -> list[array[int]]:
        """The leaves if they were known, and turns have only come behind the others."""
        known = len(self._placed_prompts)
        if not self._leaves or self.prompt_parents[:known] != self._placed_prompts:
            return []
        inner = set(self.prompt_parents[known:])
        candidates = (*self._leaves[0], *self.prompts[known:])
        return [array("I", (prompt for prompt in candidates if prompt not in inner))]

    @property
    def tree(self) -> TurnTree:
        """All turns, of abandoned branches too."""
        if self._tree is None:
            self._tree = TurnTree(self, self.leaf_prompts())
        return self._tree
