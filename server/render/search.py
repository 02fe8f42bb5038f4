"""What a search found: the turn, and the words around the hit."""

from __future__ import annotations

import re

from server.render import words
from server.render.layout import Blank, Block, Line, Lines, Span, note
from server.render.sessions import looked_in, more, progress
from session.model import HIT, HIT_END, Match, MatchPage

_HIT = re.compile(f"{HIT}([^{HIT_END}]*){HIT_END}")


def matches(result: MatchPage, short: bool, again: str) -> list[Block]:
    """One heading and one snippet for each match, and how to see a turn whole.

    `short` cuts ids down; `again` is the command line to go on with.
    """
    if not result.matches:
        return [
            note("Nothing found."),
            *looked_in(result.searched or []),
            *progress(result.indexing),
        ]
    out: list[Block] = []
    for match in result.matches:
        out.append(Lines([_heading(match, short)]))
        out.append(Lines([_snippet(match.snippet)], indent=4, wrap=True))
    first = result.matches[0]
    show = f"turntree show {words.short(first.session_id)} {_turn(first, short=True)}"
    out += [Blank(), Lines([[("Show one: ", "dim"), (show, "command")]])]
    return [*out, *progress(result.indexing), *more(again, result.next_cursor)]


def _heading(match: Match, short: bool) -> Line:
    name = words.short(match.session_id) if short else words.native(match.session_id)
    turn = _turn(match, short)
    where = f"turn {turn}, on an abandoned branch" if match.turn_number is None else f"turn {turn}"
    told: list[Span] = [(name, "id"), "  ", (where, "dim")]
    if match.updated_at:
        told.append((f" · {words.ago(match.updated_at)}", "dim"))
    if match.title:
        told += ["  ", words.line(match.title)]
    return told


def _turn(match: Match, short: bool) -> str:
    """What `turntree show` takes for it."""
    if match.turn_number is not None:
        return str(match.turn_number)
    return words.short(match.turn_id) if short else words.line(match.turn_id)


def _snippet(text: str) -> Line:
    spans: list[Span] = []
    for at, part in enumerate(_HIT.split(text)):
        shown = words.line(part) if part.strip() else part
        if at % 2:
            spans.append((shown, "hit"))
        elif part:
            # The spaces beside a hit are what keeps it from its neighbours.
            before = " " * (part[:1] == " " and bool(part.strip()))
            spans.append(before + shown + " " * (part[-1:] == " " and bool(part.strip())))
    return spans
