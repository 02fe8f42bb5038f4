"""A file that is UTF-16, or partly so, as UTF-8: a shell copied it, and the program went on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from session.agents.claude_code import records

_WINDOW = 1 << 20
_HEAD = 256
_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_NEWLINES = {"utf-8": b"\n", "utf-16-le": b"\n\x00", "utf-16-be": b"\x00\n"}


def as_utf8(path: Path) -> Iterator[bytes]:
    """The lines of a file as UTF-8, each with its newline.

    Each line is in the encoding that its own beginning shows.  Memory is a window and the
    longest line.  Raises OSError.
    """
    with path.open("rb") as file:
        held = b""
        at = 0
        ended = False
        while True:
            if not ended and len(held) - at < _HEAD:
                more = file.read(_WINDOW)
                ended = not more
                held, at = held[at:] + more, 0
            if at == len(held):
                return
            encoding = _encoding(held[at : at + _HEAD])
            end = _end_of_line(held, at, encoding)
            while end < 0 and not ended:
                more = file.read(max(_WINDOW, len(held)))
                ended = not more
                held, at = held[at:] + more, 0
                end = _end_of_line(held, at, encoding)
            end = len(held) if end < 0 else end
            line, at = held[at:end], end
            if encoding == "utf-8":
                yield line
            else:
                text = line.decode(encoding, "replace").removeprefix("\ufeff")
                yield text.encode("utf-8", "replace")


def _encoding(head: bytes) -> str:
    if (marked := _MARKS.get(head[:2])) is not None:
        return marked
    if not records.is_utf16(head):
        return "utf-8"
    return "utf-16-le" if head[1::2].count(0) >= head[0::2].count(0) else "utf-16-be"


def _end_of_line(data: bytes, begin: int, encoding: str) -> int:
    """Where the line at `begin` ends, newline included; -1 when its newline is not there yet."""
    newline = _NEWLINES[encoding]
    at = data.find(newline, begin)
    # Half of one character and half of the next may look like a newline.
    while encoding != "utf-8" and at >= 0 and (at - begin) % 2:
        at = data.find(newline, at + 1)
    return at + len(newline) if at >= 0 else -1
