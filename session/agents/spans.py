"""Byte spans of the members of a JSON object, for edits that leave every other byte alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from session.values import value

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(rb"[-+.\w]+")
_BRACKET = re.compile(rb'["{}\[\]]')
_SPACE = re.compile(rb"[\s\x00\xef\xbb\xbf]*")


@value
class Member:
    """One top-level member: its key, and where key and value stand (end exclusive)."""

    key: bytes
    start: int
    value: int
    end: int


class NotAnObject(ValueError):
    """The text is not one JSON object."""


def members(line: bytes, start: int = 0) -> Iterator[Member]:
    """The members of the object at `start` in text that a JSON parser has accepted, in order."""
    at = _skip_space(line, start)
    if line[at : at + 1] != b"{":
        raise NotAnObject(line[:40])
    at = _skip_space(line, at + 1)
    while line[at : at + 1] == b'"':
        key_end = _string_end(line, at)
        value = _skip_space(line, key_end)
        if line[value : value + 1] != b":":
            raise NotAnObject(line[at : at + 40])
        value = _skip_space(line, value + 1)
        end = _value_end(line, value)
        yield Member(line[at + 1 : key_end - 1], at, value, end)
        at = _skip_space(line, end)
        if line[at : at + 1] != b",":
            return
        at = _skip_space(line, at + 1)


def elements(line: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Where each element of the array at `start` begins and ends."""
    at = _skip_space(line, start + 1)
    while line[at : at + 1] != b"]":
        end = _value_end(line, at)
        yield at, end
        at = _skip_space(line, end)
        if line[at : at + 1] != b",":
            return
        at = _skip_space(line, at + 1)


def find(line: bytes, start: int, *keys: bytes) -> Member | None:
    """The member that a path of keys leads to from the object at `start`, None when there is
    none; of a repeated key the last one counts, as for a parser."""
    found: Member | None = None
    for key in keys:
        if found is not None and line[start : start + 1] != b"{":
            return None
        found = None
        for member in members(line, start):
            if member.key == key:
                found = member
        if found is None:
            return None
        start = found.value
    return found


def replace(line: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """`line` with each (start, end, new bytes) put in place; spans must not overlap."""
    parts: list[bytes] = []
    at = 0
    for start, end, new in sorted(edits):
        parts += [line[at:start], new]
        at = end
    parts.append(line[at:])
    return b"".join(parts)


def _skip_space(line: bytes, at: int) -> int:
    match = _SPACE.match(line, at)
    return match.end() if match else at


def _string_end(line: bytes, at: int) -> int:
    match = _STRING.match(line, at)
    if match is None:
        raise NotAnObject(line[at : at + 40])
    return match.end()


def _value_end(line: bytes, at: int) -> int:
    first = line[at : at + 1]
    if first == b'"':
        return _string_end(line, at)
    if first not in (b"{", b"["):
        match = _SCALAR.match(line, at)
        if match is None:
            raise NotAnObject(line[at : at + 40])
        return match.end()
    depth = 0
    while (bracket := _BRACKET.search(line, at)) is not None:
        at = bracket.end()
        sign = bracket[0]
        if sign == b'"':
            at = _string_end(line, at - 1)
        elif sign in b"{[":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return at
    raise NotAnObject(line[:40])
