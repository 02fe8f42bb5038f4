"""Changes to a transcript that files really undergo: on whole lines, and across their ends."""

from __future__ import annotations

import random
import re

_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_INSERTS = (
    b"\xef\xbb\xbf",
    b"\x00" * 7,
    b"\r",
    b"\n\n",
    b"\xff\xfe",
    b"\\ud800",
    b"{",
    b"}",
    b'"',
    b'{"parentUuid":',
    b'"isSidechain":true,',
    b'"uuid":"x",',
)


def mutate(data: bytes, seed: int, max_size: int) -> bytes:
    """`data` after a few such changes; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(_CHANGES)(data, chance)
    return data[:max_size]


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True) or [b""]


def _move(data: bytes, chance: random.Random) -> bytes:
    lines = _lines(data)
    lines.insert(chance.randrange(len(lines)), lines.pop(chance.randrange(len(lines))))
    return b"".join(lines)


def _repeat(data: bytes, chance: random.Random) -> bytes:
    lines = _lines(data)
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"".join(lines)


def _drop(data: bytes, chance: random.Random) -> bytes:
    lines = _lines(data)
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def _tear(data: bytes, chance: random.Random) -> bytes:
    """A line loses its end, and perhaps its newline."""
    lines = _lines(data)
    at = chance.randrange(len(lines))
    lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)] + chance.choice((b"", b"\n"))
    return b"".join(lines)


def _relink(data: bytes, chance: random.Random) -> bytes:
    """One id becomes another one of the file."""
    ids = [match.span() for match in _UUID.finditer(data)]
    if len(ids) < 2:
        return data
    (begin, end), (source, source_end) = chance.choice(ids), chance.choice(ids)
    return data[:begin] + data[source:source_end] + data[end:]


def _rename(data: bytes, chance: random.Random) -> bytes:
    """One id becomes a new one."""
    ids = [match.span() for match in _UUID.finditer(data)]
    if not ids:
        return data
    begin, end = chance.choice(ids)
    return data[:begin] + b"%08x" % chance.getrandbits(32) + data[begin + 8 : end] + data[end:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(_INSERTS) + data[at:]


def _flip(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


_CHANGES = (_move, _repeat, _drop, _tear, _relink, _rename, _insert, _flip)
