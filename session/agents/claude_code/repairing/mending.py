"""A copy of a transcript's lines in which some are left out, changed, or followed by new ones.

What is not named in a `Mend` is copied byte for byte.  Whatever a line needs is done on its
own bytes as they pass, so that memory is bounded by the number of lines that change.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator

from attrs import define, field

from session import osfile
from session.agents import spans
from session.agents.claude_code.splice import Editor
from session.agents.claude_code.transcript import Transcript
from session.errors import StorageError
from session.work import Work

_BLOCK = 1 << 20
_DIRT = b"\x00 \t\r\n\xef\xbb\xbf"

Change = Callable[[int, bytes], bytes]
"""Makes the new bytes of a line, of its number in the table and its old ones; no newline."""


@define
class Mend:
    """What a copy changes, by lines of the source's table.

    `dropped` marks lines that are left out (one byte a line), `changed` those that `change`
    makes anew.  `parents` are new parents as JSON, `added` whole records that follow a line.
    """

    dropped: bytearray
    changed: bytearray
    change: Change | None = None
    parents: dict[int, bytes] = field(factory=dict)
    added: dict[int, list[bytes]] = field(factory=dict)

    @classmethod
    def of(cls, transcript: Transcript) -> Mend:
        count = len(transcript.kinds)
        return cls(bytearray(count), bytearray(count))

    def touched(self) -> array[int]:
        """The lines that are not copied as they are, ascending."""
        marked = {line for line, mark in enumerate(self.changed) if mark}
        return array("I", sorted(marked.union(self.parents, self.added)))


def mended(
    transcript: Transcript,
    runs: list[tuple[int, int]],
    mend: Mend,
    editor: Editor,
    work: Work,
) -> Iterator[bytes]:
    """The bytes of runs of lines, mended and edited, in blocks of whole lines."""
    total = sum(transcript.span(end - 1)[1] - transcript.offsets[first] for first, end in runs)
    touched = mend.touched()
    unterminated = array("I", sorted(transcript.unterminated))
    done = 0
    for begin, end, data in pieces(transcript, runs):
        done += len(data)
        named = _within(touched, begin, end) or _within(unterminated, begin, end)
        if named or not is_clean(data):
            data = _mended_piece(transcript, begin, end, data, mend)
        elif not data.endswith(b"\n"):
            data += b"\n"
        yield editor.edit_block(data)
        work.checkpoint(done, total, "Copying the session")


def pieces(transcript: Transcript, runs: list[tuple[int, int]]) -> Iterator[tuple[int, int, bytes]]:
    """Runs of lines in pieces of about a block, of one line at least: first line, last line
    (exclusive) and their bytes.  Raises OSError, StorageError."""
    offsets = transcript.offsets
    with osfile.opened(transcript.path, os.O_RDONLY) as fd:
        for run_begin, end in runs:
            begin = run_begin
            while begin < end:
                cut = bisect_left(offsets, offsets[begin] + _BLOCK, begin + 1, end)
                start, stop = offsets[begin], transcript.span(cut - 1)[1]
                data = osfile.pread(fd, stop - start, start)
                if len(data) != stop - start:
                    raise StorageError(
                        f"{transcript.path} became shorter while it was read. Try again.",
                        path=str(transcript.path),
                        errno=None,
                    )
                yield begin, cut, data
                begin = cut


def _within(lines: array[int], begin: int, end: int) -> array[int]:
    return lines[bisect_left(lines, begin) : bisect_left(lines, end)]


def _mended_piece(transcript: Transcript, begin: int, end: int, data: bytes, mend: Mend) -> bytes:
    parts: list[bytes] = []
    base = transcript.offsets[begin]
    for line in range(begin, end):
        start, stop = transcript.span(line)
        text = cleaned(data[start - base : stop - base])
        if line in mend.parents:
            text = with_parent(text, mend.parents[line])
        if mend.changed[line] and mend.change is not None:
            text = mend.change(line, text)
        parts += [text, b"\n"]
        parts += mend.added.get(line, ())
    return b"".join(parts)


def is_clean(data: bytes) -> bool:
    """Whether whole lines are UTF-8 that ends in newlines alone."""
    if b"\r" in data or b"\x00" in data or b"\xef\xbb\xbf" in data:
        return False
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def cleaned(line: bytes) -> bytes:
    """A record's line without what stands around the record, as valid UTF-8."""
    line = line.removesuffix(b"\n")
    return line if is_clean(line) else line.strip(_DIRT).decode("utf-8", "replace").encode()


def with_parent(line: bytes, parent: bytes) -> bytes:
    """A record that hangs below another one; a compaction says so in a member of its own,
    since its parent is nothing."""
    found = {m.key: m for m in spans.members(line) if m.key.endswith(b"arentUuid")}
    logical = found.get(b"logicalParentUuid")
    member = found.get(b"parentUuid")
    if logical is not None and (member is None or line[member.value : member.end] == b"null"):
        member = logical
    if member is None:
        return line
    return spans.replace(line, [(member.value, member.end, parent)])
