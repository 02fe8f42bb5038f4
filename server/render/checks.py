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

_OF_A_KIND = 5
"""Findings with one code that are shown of a session: hundreds would bury the others."""

_LISTED = 200
"""Findings with one code that a check lists; one more says how many there are beyond them."""


def one(session: Session, findings: Sequence[Finding]) -> list[Block]:
    """All findings of a session, and what to run next."""
    out: list[Block] = [Node(heading(session)), Blank()]
    if not findings:
        return [*out, note("Nothing is wrong with it.")]
    out += _folded(findings)
    return [*out, Blank(), note(total(findings)), *_next(session.session_id, findings)]


def several(
    found: Sequence[tuple[Session, Sequence[Finding]]], checked: int, failed: int
) -> list[Block]:
    """The sessions that something is wrong with; of those with remarks alone, their number."""
    out: list[Block] = []
    worse = [(s, fs) for s, fs in found if any(f.severity != "info" for f in fs)]
    for session, findings in worse:
        out.append(Node(heading(session)))
        out += _folded([f for f in findings if f.severity != "info"])
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


def _folded(findings: Sequence[Finding]) -> list[Block]:
    """The findings; of many with one code the first ones, and how many more there are."""
    places: dict[str, list[Finding]] = {}
    for finding in findings:
        places.setdefault(finding.code, []).append(finding)
    out: list[Block] = []
    for finding in findings:
        alike = places[finding.code]
        # One more than is shown is no more to read than its number would be.
        if len(alike) <= _OF_A_KIND + 1 or finding in alike[:_OF_A_KIND]:
            out += _finding(finding)
        elif finding is alike[min(len(alike), _LISTED) - 1]:
            out.append(_more(min(len(alike), _LISTED) - _OF_A_KIND, finding))
        elif finding is alike[-1]:
            out += _finding(finding)
    return out


def _more(count: int, last: Finding) -> Block:
    where = "" if last.line is None else f", to line {last.line:,}"
    name = words.line(last.code).replace("_", " ")
    return Lines(
        [[f"… {count:,} more: {name}{where}", (" (--json lists them)", "label")]], indent=4
    )


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
    if any(f.code == "no_records" for f in findings) and not any(
        f.code == "stray_records" for f in findings
    ):
        return []  # there is no turn that a repair could keep
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
