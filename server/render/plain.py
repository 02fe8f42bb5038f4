"""Plain text for pipes and files: aligned, never cut, never coloured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from server.render import layout, words


def lines(blocks: Sequence[layout.Block]) -> Iterator[str]:
    """The blocks as lines without line ends."""
    for block in blocks:
        match block:
            case layout.Table():
                yield from _table(block)
            case layout.Node():
                yield from _tree(block)
            case layout.Lines():
                for row in block.lines:
                    yield (" " * block.indent + layout.text(row)).rstrip()
            case layout.Blank():
                yield ""


def _table(table: layout.Table) -> Iterator[str]:
    rows = [[layout.text(cell) for cell in row] for row in table.rows]
    if table.headers:
        rows.insert(0, [column.header for column in table.columns])
    widths = [max((words.width(row[i]) for row in rows), default=0) for i in _indices(table)]
    for row in rows:
        cells = []
        for index, column in enumerate(table.columns):
            room = " " * (widths[index] - words.width(row[index]))
            cells.append(room + row[index] if column.right else row[index] + room)
        yield "  ".join(cells).rstrip()


def _indices(table: layout.Table) -> range:
    return range(len(table.columns))


def _tree(node: layout.Node, head: str = "", tail: str = "") -> Iterator[str]:
    yield head + layout.text(node.label)
    for child in node.children:
        last = child is node.children[-1]
        yield from _tree(
            child, tail + ("└── " if last else "├── "), tail + ("    " if last else "│   ")
        )
