"""The LSP base protocol's framing without any I/O: bytes in, message bodies and faults out.

A reader that gives up at the first odd header leaves every later request unanswered, so
this one finds its way back: after anything it cannot read it answers once and goes on at
the next `Content-Length`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import define

MAX_BODY = 64 << 20
"""Bytes of the largest body that is read; a longer one is answered and skipped."""

MAX_SKIPPED = 1 << 30
"""Bytes of the longest body that is skipped; above it the connection is given up."""

_MAX_LINE = 8192

_USUAL = re.compile(rb"Content-Length: (\d{1,8})\r\n\r\n")

_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64})[ \t]*:[ \t]*(.*?)[ \t]*$", re.DOTALL)

# Where a body came without a usable header, the next header begins in the middle of a line.
_BURIED = re.compile(rb"content-length[ \t]*:[ \t]*(\d+)[ \t]*$", re.IGNORECASE)


@define(frozen=True)
class Fault:
    """Bytes that are no message; `fatal` when nothing can be read after them."""

    message: str
    fatal: bool = False


class Framing:
    """Feed it what was read, in any fragments; state survives an unfinished iteration."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body: int | None = None
        self._skip = 0
        self._searched = 0
        self._lengths: list[bytes] = []
        self._in_header = False
        self._answered = False
        self._lost = False

    @property
    def wanted(self) -> int:
        """Bytes that the current body still needs; 0 outside of one."""
        if self._body is None:
            return self._skip
        return max(0, self._body - len(self._buffer))

    @property
    def _between(self) -> bool:
        return not (self._buffer or self._skip or self._in_header or self._lost) and (
            self._body is None
        )

    def feed(self, data: bytes) -> Iterator[bytes | bytearray | Fault]:
        """Yield each body and fault that `data` completes; `feed(b"")` goes on after a break."""
        if self._between and (header := _USUAL.match(data)) is not None:
            start = header.end()
            if start + int(header[1]) == len(data) <= MAX_BODY:
                yield data[start:]  # exactly one message, as nearly every read brings it
                return
        self._buffer += data
        while True:
            if self._skip:
                skipped = min(self._skip, len(self._buffer))
                del self._buffer[:skipped]
                self._skip -= skipped
                if self._skip:
                    return
            if self._body is not None:
                if len(self._buffer) < self._body:
                    return
                yield self._take(self._body)
            else:
                line = self._line()
                if line is None:
                    return
                fault = self._header_line(line)
                if fault is not None:
                    yield fault

    def _take(self, size: int) -> bytes | bytearray:
        self._body = None
        if len(self._buffer) == size:
            body, self._buffer = self._buffer, bytearray()
            return body
        with memoryview(self._buffer) as view:
            part = bytes(view[:size])
        del self._buffer[:size]
        return part

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            # Of an endless line only the end matters: a header may be buried there.
            if len(self._buffer) > _MAX_LINE:
                del self._buffer[:-_MAX_LINE]
            self._searched = len(self._buffer)
            return None
        self._searched = 0
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.rstrip(b"\r")

    def _header_line(self, line: bytes) -> Fault | None:
        if not line.strip():
            return self._end_of_header()
        header = _HEADER.match(line)
        if header is None:
            buried = _BURIED.search(line)
            if buried is not None:
                self._in_header = True
                self._lengths.append(buried[1])
            if self._lost:
                return None
            self._lost = self._answered = True
            return Fault("Expected a header such as 'Content-Length: 52', got something else.")
        self._in_header = True
        if header[1].lower() == b"content-length":
            self._lengths.append(header[2])
        return None

    def _end_of_header(self) -> Fault | None:
        lengths, in_header, answered = self._lengths, self._in_header, self._answered
        self._lengths, self._in_header, self._answered = [], False, False
        if not in_header:
            return None  # blank lines between messages
        if not lengths:
            self._lost = True
            return None if answered else Fault("A header without Content-Length.")
        sizes = [_size(length) for length in lengths]
        bad = next((raw for raw, size in zip(lengths, sizes, strict=True) if size is None), None)
        if bad is not None:
            self._lost = True
            shown = bad[:40].decode("ascii", "replace")
            return Fault(f"Content-Length must be a whole number of bytes, got {shown!r}.")
        known = [size for size in sizes if size is not None]
        self._lost = False
        # Of two contradicting lengths the smaller one cannot swallow the next message.
        size = min(known)
        if size > MAX_SKIPPED:
            return Fault(f"A body of more than {MAX_SKIPPED} bytes ends the connection.", True)
        if size != max(known):
            self._skip = size
            return Fault("Two Content-Length headers that contradict each other.")
        if size > MAX_BODY:
            self._skip = size
            return Fault(f"A body of {size} bytes is over the limit of {MAX_BODY} bytes.")
        self._body = size
        return None


def _size(raw: bytes) -> int | None:
    """The number in `raw`, None if it is none; capped, since its digits may be endless."""
    if not raw.isdigit():
        return None
    digits = raw.lstrip(b"0")
    return int(digits or b"0") if len(digits) < 20 else 10**20
