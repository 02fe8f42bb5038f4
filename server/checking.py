"""Structuring of parameters: strict types, and faults told in plain words with their path."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import AttributeValidationNote, BaseValidationError
from cattrs.gen import make_dict_structure_fn

from server import messages
from session.errors import InvalidParams
from session.model import Boundary

_CALLER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class Wrong(ValueError):
    """A value that does not fit; `path` leads from where it was met to the value."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path


def read(kind: type[messages.P], params: Any) -> messages.P:
    """Make a `kind` of a request's `params` (absent, null and an empty list are `{}`).

    A list of one object, which some clients send, is that object.  Raises `InvalidParams`
    with `field` naming the offending one.
    """
    try:
        return _converter.structure(as_object(params), kind)
    except Wrong as wrong:
        raise _invalid(wrong.path, wrong.message) from None
    except BaseValidationError as errors:
        path, message = _first_fault(errors)
        raise _invalid(path, message) from None


def as_object(value: Any) -> dict[str, Any]:
    """`value` as an object of parameters; `Wrong` when it is none."""
    while type(value) is list and len(value) == 1:
        (value,) = value
    if type(value) is dict:
        return value
    if value is None or value == []:
        return {}
    raise Wrong(f"expected an object, got {describe(value)}")


def describe(value: Any) -> str:
    """`value` in a few words: `true (boolean)`, `"abc" (string)`, `a list`."""
    if value is None:
        return "null"
    if type(value) is bool:
        return f"{'true' if value else 'false'} (boolean)"
    if type(value) is int or type(value) is float:
        return f"{value} (number)"
    if type(value) is str:
        return f'"{value if len(value) <= 40 else value[:40] + "…"}" (string)'
    return "a list" if type(value) is list else "an object"


def _invalid(path: str, message: str) -> InvalidParams:
    where = f"params.{path}" if path else "params"
    return InvalidParams(f"{where}: {message}", field=path or "params")


def _first_fault(errors: BaseValidationError) -> tuple[str, str]:
    fault = errors.exceptions[0]
    step = ""
    for note in getattr(fault, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            step = note.name
    path, message = "", str(fault)
    if isinstance(fault, BaseValidationError):
        path, message = _first_fault(fault)
    elif isinstance(fault, Wrong):
        path, message = fault.path, fault.message
    elif isinstance(fault, KeyError):
        message = "required"
    if step and path and not path.startswith("["):
        step += "."
    return step + path, message


def _strict(kind: type, words: str) -> Callable[[Any, Any], Any]:
    def hook(value: Any, _: Any) -> Any:
        if type(value) is not kind:  # a bool is an int to isinstance
            raise Wrong(f"expected {words}, got {describe(value)}")
        return value

    return hook


def _whole(low: int, high: int | None, words: str) -> Callable[[Any, Any], int]:
    def hook(value: Any, _: Any) -> int:
        if type(value) is not int:
            raise Wrong(f"expected an integer, got {describe(value)}")
        if value < low or (high is not None and value > high):
            raise Wrong(f"expected {words}, got {value}")
        return value

    return hook


def _caller_id(value: Any, _: Any) -> str:
    if type(value) is not str:
        raise Wrong(f"expected a string, got {describe(value)}")
    if not _CALLER_ID.fullmatch(value):
        raise Wrong(
            "expected a letter or digit and up to 127 more of letters, digits, '.', '_', ':' "
            f"and '-', got {describe(value)}"
        )
    return value


def _one_of(literal: Any) -> Callable[[Any, Any], Any]:
    choices = get_args(literal)

    def hook(value: Any, _: Any) -> Any:
        if type(value) is not str or value not in choices:
            raise Wrong(f"expected one of {', '.join(choices)}; got {describe(value)}")
        return value

    return hook


def _list_of(kind: Any) -> Callable[[Any, Any], list[Any]]:
    (item,) = get_args(kind)

    def hook(value: Any, _: Any) -> list[Any]:
        if type(value) is not list:
            raise Wrong(f"expected a list, got {describe(value)}")
        out = []
        for index, entry in enumerate(value):
            try:
                out.append(_converter.structure(entry, item))
            except Wrong as wrong:
                raise Wrong(wrong.message, f"[{index}]{wrong.path}") from None
        return out

    return hook


def _boundary(*extra: str) -> Callable[[Any, Any], Boundary]:
    """A boundary that may also be given by one of the fields `extra`."""
    types = {"latest": bool, "through_turn": str, "before_turn": str, "turn_number": int}
    allowed = types | dict.fromkeys(extra, int)
    words = "expected exactly one of " + ", ".join(allowed)

    def hook(value: Any, _: Any) -> Boundary:
        given = {k: v for k, v in as_object(value).items() if v is not None}
        if "by" in given and "by" not in allowed:
            raise Wrong("only rewind takes a boundary by count", "by")
        given = {k: v for k, v in given.items() if k in allowed}
        if len(given) != 1:
            raise Wrong(f"{words}; got {' and '.join(given) or 'none of them'}")
        ((name, entry),) = given.items()
        if name == "latest" and entry is not True:
            raise Wrong(f"expected true, got {describe(entry)}", name)
        try:
            return Boundary(**{name: _converter.structure(entry, allowed[name])})
        except Wrong as wrong:
            raise Wrong(wrong.message, name) from None

    return hook


def _params(kind: type) -> Callable[[Any, Any], Any]:
    """Null is the same as absent, and an empty list is an empty object (Neovim's `{}`)."""
    structure: Callable[[Any, Any], Any] = make_dict_structure_fn(kind, _converter)

    def hook(value: Any, _: Any) -> Any:
        fields = as_object(value)
        if None in fields.values():
            fields = {k: v for k, v in fields.items() if v is not None}
        return structure(fields, kind)

    return hook


def _undo(kind: type[messages.Undo]) -> Callable[[Any, Any], messages.Undo]:
    structure = _params(kind)

    def hook(value: Any, _: Any) -> messages.Undo:
        params: messages.Undo = structure(value, kind)
        if params.session_id is None and params.operation_id is None:
            raise Wrong("required, unless operation_id is given", "session_id")
        return params

    return hook


def _made_of(origin: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


def _make_converter() -> Converter:
    converter = Converter(detailed_validation=True)
    converter.register_structure_hook(int, _strict(int, "an integer"))
    converter.register_structure_hook(str, _strict(str, "a string"))
    converter.register_structure_hook(bool, _strict(bool, "true or false"))
    converter.register_structure_hook(messages.Limit, _whole(1, 500, "1 to 500"))
    converter.register_structure_hook(messages.WaitMs, _whole(0, None, "0 or more"))
    converter.register_structure_hook(messages.MaxBytes, _whole(1, None, "1 or more"))
    converter.register_structure_hook(messages.CallerId, _caller_id)
    converter.register_structure_hook(messages.ForkPoint, _boundary())
    converter.register_structure_hook(messages.RewindPoint, _boundary("by"))
    converter.register_structure_hook_factory(attrs.has, _params)
    converter.register_structure_hook_factory(lambda kind: kind is messages.Undo, _undo)
    converter.register_structure_hook_factory(_made_of(list), _list_of)
    converter.register_structure_hook_factory(_made_of(Literal), _one_of)
    return converter


_converter = _make_converter()
