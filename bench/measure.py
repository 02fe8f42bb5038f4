"""Medians of things that are done in turn, and the line that two of them make."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from attrs import define

Timed = Callable[[], float]
"""Does a thing once and answers how many seconds of it count."""


@define(frozen=True)
class Row:
    """One comparison: `ours` against `other`, both in `unit`; without a goal it only informs.

    The goal is for the ratio; where there is no `other`, for `ours` itself.
    """

    operation: str
    ours: float
    other: float | None
    against: str
    goal: float | None = None
    unit: str = "ms"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if not self.other else self.ours / self.other

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        reached = self.ours if self.other is None else self.ratio
        return reached is not None and reached <= self.goal


def alternate(rounds: int, *things: Timed) -> list[float]:
    """Median seconds of each thing, done one after the other in every round, warm-up first."""
    taken: list[list[float]] = [[] for _ in things]
    for number in range(rounds + 1):
        for thing, times in zip(things, taken, strict=True):
            seconds = thing()
            if number:
                times.append(seconds)
    return [statistics.median(times) for times in taken]


def compared(
    operation: str,
    rounds: int,
    ours: Timed,
    other: Timed,
    against: str,
    goal: float | None = None,
) -> Row:
    """Two things, done in turn `rounds` times, as a row."""
    mine, theirs = alternate(rounds, ours, other)
    return row(operation, mine, theirs, against, goal)


def timed(action: Callable[[], object]) -> Timed:
    """The whole of an action counts."""

    def run() -> float:
        began = time.perf_counter()
        action()
        return time.perf_counter() - began

    return run


def many(times: int, action: Timed) -> Timed:
    """The median of an action that is too short to be measured once."""

    def run() -> float:
        return statistics.median(action() for _ in range(times))

    return run


def row(
    operation: str,
    ours: float,
    other: float | None,
    against: str,
    goal: float | None = None,
    note: str = "",
) -> Row:
    """A row of seconds, shown as milliseconds."""
    return Row(
        operation, ours * 1e3, None if other is None else other * 1e3, against, goal, note=note
    )
