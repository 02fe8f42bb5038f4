"""The few shapes that output is made of; `plain` and `terminal` print them.

Text in them is already harmless (see `words`).  A `Line` is a sequence of plain strings
and (text, style) pairs; styles are the names in `terminal.STYLES`, and mean nothing in
plain output.
"""

from __future__ import annotations

from collections.abc import Sequence

from session.values import value

Span = str | tuple[str, str]
Line = Sequence[Span]


@value
class Column:
    """`elastic` columns give way on a narrow terminal, the heavier ones last.

    `tail` ones, such as paths, lose their beginning then.
    """

    header: str
    right: bool = False
    elastic: int = 0
    tail: bool = False


@value
class Table:
    columns: Sequence[Column]
    rows: Sequence[Sequence[Line]]
    headers: bool = True


@value
class Node:
    """A tree; `children` stand below their node in order."""

    label: Line
    children: Sequence[Node] = ()


@value
class Lines:
    """Lines of running text, `indent` columns in.  With `wrap` a terminal breaks them between
    words at its edge; without, they stay whole, so that a command can be pasted."""

    lines: Sequence[Line]
    indent: int = 0
    wrap: bool = False


@value
class Blank:
    """An empty line."""


Block = Table | Node | Lines | Blank


def text(row: Line) -> str:
    """A line without its styles."""
    return "".join(span if isinstance(span, str) else span[0] for span in row)


def note(*spans: Span) -> Lines:
    return Lines([spans])


def fields(rows: Sequence[tuple[str, Line]]) -> Table:
    """Labels with their values, one a row."""
    body = [[((label, "label"),), value] for label, value in rows]
    return Table([Column(""), Column("")], body, headers=False)
