"""`@value`: the frozen attrs classes of the house, cheap to make.

A command line makes all of them at every start.  attrs would write and compile comparing,
hashing and printing for each class anew, which is more than half of its time, so they are
functions that all of them share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define

T = TypeVar("T")

if TYPE_CHECKING:
    # What a type checker takes it for.
    from attrs import frozen as value
else:

    def value(cls: type[T]) -> type[T]:
        cls.__eq__, cls.__hash__, cls.__repr__ = _equal, _hash, _shown
        return define(frozen=True, eq=False, repr=False)(cls)


def fields(instance: Any) -> dict[str, Any]:
    """One level of a value's fields."""
    return {a.name: getattr(instance, a.name) for a in type(instance).__attrs_attrs__}


def _equal(one: Any, other: object) -> Any:
    if type(other) is not type(one):
        return NotImplemented
    return fields(one) == fields(other)


def _hash(one: Any) -> int:
    return hash((type(one), *fields(one).values()))


def _shown(one: Any) -> str:
    shown = ", ".join(f"{name}={content!r}" for name, content in fields(one).items())
    return f"{type(one).__name__}({shown})"


__all__ = ["fields", "value"]
