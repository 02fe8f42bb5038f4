"""What a case of the corpus is: a store with one thing wrong in it, and what is right to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, field

from tests.builders import Transcript
from tests.world import World

Told = tuple[str, int | None]
"""A finding: its code and its line."""


@define(frozen=True)
class Case:
    """One session with one thing wrong, and what Turntree should tell of it.

    `prompts` are those of the active branch, `branches` their number, `gaps` the lines of
    records whose parent is missing, `findings` all that `check_session` tells, in its order.
    `listed` is False for a file that holds nothing to show: it is in `skipped`.  `refused`
    is the kind of the error with which every verb answers for what is no file at all.
    `recovered`: the prompts that a repair with its defaults brings back, where they are more.
    """

    path: Path
    native_id: str
    prompts: list[str] = field(factory=list)
    branches: int = 1
    gaps: list[int] = field(factory=list)
    findings: list[Told] = field(factory=list)
    listed: bool = True
    refused: str | None = None
    recovered: list[str] | None = None

    @property
    def session_id(self) -> str:
        return f"claude-code:{self.native_id}"


Builder = Callable[[World], Case]
CASES: dict[str, Builder] = {}
"""Every case by its name, which begins with its report's number where there is one."""


def case(builder: Builder) -> Builder:
    """Take a builder into the corpus under its function's name."""
    name = builder.__name__
    assert name not in CASES, name
    CASES[name] = builder
    return builder


def told(world: World, *prompts: str, seed: int = 1, cwd: str | None = None) -> Transcript:
    """A session in which each of `prompts` was answered: lines 1 and 2, 3 and 4, …"""
    t = Transcript(cwd or str(world.cwd), seed=seed)
    for prompt in prompts:
        t.turn(prompt, f"answer to {prompt}")
    return t


FOUR = ["one", "two", "three", "four"]


def written(world: World, t: Transcript, findings: Sequence[Told] = (), **more: object) -> Case:
    """The case of a transcript that is written as its records stand."""
    return given(t.write(world.store), t, findings, **more)


def rewritten(
    world: World, t: Transcript, data: bytes, findings: Sequence[Told] = (), **more: object
) -> Case:
    """The case of a transcript whose file holds `data` instead."""
    path = t.write(world.store)
    path.write_bytes(data)
    return given(path, t, findings, **more)


def given(path: Path, t: Transcript, findings: Sequence[Told] = (), **more: object) -> Case:
    wanted = {"prompts": list(FOUR), "findings": list(findings), **more}
    return Case(path, t.session_id, **wanted)  # type: ignore[arg-type]


def lines_of(t: Transcript) -> list[bytes]:
    """The file's lines, without their newlines."""
    return t.dump().splitlines()
