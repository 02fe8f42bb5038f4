"""Another session's file, of which only the lines that name one session are wanted.

Whatever stands in the file, memory is a few blocks: a line that is long is held only when it
names the session, and one that nobody would look into not even then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from session import osfile
from session.agents.claude_code.transcript import LONGEST_LINE

_WINDOW = 1 << 20
_LONG = 4 << 20

Names = tuple[bytes, ...]


class Block(NamedTuple):
    """Whole lines of a file: their first line's number and offset, and where reading is."""

    first: int
    offset: int
    data: bytes
    read: int


def blocks(path: Path, names: Names) -> Iterator[Block]:
    """The file's lines in blocks, less long ones that hold none of `names`.  Raises OSError."""
    overlap = max(map(len, names)) - 1
    with osfile.opened(path, os.O_RDONLY) as fd:
        number, begin, position = 1, 0, 0
        held: list[bytes] = []  # what there is of the line that is begun
        while data := osfile.pread(fd, _WINDOW, position):
            position += len(data)
            end = data.rfind(b"\n") + 1
            if end:
                whole = b"".join([*held, data[:end]])
                yield Block(number, begin, whole, position)
                number += whole.count(b"\n")
                begin = position - len(data) + end
                held = [data[end:]]
                continue
            held.append(data)
            if position - begin > _LONG:
                stop, named = _end_of_line(fd, b"".join(held), position, names, overlap)
                held = []
                if named and stop - begin <= LONGEST_LINE:
                    yield Block(number, begin, osfile.pread(fd, stop - begin, begin), stop)
                number += 1
                begin = position = stop
        if held and begin < position:
            yield Block(number, begin, b"".join(held), position)


def _end_of_line(
    fd: int, head: bytes, position: int, names: Names, overlap: int
) -> tuple[int, bool]:
    """Where the line that begins with `head` ends, and whether it holds one of the names."""
    named = any(name in head for name in names)
    tail = head[-overlap:]
    while data := osfile.pread(fd, _WINDOW, position):
        end = data.find(b"\n") + 1
        piece = tail + (data[:end] if end else data)
        named = named or any(name in piece for name in names)
        if end:
            return position + end, named
        tail = piece[-overlap:]
        position += len(data)
    return position, named
