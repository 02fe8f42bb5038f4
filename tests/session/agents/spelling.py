"""JSON spelled in the ways a parser takes and a careless editor breaks.

`spell` writes a value as bytes in a chosen style; `Raw` stands for a literal as it is,
`Pairs` for an object with its members in order, doubles among them.  `members` reads the
top-level members of an object back, slowly and by the standard library alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define


@define(frozen=True)
class Raw:
    """A literal, byte for byte: `1e2`, `-0`, `0.1000`."""

    text: str


@define(frozen=True)
class Pairs:
    """An object's members in this order; a key may come twice."""

    items: Sequence[tuple[str, Any]]


@define(frozen=True)
class Style:
    """`gap` stands after `:` and `,`; `ascii` escapes what is beyond ASCII; `ending` ends it."""

    gap: str = ""
    ascii: bool = False
    ending: str = ""


ODD_NUMBERS = ("1e2", "1.0", "-0", "12345678901234567890", "0.1000", "1E+2", "-0.0e-7")


def spell(value: Any, style: Style) -> bytes:
    text = f"{_spelled(value, style)}{style.ending}"
    return text.encode("utf-8", "surrogatepass")


def _spelled(value: Any, style: Style) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        value = Pairs(list(value.items()))
    if isinstance(value, Pairs):
        members = [f"{_string(k, style)}:{style.gap}{_spelled(v, style)}" for k, v in value.items]
        return "{" + f",{style.gap}".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + f",{style.gap}".join(_spelled(item, style) for item in value) + "]"
    if isinstance(value, str):
        return _string(value, style)
    return json.dumps(value)


def _string(text: str, style: Style) -> str:
    return json.dumps(text, ensure_ascii=style.ascii)


@define(frozen=True)
class Found:
    """A top-level member: its key, where its value stands, and what the value means."""

    key: str
    start: int
    end: int
    value: Any


def members(line: bytes) -> list[Found]:
    """The top-level members of one JSON object, by the standard library's decoder.

    Latin-1 makes one character of each byte, and leaves every sign that JSON is made of.
    """
    return list(_members(line))


def _members(line: bytes) -> Iterator[Found]:
    text = line.decode("latin-1")
    decoder = json.JSONDecoder(strict=False)

    def value_at(at: int) -> tuple[Any, int]:
        _, end = decoder.raw_decode(text, at)
        value = line[at:end].decode("utf-8", "surrogatepass")
        return json.loads(value, strict=False), end

    at = _after_space(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = value_at(at)
        at = _after_space(text, at)
        assert text[at] == ":"
        start = _after_space(text, at + 1)
        value, end = value_at(start)
        yield Found(key, start, end, value)
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
