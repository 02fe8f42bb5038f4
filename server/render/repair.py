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
    result: RepairResult,
    source: str,
    here: str | None,
    asking: bool = False,
    named: bool = False,
) -> list[Block]:
    """A repair of `source` (a session id), or a preview: with `asking` of one that may follow.

    `named`: the repairs were chosen, so that others may have something to do.
    """
    verb = "To repair" if asking else _VERBS.get(result.status, result.status)
    return changes.child(result, verb, source, here, done(result, named), asking)


def done(result: RepairResult, named: bool = False) -> list[Block]:
    if not result.repairs:
        why = "These repairs find nothing to do" if named else "Nothing is damaged"
        copy = "would be" if result.status == "preview" else "is"
        return [Blank(), note(f"{why}: it {copy} a plain copy.")]
    rows: list[list[Line]] = [
        [["  ", repaired.repair], [words.line(repaired.message)]] for repaired in result.repairs
    ]
    label = "Repairs" if result.status == "preview" else "Repaired"
    return [Blank(), note((label, "label")), Table([Column("")] * 2, rows, headers=False)]
