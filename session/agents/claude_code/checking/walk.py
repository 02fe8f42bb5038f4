"""The lines of a file as they lie in it, in one pass, each with its rows of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from session import osfile
from session.agents.claude_code.transcript import LONGEST_LINE, Transcript
from session.errors import StorageError
from session.work import Work

_WINDOW = 1 << 20


class Physical(NamedTuple):
    """One line of the file, without its newline; `rows` are the table's lines that are on it.

    `data` is only the beginning of a line of `size` bytes that is too long to be held.
    """

    number: int
    offset: int
    data: bytes
    size: int
    rows: range


def physical_lines(transcript: Transcript, fd: int, total: int, work: Work) -> Iterator[Physical]:
    """The lines that the table describes; `total` bytes are the whole work's, for progress.

    Memory is a window and the longest line.  Raises StorageError when the file was cut
    meanwhile.
    """
    starts, end = transcript.offsets, transcript.scanned
    row = 0
    lines = _lines(fd, end, str(transcript.path), total, work)
    for number, (offset, data, size) in enumerate(lines, 1):
        first, after = row, offset + size
        while row < len(starts) and starts[row] <= after:
            row += 1
        yield Physical(number, offset, data, size, range(first, row))


def _lines(
    fd: int, end: int, path: str, total: int, work: Work
) -> Iterator[tuple[int, bytes, int]]:
    position = start = 0
    carry: list[bytes] = []
    held = 0
    while position < end:
        work.checkpoint(position, total, "Checking the session")
        data = osfile.pread(fd, min(_WINDOW, end - position), position)
        if not data:
            raise StorageError(
                f"{path} became shorter while it was checked. Try again.", path=path, errno=None
            )
        position += len(data)
        if carry:
            at = data.find(b"\n")
            piece = data if at < 0 else data[:at]
            # Of a run of NULs, which may be gigabytes, the beginning says all.
            nuls = not (carry[0].strip(b"\x00") or piece.strip(b"\x00"))
            if held >= LONGEST_LINE:
                del carry[1:]  # nobody looks into it: its beginning is enough
            elif not nuls:
                carry.append(piece)
                held += len(piece)
            if at < 0:
                continue
            newline = position - len(data) + at
            yield start, b"".join(carry), newline - start
            data, carry, start = data[at + 1 :], [], newline + 1
        whole = data.split(b"\n")
        rest = whole.pop()
        for line in whole:
            yield start, line, len(line)
            start += len(line) + 1
        if rest:
            carry, held = [rest], len(rest)
    if carry:
        yield start, b"".join(carry), end - start
