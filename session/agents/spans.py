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


def members(line: bytes) -> Iterator[Member]:
    """The top-level members of an object that a JSON parser has accepted, in order."""
    at = _skip_space(line, 0)
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
