"""The same blocks on a terminal, through rich.  Import it only when stdout is one: rich takes
as long to import as everything else of a listing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text
from rich.theme import Theme
from rich.tree import Tree

from server.render import layout, words

STYLES = {
    "id": "cyan",
    "title": "bold",
    "label": "dim",
    "good": "green",
    "hit": "bold green",  # bold is left where colours are not wanted
    "warn": "yellow",
    "bad": "red",
    "tool": "magenta",
    "command": "bold",
}


def show(blocks: Sequence[layout.Block], stream: TextIO) -> None:
    """Print the blocks; long table cells end in an ellipsis at the terminal's edge."""
    console = Console(file=stream, theme=Theme(STYLES), highlight=False, markup=False, emoji=False)
    for block in blocks:
        match block:
            case layout.Table():
                console.print(_table(block, console.width))
            case layout.Node():
                console.print(_tree(block, None), no_wrap=True, overflow="ellipsis")
            case layout.Lines():
                for row in block.lines:
                    _line(console, row, block)
            case layout.Blank():
                console.print()


def _line(console: Console, row: layout.Line, block: layout.Lines) -> None:
    if block.wrap:
        console.print(Padding(_text(row), (0, 0, 0, block.indent)))
    else:
        console.print(_text((" " * block.indent, *row)), soft_wrap=True)


def _text(row: layout.Line) -> Text:
    out = Text()
    for span in row:
        if isinstance(span, str):
            out.append(span)
        else:
            out.append(span[0], style=span[1])
    return out


def _table(table: layout.Table, room: int) -> RichTable:
    out = RichTable(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        show_header=table.headers,
        header_style="dim",
    )
    if not table.headers:
        # Labels and values: a value may take several lines, and commands must stay whole.
        for _ in table.columns[:-1]:
            out.add_column(no_wrap=True)
        out.add_column(overflow="fold")
        limits = [room] * len(table.columns)
    else:
        limits = _limits(table, room)
        for column, limit in zip(table.columns, limits, strict=True):
            out.add_column(
                column.header,
                justify="right" if column.right else "left",
                no_wrap=True,
                overflow="ellipsis",
                max_width=limit,
            )
    for row in table.rows:
        cells = zip(row, table.columns, limits, strict=True)
        out.add_row(*(_cell(cell, column, limit) for cell, column, limit in cells))
    return out


def _cell(cell: layout.Line, column: layout.Column, limit: int) -> Text:
    if column.tail:
        style = next((span[1] for span in cell if isinstance(span, tuple)), "")
        return Text(words.tail(layout.text(cell), limit), style=style)
    return _text(cell)


def _limits(table: layout.Table, room: int) -> list[int]:
    """Widest allowed width of each column: what is over the edge, the elastic ones give up."""
    wants = [
        max([words.width(column.header), *(_text(row[index]).cell_len for row in table.rows)])
        for index, column in enumerate(table.columns)
    ]
    over = sum(wants) + 2 * (len(wants) - 1) - room
    elastic = [index for index, column in enumerate(table.columns) if column.elastic]
    shares = {index: table.columns[index].elastic for index in elastic}
    left = max(0, sum(wants[index] for index in elastic) - max(0, over))
    # Columns that need less than their share leave the rest to the others.
    for index in sorted(elastic, key=lambda i: wants[i] / shares[i]):
        part = left * shares[index] // sum(shares.values())
        wants[index] = max(1, min(wants[index], part))
        left -= wants[index]
        del shares[index]
    return wants


def _tree(node: layout.Node, parent: Tree | None) -> Tree:
    label = _text(node.label)
    label.no_wrap, label.overflow = True, "ellipsis"
    branch = Tree(label, guide_style="dim") if parent is None else parent.add(label)
    for child in node.children:
        _tree(child, branch)
    return branch
