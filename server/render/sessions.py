"""Sessions, branches and operations as tables, and the status of bare `turntree`."""

from __future__ import annotations

from collections.abc import Sequence

from server.render import words
from server.render.layout import Blank, Block, Column, Line, Lines, Span, Table, note
from session.model import (
    AgentInfo,
    BranchList,
    Indexing,
    Operation,
    OperationPage,
    Searched,
    Session,
    SessionPage,
    Skipped,
    Warn,
)

_TITLE = 100
"""Columns of a title, in a pipe too; an agent's may be a whole prompt."""


def page(result: SessionPage, below: str | None, short: bool) -> list[Block]:
    """The table of `list_sessions`.

    `below` is the directory that was asked for, None for all.  `short` cuts ids down to a
    unique prefix; scripts get them whole.
    """
    if not result.sessions:
        return _nothing(below, result.searched or [])
    everywhere = below is None or any(s.cwd != below for s in result.sessions)
    several_agents = len({s.agent for s in result.sessions}) > 1
    notes = [joined(notes_on(s, lineage=False)) for s in result.sessions]
    forks = any(s.forked_from for s in result.sessions)
    ids = ids_of(result.sessions, short)
    columns = [Column("SESSION"), Column("UPDATED"), Column("TURNS", right=True)]
    if several_agents:
        columns.append(Column("AGENT"))
    columns.append(Column("TITLE", elastic=4))
    if everywhere:
        columns.append(Column("DIRECTORY", elastic=2, tail=True))
    if forks:
        columns.append(Column("FORK OF"))
    if any(notes):
        columns.append(Column("NOTES"))
    rows: list[list[Line]] = []
    for session, remarks in zip(result.sessions, notes, strict=True):
        row: list[Line] = [
            [(ids[session.session_id], "id")],
            [(updated(session), "dim")],
            ["…" if session.turn_count is None else f"{session.turn_count:,}"],
        ]
        if several_agents:
            row.append([session.agent])
        row.append(title(session))
        if everywhere:
            row.append([(words.path(session.cwd, below), "dim")])
        if forks:
            row.append([(origin(session), "dim")])
        if any(notes):
            row.append(remarks)
        rows.append(row)
    return [Table(columns, rows), *progress(result.indexing)]


def progress(indexing: Indexing | None) -> list[Block]:
    """How much is indexed, while it is not all."""
    if indexing is None:
        return []
    done = f"{indexing.done:,} of {words.count(indexing.total, 'session')}"
    return [Blank(), note((f"{done} indexed so far.", "dim"))]


def _nothing(below: str | None, searched: Sequence[Searched]) -> list[Block]:
    where = f" in {words.path(below)} or below it" if below else ""
    out: list[Block] = [note(f"No sessions found{where}."), *looked_in(searched)]
    if below:
        out.append(Blank())
        out.append(note(("turntree sessions --all", "command"), " lists every directory's."))
    return out


def looked_in(searched: Sequence[Searched]) -> list[Block]:
    """The stores where something was looked for and not found."""
    if not searched:
        return []
    rows: list[list[Line]] = [
        [[s.agent], [words.path(s.store)], [("" if s.exists else "not found", "dim")]]
        for s in searched
    ]
    return [Blank(), note("Looked in"), _indented(rows)]


def _indented(rows: Sequence[Sequence[Line]]) -> Table:
    body = [[["  ", *row[0]], *row[1:]] for row in rows]
    return Table([Column("")] * len(rows[0]), body, headers=False)


def ids_of(sessions: Sequence[Session], short: bool) -> dict[str, str]:
    """How each session id is shown: native, and with `short` down to a unique prefix."""
    names = {s.session_id: s.session_id.partition(":")[2] for s in sessions}
    if not short:
        return {key: words.line(name) for key, name in names.items()}
    prefixes = words.shorten(names.values())
    return {key: prefixes[name] for key, name in names.items()}


def updated(session: Session) -> str:
    return words.ago(max(session.updated_at or "", session.created_at or "") or None)


def title(session: Session) -> Line:
    text = words.head(words.line(session.title), _TITLE)
    return [text] if text else [("(no title)", "dim")]


def notes_on(session: Session, lineage: bool = True) -> list[Span]:
    """What is out of the ordinary about a session, in a few words; `lineage`: its parent too."""
    out: list[Span] = []
    if session.live is not None:
        out.append(("live", "good"))
    if session.state != "ready":
        out.append((session.state, "warn" if session.state == "staged" else "bad"))
    if session.kind != "main":
        out.append((session.kind, "dim"))
    if session.archived:
        out.append(("archived", "dim"))
    if lineage and session.forked_from is not None:
        out.append((f"fork of {origin(session)}", "dim"))
    return out


def origin(session: Session) -> str:
    """`3cb974f6@2`: forked from that session at its turn 2; empty for no fork."""
    parent = session.forked_from
    if parent is None:
        return ""
    return words.short(parent.session_id) + (
        "" if parent.turn_number is None else f"@{parent.turn_number}"
    )


