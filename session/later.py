"""Modules that are imported when something of theirs is first used.

A process waits at its start for every module that it imports, and a command line does one
thing and ends.  What only some verbs need stands at the top of a file like this, so that type
checkers and readers see where it is from:

    if TYPE_CHECKING:
        from session import forking
    else:
        forking = later("session.forking")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def later(name: str) -> Any:
    """A stand-in for the module `name`."""
    return _Later(name)


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        # What is found once is found at once from then on.
        self.__dict__[attribute] = found
        return found
