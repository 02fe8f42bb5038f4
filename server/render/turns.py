"""The turns of a session as a table, and one turn in full."""

from __future__ import annotations

from collections.abc import Sequence

from server.render import words
from server.render.layout import Blank, Block, Column, Line, Lines, Node, Span, Table, note
from server.render.sessions import heading, joined
from session.model import Gap, Item, Turn, TurnItems, TurnPage

_RESULT_LINES = 12
"""How much of a tool's output `show` prints unless asked for all of it."""

_EVENT = 80
"""Columns of an event unless asked for all of it."""


def page(result: TurnPage, short_ids: bool, branch: str = "active") -> list[Block]:
    """The table of `list_turns`; `short_ids` as in `sessions.page`, `branch` as asked for."""
    out: list[Block] = [Node(heading(result.session))]
    if branch == "all":
        out.append(note((f"{words.count(result.total_turns, 'turn')} on all branches", "dim")))
    elif branch != "active":
        name = words.shorten([branch])[branch]
        turns = words.count(result.total_turns, "turn")
        out.append(note(("Branch ", "dim"), (name, "id"), (f", {turns} from the start", "dim")))
    out.append(Blank())
    if not result.turns:
        return [*out, note("No turns.")]
    ids = _ids(result.turns, short_ids)
    gaps = {gap.before_turn_id: gap for gap in result.gaps}
    branches = {t.branch for t in result.turns} - {"active"}
    leaves = words.shorten(branches)
    columns = [
        Column("#", right=True),
        Column("TURN"),
        Column("WHEN"),
        Column("PROMPT", elastic=5),
        Column("WORK", elastic=2),
    ]
    if branches:
        columns.insert(2, Column("BRANCH"))
    rows: list[list[Line]] = []
    for turn in result.turns:
        if turn.turn_id in gaps:
            rows.append(_gap(gaps[turn.turn_id], len(columns)))
        abandoned = turn.branch != "active"
        row: list[Line] = [
            [(f"{turn.turn_number:,}", "dim" if abandoned else "title")],
            [(ids[turn.turn_id], "id")],
            [(words.ago(turn.started_at), "dim")],
            [(words.line(turn.prompt), "dim" if abandoned else "")],
            joined(work(turn)),
        ]
        if branches:
            row.insert(2, [(leaves.get(turn.branch, "active"), "dim")])
        rows.append(row)
    out.append(Table(columns, rows))
    if result.next_cursor is not None:
        here = words.count(len(result.turns), "turn")
        shown = f"{here} on this page, {result.total_turns:,} in all."
        out += [Blank(), note((shown, "dim"))]
    return out


def _ids(turns: Sequence[Turn], short_ids: bool) -> dict[str, str]:
    ids = [turn.turn_id for turn in turns]
    return words.shorten(ids) if short_ids else {name: words.line(name) for name in ids}


def _gap(gap: Gap, columns: int) -> list[Line]:
    text = f"(record {words.line(gap.missing)} is missing here, line {gap.line:,})"
    row: list[Line] = [[""] for _ in range(columns)]
    row[-2] = [(text, "warn")]
    return row


def work(turn: Turn) -> list[Span]:
    """What a turn did, and whether it ended as it should."""
    facts: list[Span] = []
    if turn.status == "interrupted":
        facts.append(("interrupted", "warn"))
    elif turn.status == "in_progress":
        facts.append(("running", "good"))
    if turn.tool_calls:
        facts.append((words.count(turn.tool_calls, "tool"), "dim"))
    if turn.files:
        facts.append((words.count(len(turn.files), "file"), "dim"))
    if turn.compacted:
        facts.append(("compacted", "dim"))
    return facts


def items(result: TurnItems, session_id: str, full: bool) -> list[Block]:
    """One turn to read: who said what, and what the tools answered."""
    turn = result.turn
    facts: list[Span] = [(words.ago(turn.started_at) or "no time", "dim"), *work(turn)]
    changed = ", ".join(words.path(name) for name in turn.files)
    out: list[Block] = [
        note(
            (f"Turn {turn.turn_number:,}", "title"),
            " of ",
            (words.short(session_id), "id"),
            (f"  {words.line(turn.turn_id)}", "dim"),
            # Another turn may have the same number on the active branch.
            ("" if turn.branch == "active" else ", on an abandoned branch", "dim"),
        ),
        note(*joined(facts, " · "), (f": {changed}" if changed else "", "dim")),
    ]
    for item in result.items:
        out += _item(item, full)
    return out


def _item(item: Item, full: bool) -> list[Block]:
    if item.kind == "event" and not full:
        return [Blank(), note(_speaker(item), (f"  {_event(item.text)}", "dim"))]
    rows = words.block(item.text)
    style = "" if item.kind in ("user", "assistant", "tool_call") else "dim"
    hidden = 0
    if item.kind == "tool_result" and not full and len(rows) > _RESULT_LINES + 1:
        hidden = len(rows) - _RESULT_LINES
        rows = rows[:_RESULT_LINES]
    body: list[Line] = [[(row, style)] for row in rows]
    if hidden:
        body.append([(f"… {words.count(hidden, 'more line')} (--full)", "label")])
    if item.truncated:
        body.append([(f"… cut here, {words.size(item.bytes)} in all", "label")])
    return [Blank(), note(_speaker(item)), Lines(body, indent=2, wrap=True)]


def _event(text: str) -> str:
    """What an agent told its model, on one line: lists of its tools are long, and no answer."""
    line = words.line(text)
    cut = words.head(line, _EVENT)
    return line if cut == line else f"{cut} (--full)"


def _speaker(item: Item) -> Span:
    match item.kind:
        case "user":
            return ("Prompt", "command")
        case "assistant":
            return ("Answer", "good")
        case "thinking":
            return ("Thinking", "dim")
        case "tool_call":
            return (words.line(item.tool) or "Tool", "tool")
        case "tool_result":
            name = words.line(item.tool)
            return (f"Result of {name}" if name else "Result", "dim")
        case _:
            return (words.line(item.kind).capitalize(), "dim")
