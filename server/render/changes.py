"""What a fork, a rewind or the end of a staging did, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from server.render import words
from server.render.layout import Blank, Block, Column, Line, Lines, Node, Table, fields, note
from server.render.sessions import heading, title
from session.model import (
    Discarded,
    FileChange,
    ForkResult,
    RepairResult,
    Resume,
    RewindResult,
    Session,
)

_PROMPT_LINES = 6


def fork(result: ForkResult, source: str, here: str | None) -> list[Block]:
    """A fork of `source` (a session id); `here` is the directory that hints are pasted in."""
    verb = {
        "forked": "Forked",
        "already_forked": "Already forked",
        "staged": "Staged",
        "preview": "Would fork",
    }.get(result.status, result.status)
    return child(result, verb, source, here, [])


def child(
    result: ForkResult | RepairResult,
    verb: str,
    source: str,
    here: str | None,
    more: list[Block],
    asking: bool = False,
) -> list[Block]:
    """A new session made of `source`, with what there is to say of it beside `more`."""
    kept, total = result.turns.kept, result.turns.source_total
    preview = result.status == "preview"
    what: list[tuple[str, Line]] = [
        (verb, [(words.short(source), "id"), *_into(result.session)]),
        (
            "Keep" if preview else "Kept",
            [f"{kept:,} of {words.count(total, 'turn')}"],
        ),
        ("Size", [_amount(result)]),
    ]
    if result.session is not None and result.session.cwd:
        what.append(("Directory", [words.path(result.session.cwd)]))
    if result.workspace:
        what.append(("Files", [words.path(str(result.workspace.get("path") or ""))]))
    out: list[Block] = [fields(what)]
    out += _prompt("First prompt left out", result.dropped_prompt)
    out += more
    if asking:
        return out
    if preview:
        return [*out, Blank(), note(("Nothing was written.", "dim"))]
    if result.status == "staged" and result.session is not None:
        name = words.short(result.session.session_id)
        rows: list[list[Line]] = [
            [[""], [(f"turntree promote {name}", "command")], [("make it a session", "dim")]],
            [[""], [(f"turntree discard {name}", "command")], [("drop it", "dim")]],
        ]
        return [
            *out,
            Blank(),
            note(("Then", "label")),
            Table([Column("")] * 3, rows, headers=False),
        ]
    return out + resume(result.resume, here)


def _into(session: Session | None) -> Line:
    if session is None:
        return []
    return [" → ", (words.native(session.session_id), "id"), "  ", *title(session)]


def _amount(result: ForkResult | RepairResult) -> str:
    records = words.count(result.records_copied, "record")
    how = "referenced" if result.method == "reference" else "copied"
    if result.status == "preview":
        how = "to reference" if result.method == "reference" else "to copy"
    return f"{records}, {words.size(result.bytes_copied)} {how}"


def _prompt(label: str, text: str | None) -> list[Block]:
    if text is None:
        return []
    rows = words.block(text)
    body: list[Line] = [[row] for row in rows[:_PROMPT_LINES]]
    if len(rows) > _PROMPT_LINES:
        body.append([(f"… {words.count(len(rows) - _PROMPT_LINES, 'more line')}", "dim")])
    return [Blank(), note((label, "label")), Lines(body, indent=2, wrap=True)]


def resume(how: Resume, here: str | None) -> list[Block]:
    """The command that goes on with a session, ready to paste."""
    if not how.resumable:
        reason = words.line(how.reason) or "its agent gives no way to"
        return [Blank(), note(("Cannot be resumed: ", "warn"), reason)]
    command = words.command(how, here)
    return [Blank(), note(("Resume with", "label")), Lines([[(command, "command")]], indent=2)]


def rewind(result: RewindResult, asking: bool = False, agreed: bool = False) -> list[Block]:
    """A rewind that was made, or a preview: with `asking` of one that may follow at once.

    `agreed`: it was asked for with such a preview, which need not be repeated.
    """
    session, turns = result.session, result.turns
    name = words.short(session.session_id)
    if result.status == "already_at_target":
        end = f" It already ends at turn {turns.kept:,}." if turns.kept else " It is empty."
        return [note("Nothing to rewind in ", (name, "id"), ".", end)]
    preview = result.status == "preview"
    verb = {
        "rewound": "Rewound",
        "already_done": "Already rewound",
        "preview": "To rewind" if asking else "Would rewind",
    }.get(result.status, result.status)
    what: list[tuple[str, Line]] = [
        (verb, [(name, "id"), "  ", *title(session)]),
        ("Keep" if preview else "Kept", [words.count(turns.kept, "turn")]),
        ("Remove" if preview else "Removed", [words.count(turns.removed, "turn")]),
    ]
    out: list[Block] = [Blank(), fields(what)] if agreed else [fields(what)]
    if not agreed:
        out += _prompt(
            "First prompt to go" if preview else "First prompt removed", result.dropped_prompt
        )
    out += file_changes(result.files)
    if preview:
        return out if asking else [*out, Blank(), note(("Nothing was written.", "dim"))]
    return [*out, Blank(), note(("Undo with", "label")), paste(f"turntree undo {name}")]


def file_changes(files: Sequence[FileChange]) -> list[Block]:
    """What becomes of files, where any are touched."""
    if not files:
        return []
    rows: list[list[Line]] = [
        [["  ", f.action], [words.path(f.path)], [(words.line(f.conflict), "warn")]] for f in files
    ]
    return [Blank(), note(("Files", "label")), Table([Column("")] * 3, rows, headers=False)]


def paste(command: str) -> Lines:
    """A command below a line of text."""
    return Lines([[(command, "command")]], indent=2)


def promoted(session: Session, here: str | None) -> list[Block]:
    return [Node(["Promoted ", *heading(session)]), *resume(session.resume, here)]


def discarded(result: Discarded) -> list[Block]:
    return [note("Discarded ", (words.native(result.session_id), "id"), ".")]
