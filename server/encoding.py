"""JSON to and from the wire: orjson, and what it alone would refuse."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson

from session.model import fields_of


def decode(body: bytes | bytearray) -> Any:
    """The JSON in `body`; `ValueError` with the place when it is malformed.

    A lone surrogate in an escape, as JavaScript writes for a string cut in the middle of an
    emoji, is legal JSON that orjson refuses: it becomes U+FFFD.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if "surrogate" not in str(error):
            raise
    return _well_formed(json.loads(body, parse_constant=_refuse))


def encode(value: Any) -> bytes:
    """`value`, model values included, as JSON; a path that is no UTF-8 keeps what can be shown."""
    try:
        return orjson.dumps(value, default=fields_of)
    except TypeError:
        return orjson.dumps(_well_formed(value))


def exact_number(body: bytes | bytearray, name: str) -> bytes:
    """The number at `name` of the object in `body`, which orjson may have rounded."""
    return json.dumps(json.loads(body)[name]).encode()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _well_formed(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, (list, tuple)):
        return [_well_formed(entry) for entry in value]
    if not isinstance(value, dict):
        value = fields_of(value)
    return {_well_formed(key): _well_formed(entry) for key, entry in value.items()}
