"""What was said in a session's turns, as an agent hands it to the search index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from session.store.native_files import Identity
from session.values import value


class Known(NamedTuple):
    """As of when a file's words are indexed; `guard` is the end of the `scanned` bytes."""

    identity: Identity
    scanned: int
    guard: bytes


@value
class TurnText:
    """A turn's prompt, and what the assistant said in it.

    `places` are offsets in the file of the lines that these stand in, the prompt's first;
    `number` is None on an abandoned branch.
    """

    turn_id: str
    number: int | None
    at: str
    places: list[int]
    prompt: str
    answer: str


@value
class Texts:
    """What a file holds as of `known`: the turns that are not indexed yet, or not as they are.

    `whole`: these are all of its turns.  `numbers` gives those of the active branch by the
    place of their prompt.
    """

    known: Known
    whole: bool
    numbers: dict[int, int]
    turns: Iterable[TurnText]
