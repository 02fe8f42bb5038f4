"""What a repair did, or would do."""

from __future__ import annotations

from server.render import changes, words
from server.render.layout import Blank, Block, Column, Line, Table, note
from session.model import RepairResult

_VERBS = {
    "forked": "Repaired",
    "already_forked": "Already repaired",
    "staged": "Staged",
    "preview": "Would repair",
}


def repair(
    result: RepairResult, source: str, here: str | None, asking: bool = False
) -> list[Block]:
    """A repair of `source` (a session id), or a preview: with `asking` of one that may follow."""
    verb = "To repair" if asking else _VERBS.get(result.status, result.status)
    return changes.child(result, verb, source, here, done(result), asking)


def done(result: RepairResult) -> list[Block]:
    if not result.repairs:
        return [Blank(), note("Nothing is damaged: it would be a plain copy.")]
    rows: list[list[Line]] = [
        [["  ", repaired.repair], [words.line(repaired.message)]] for repaired in result.repairs
    ]
    label = "Repairs" if result.status == "preview" else "Repaired"
    return [Blank(), note((label, "label")), Table([Column("")] * 2, rows, headers=False)]
