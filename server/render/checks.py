"""What is wrong with sessions, in the words of their findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from server.render import words
from server.render.layout import Blank, Block, Line, Lines, Node, Span, note
from server.render.sessions import heading
from session.model import Finding, Session

_STYLES = {"error": "bad", "warning": "warn", "info": "dim"}
_NAMES = {"error": "error", "warning": "warning", "info": "remark"}
_ASKED_FOR = ("strip_images", "strip_outputs")
"""Repairs that are done only when they are named."""


def one(session: Session, findings: Sequence[Finding]) -> list[Block]:
    """All findings of a session, and what to run next."""
    out: list[Block] = [Node(heading(session)), Blank()]
    if not findings:
        return [*out, note("Nothing is wrong with it.")]
    for finding in findings:
        out += _finding(finding)
    return [*out, Blank(), note(total(findings)), *_next(session.session_id, findings)]


def several(
    found: Sequence[tuple[Session, Sequence[Finding]]], checked: int, failed: int
) -> list[Block]:
    """The sessions that something is wrong with; of those with remarks alone, their number."""
    out: list[Block] = []
    worse = [(s, fs) for s, fs in found if any(f.severity != "info" for f in fs)]
    for session, findings in worse:
        out.append(Node(heading(session)))
        for finding in findings:
            if finding.severity != "info":
                out += _finding(finding)
        out += [*_next(session.session_id, findings), Blank()]
    said = f"{words.count(checked, 'session')} checked, something is wrong with {len(worse):,}"
    remarks = len(found) - len(worse)
    if remarks:
        said += f"; {words.count(remarks, 'session')} with remarks only"
    if failed:
        said += f"; {words.count(failed, 'session')} could not be checked"
    counted = total([f for _, findings in worse for f in findings if f.severity != "info"])
    return [*out, note(f"{said}." + (f" {counted}" if worse else ""))]


def total(findings: Iterable[Finding]) -> str:
    """`1 error, 2 warnings.`"""
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.severity] = counts.get(finding.severity, 0) + 1
    said = [words.count(counts[s], name) for s, name in _NAMES.items() if s in counts]
    return ", ".join(said) + "."


def _finding(finding: Finding) -> list[Block]:
    place: list[Span] = []
    if finding.line is not None:
        place.append((f"  line {finding.line:,}", "label"))
    if finding.turn_id is not None:
        place += [("  turn ", "label"), (words.short(finding.turn_id), "id")]
    name = words.line(finding.code).replace("_", " ")
    style = _STYLES.get(finding.severity, "")
    head: Line = [(_NAMES.get(finding.severity, words.line(finding.severity)), style), ": ", name]
    return [note(*head, *place), Lines([[words.line(finding.message)]], indent=4, wrap=True)]


def _next(session_id: str, findings: Sequence[Finding]) -> list[Block]:
    """The commands that show what a repair would do."""
    repairs = {f.repair for f in findings if f.repair is not None}
    command = f"turntree repair {words.short(session_id)}"
    lines: list[Line] = []
    if repairs - {*_ASKED_FOR}:
        lines.append(_try(f"{command} --dry-run", "shows what a repair into a new session keeps"))
    lines += [
        _try(f"{command} --repair recover_lines --repair {repair} --dry-run", "if you want that")
        for repair in _ASKED_FOR
        if repair in repairs
    ]
    return [Lines(lines)] if lines else []


def _try(command: str, what: str) -> Line:
    return [(command, "command"), (f"  {what}", "dim")]


def hint(sessions: Sequence[Session]) -> list[Block]:
    """Which of the sessions on a page are damaged, and how to learn more."""
    damaged = [s for s in sessions if s.state == "damaged"]
    if not damaged:
        return []
    number = "1 session is" if len(damaged) == 1 else f"{len(damaged):,} sessions are"
    line: Line = [
        ("This session is damaged: " if len(sessions) == 1 else f"{number} damaged: ", "dim"),
        (f"turntree check {words.short(damaged[0].session_id)}", "command"),
        (" says what is wrong.", "dim"),
    ]
    return [Blank(), Lines([line])]