def heading(session: Session, below: str | None = None, lineage: bool = True) -> Line:
    """One session on one line, what may be cut off last: id, turns, age, notes, title.

    Its directory is named where it is not `below`.
    """
    facts: list[Span] = [(words.count(session.turn_count, "turn"), "dim")]
    if when := updated(session):
        facts.append((when, "dim"))
    if below is not None and session.cwd and session.cwd != below:
        facts.append((words.path(session.cwd, below), "dim"))
    facts += notes_on(session, lineage)
    return [
        (words.short(session.session_id), "id"),
        "  ",
        *joined(facts, " · "),
        "  ",
        *title(session),
    ]


def joined(spans: Sequence[Span], by: str = ", ") -> list[Span]:
    out: list[Span] = []
    for span in spans:
        out += [(by, "dim"), span] if out else [span]
    return out


def branches(result: BranchList, numbers: dict[str, int], short_ids: bool) -> list[Block]:
    """The table of `list_branches`; `numbers` of the turns that branches leave at."""
    if not result.branches:
        return [note("No turns yet, so no branches.")]
    ids = [b.leaf_id for b in result.branches]
    names = words.shorten(ids) if short_ids else {name: words.line(name) for name in ids}
    rows: list[list[Line]] = [
        [
            [("●", "good") if b.active else "○"],
            [(names[b.leaf_id], "id")],
            [(words.ago(b.updated_at), "dim")],
            [f"{b.turn_count:,}"],
            [_leaves_at(b.forked_at_turn_id, numbers)],
            [words.line(b.last_prompt)],
        ]
        for b in result.branches
    ]
    columns = [
        Column(""),
        Column("LEAF"),
        Column("UPDATED"),
        Column("TURNS", right=True),
        Column("LEAVES AT"),
        Column("LAST PROMPT", elastic=1),
    ]
    return [Table(columns, rows)]


def _leaves_at(turn_id: str | None, numbers: dict[str, int]) -> str:
    if turn_id is None:
        return ""
    number = numbers.get(turn_id)
    return words.short(turn_id) if number is None else f"turn {number:,}"


def operations(result: OperationPage, short_ids: bool) -> list[Block]:
    if not result.operations:
        return [note("No operations yet.")]
    ids = [op.operation_id for op in result.operations]
    names = words.shorten(ids) if short_ids else {name: words.line(name) for name in ids}
    rows: list[list[Line]] = [
        [
            [(names[op.operation_id], "id")],
            [(words.ago(op.at), "dim")],
            [(_subject(op, short_ids), "id")],
            [words.line(op.state)],
            [("yes", "good") if op.undoable else ""],
            [words.line(op.summary)],
        ]
        for op in result.operations
    ]
    columns = [
        Column("OPERATION"),
        Column("WHEN"),
        Column("SESSION"),
        Column("STATE"),
        Column("UNDO"),
        Column("SUMMARY", elastic=1),
    ]
    return [Table(columns, rows)]


def _subject(operation: Operation, short_ids: bool) -> str:
    """The session that was made or changed."""
    session_id = operation.new_session_id or operation.session_id
    return words.short(session_id) if short_ids else words.native(session_id)


def skipped(result: SessionPage) -> list[Warn]:
    """The files that could not be listed, as warnings."""
    return skipped_files(result.skipped)


def skipped_files(files: Sequence[Skipped]) -> list[Warn]:
    return [Warn("skipped", _skipped(file)) for file in files]


def _skipped(file: Skipped) -> str:
    said = f"{words.path(file.path)} was skipped: {words.line(file.reason)}"
    id = words.named_after(file.path)
    return said if id is None else f"{said}; `turntree check {words.short(id)}` says more"


def more(command: str, cursor: str | None) -> list[Block]:
    """How to see the next page."""
    if cursor is None:
        return []
    line: Line = [("More: ", "dim"), (f"{command} --cursor {words.quote(cursor)}", "command")]
    return [Blank(), Lines([line])]


def status(
    version: str, agents: Sequence[AgentInfo], sessions: dict[str, int], here: int
) -> list[Block]:
    """What bare `turntree` prints: stores with their number of sessions, and what to try."""
    rows: list[list[Line]] = [
        [
            [agent.agent],
            [words.path(agent.store)],
            [words.count(sessions.get(agent.agent, 0), "session")]
            if agent.available
            else [("not found", "dim")],
        ]
        for agent in agents
    ]
    out: list[Block] = [note(("Turntree", "title"), f" {version}"), Blank()]
    out += [note(("Stores", "label")), _indented(rows), Blank()]
    tips = _TIPS["here" if here else "elsewhere" if any(sessions.values()) else "none"]
    listing = f"{words.count(here, 'session')} in this directory and below it."
    body: list[list[Line]] = [[[(command, "command")], [(what, "dim")]] for command, what in tips]
    return [*out, note(listing), Blank(), note(("Try", "label")), _indented(body)]


_HELP = ("turntree --help", "every command")
_TIPS = {
    "here": [
        ("turntree sessions", "list this directory's sessions"),
        ("turntree turns last", "list the turns of the newest one"),
        ("turntree fork last --at 2", "go on from its turn 2 in a new one"),
        ("turntree rewind last --by 1 --dry-run", "see what that would drop"),
        _HELP,
    ],
    "elsewhere": [
        ("turntree sessions --all", "list the sessions of every directory"),
        ("turntree tree --all", "see which was forked from which"),
        _HELP,
    ],
    "none": [("claude", "start a session; it appears here at once"), _HELP],
}
