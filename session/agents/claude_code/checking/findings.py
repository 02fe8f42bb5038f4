"""Findings as they are collected: bounded for each code, placed in the file at the end."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from attrs import define

from session.agents.claude_code import records
from session.agents.claude_code.checking.codes import CODES, SEVERITIES
from session.agents.claude_code.transcript import Transcript
from session.model import Finding

_MOST = 200
_LONGEST_NAME = 80
_ORDER = {code: at for at, code in enumerate(CODES)}


@define
class _Draft:
    """`row` is a line of the table; where there is none, `line` and `offset` say the place."""

    code: str
    message: str
    row: int
    line: int | None
    offset: int | None
    of: int


class Findings:
    """What was found so far.

    At most 200 of a code are kept; the rest becomes one more, at the place of the first of
    them, that says how many there were.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._drafts: list[_Draft] = []
        self._counts: dict[str, int] = {}
        self._rests: dict[str, _Draft] = {}
        # Rows of the table that do not begin a line of the file: what is glued to another.
        self.inner = array("I")
        self._turns: dict[int, str | None] = {}

    def add(
        self,
        code: str,
        message: str,
        row: int = -1,
        *,
        line: int | None = None,
        offset: int | None = None,
        of: int = -1,
    ) -> None:
        """One finding, at a row of the table or at a line of the file or nowhere in it; its
        turn is that of the row `of`, else of `row`."""
        assert code in CODES, code
        message = records.clean(message)
        draft = _Draft(code, message, row, line, offset, of if of >= 0 else row)
        count = self._counts[code] = self._counts.get(code, 0) + 1
        if count <= _MOST:
            self._drafts.append(draft)
        elif count == _MOST + 1:
            self._rests[code] = draft

    def line_of(self, row: int) -> int:
        """The 1-based number in the file of the line that a row stands on."""
        return row + 1 - bisect_right(self.inner, row)

    def sorted(self) -> list[Finding]:
        """The worse first, then by line; what has no line comes before what has one."""
        for code, draft in self._rests.items():
            left = self._counts[code] - _MOST
            if left > 1:
                draft.message = f"{left:,} more of the same kind, from here on, are not listed."
            self._drafts.append(draft)
        self._rests = {}
        found = [self._placed(draft) for draft in self._drafts]
        found.sort(key=lambda f: (SEVERITIES.index(f.severity), f.line or 0, _ORDER[f.code]))
        return found

    def _placed(self, draft: _Draft) -> Finding:
        line, offset = draft.line, draft.offset
        if draft.row >= 0:
            line, offset = self.line_of(draft.row), self._start(draft.row)
        known = CODES[draft.code]
        return Finding(
            code=draft.code,
            severity=known.severity,
            line=line,
            byte_offset=offset,
            turn_id=self._turn_of(draft.of) if draft.of >= 0 else None,
            message=draft.message,
            repair=known.repair,
        )

    def _start(self, row: int) -> int:
        """Where in the file the line of a row begins."""
        at = bisect_right(self.inner, row)
        while at and self.inner[at - 1] == row:
            at, row = at - 1, row - 1
        return self._transcript.offsets[row]

    def _turn_of(self, row: int) -> str | None:
        t = self._transcript
        prompt = t.owner(row)
        if prompt not in self._turns:
            self._turns[prompt] = t.uuid_at(prompt) if prompt >= 0 else None
        return self._turns[prompt]


def named(text: str) -> str:
    """An id or a name that a record holds, as a message shows it: on one line, not too long."""
    return records.preview(text, _LONGEST_NAME)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(number: int) -> str:
    """Bytes in decimal units, as the command line shows them."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            break
        value /= 1000
    return count(number, "byte") if unit == "B" else f"{value:.1f} {unit}"
