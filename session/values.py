"""`@value`: the frozen attrs classes of the house, cheap to declare.

Every process imports dozens of them and uses a few.  attrs writes and compiles the methods of
a class, so that waits for the first instance; and comparing, hashing and printing are
functions that all of them share.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define

T = TypeVar("T")

if TYPE_CHECKING:
    # What a type checker takes it for.
    from attrs import frozen as value
else:

    def value(cls: type[T]) -> type[T]:
        def first_init(self: T, *args: Any, **kwargs: Any) -> None:
            made(cls).__init__(self, *args, **kwargs)

        cls.__init__ = first_init
        cls.__eq__, cls.__hash__, cls.__repr__ = _equal, _hash, _shown
        return cls


_MAKING = threading.Lock()


def made(cls: type[T]) -> type[T]:
    """A class declared with `@value`, with the methods and facts that attrs gives it."""
    with _MAKING:
        if "__attrs_attrs__" not in vars(cls):
            define(init=True, frozen=True, eq=False, repr=False, slots=False)(cls)
    return cls


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


__all__ = ["fields", "made", "value"]
