"""The tree of turns, abandoned branches included."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from session.agents.claude_code.records import (
    DUPLICATE,
    KIND,
    PROMPT,
    SIDECHAIN,
    SPOKEN,
    TREE,
)
from session.agents.claude_code.table import LineTable


class TurnTree:
    """The tree of turns: one node a prompt, in file order."""

    def __init__(self, table: LineTable, leaves: array[int]) -> None:
        self.prompts = table.prompts
        self.leaves = leaves
        self._parents = table.prompt_parents
        self._table = table
        self._ends: dict[int, int] | None = None
        self._depths: dict[int, int] = {}

    def parent(self, prompt: int) -> int:
        """The prompt line of the turn before, -1 for a first turn."""
        return self._parents[bisect_left(self.prompts, prompt)]

    def depth(self, prompt: int) -> int:
        """How many turns there are from the root to this one; 0 for no turn."""
        depths = self._depths
        waiting: list[int] = []
        while prompt >= 0 and prompt not in depths and len(waiting) <= len(self.prompts):
            waiting.append(prompt)
            prompt = self.parent(prompt)
        count = depths.get(prompt, 0)
        for line in reversed(waiting):
            count += 1
            depths[line] = count
        return count

    def path(self, prompt: int) -> list[int]:
        """Prompt lines from the root to `prompt`."""
        path: list[int] = []
        seen = bytearray(len(self._table.kinds))
        while prompt >= 0 and not seen[prompt]:
            seen[prompt] = 1
            path.append(prompt)
            prompt = self.parent(prompt)
        path.reverse()
        return path

    def longest_through(self, prompt: int) -> int:
        """How many turns the longest branch has that a turn is on."""
        below = {prompt}
        longest = self.depth(prompt)
        for line, parent in zip(self.prompts, self._parents, strict=True):
            if parent in below:
                below.add(line)
                longest = max(longest, self.depth(line))
        return longest

    def end_of(self, prompt: int) -> int:
        """The newest line that belongs to a turn."""
        if self._ends is None:
            self._ends = self._find_ends()
        return self._ends.get(prompt, prompt)

    def _find_ends(self) -> dict[int, int]:
        kinds, parents = self._table.kinds, self._table.parents
        owners = array("i", [-2]) * len(kinds)
        continued = bytearray(len(kinds))
        members = [
            line
            for line, kind in enumerate(kinds)
            if kind & KIND in TREE and not kind & (SIDECHAIN | DUPLICATE)
        ]
        for line in members:
            parent = parents[line]
            if kinds[line] & KIND == PROMPT:
                owners[line] = line
                continue
            owner = owners[parent] if parent >= 0 else -1
            owners[line] = owner if owner != -2 else self._table.owner(parent)
        for line in members:
            parent = parents[line]
            if parent >= 0 and kinds[line] & KIND in SPOKEN and kinds[line] & KIND != PROMPT:
                continued[self._table.spoken(parent)] = 1
        # The newest of those who speak last: a first turn's records may stand before its prompt.
        return {
            owners[line]: line
            for line in members
            if owners[line] >= 0 and kinds[line] & KIND in SPOKEN and not continued[line]
        }
