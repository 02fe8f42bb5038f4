"""What holds for repairing any session with any damage: the result is clean, and nothing is lost
that could be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from session.errors import SessionDamaged, Unsupported
from session.model import REPAIRS, USUAL_REPAIRS
from session.service import Service
from tests.corpus import CASES
from tests.session.agents.claude_code.stories import Story, stories
from tests.session.examples import examples
from tests.session.telling import new_id, sid, turns
from tests.session.test_service_properties import fresh_service
from tests.world import World, assert_untouched, store_hash

Damage = Callable[[list[bytes], int, int], None]


def tear(lines: list[bytes], at: int, size: int) -> None:
    lines[at] = lines[at][: size % (len(lines[at]) + 1)]


def glue(lines: list[bytes], at: int, size: int) -> None:
    if at + 1 < len(lines):
        lines[at : at + 2] = [lines[at][: size % (len(lines[at]) + 1)] + lines[at + 1]]


def join(lines: list[bytes], at: int, size: int) -> None:
    lines[at : at + 2] = [b"".join(lines[at : at + 2])]


def lose(lines: list[bytes], at: int, size: int) -> None:
    del lines[at : at + 1 + size % 3]


def repeat(lines: list[bytes], at: int, size: int) -> None:
    lines.insert(min(len(lines), at + size % 4), lines[at])


def move(lines: list[bytes], at: int, size: int) -> None:
    lines.insert(min(len(lines), at + size % 4), lines.pop(at))


def dirty(lines: list[bytes], at: int, size: int) -> None:
    marks = (b"\xef\xbb\xbf", b"\x00\x00", b" ", b"\x00")
    lines[at] = marks[size % 4] + lines[at] + (b"\r" if size % 3 else b"")


def garble(lines: list[bytes], at: int, size: int) -> None:
    lines[at] = re.sub(rb"mk\d+x", lambda mark: mark[0] + b"\xff\xfe", lines[at])


def blank(lines: list[bytes], at: int, size: int) -> None:
    lines.insert(at, (b"", b"\x00" * 9, b"  ", b"null")[size % 4])


def unsign(lines: list[bytes], at: int, size: int) -> None:
    for n, line in enumerate(lines[at:], at):
        lines[n] = re.sub(rb'("signature"\s*:\s*)"[^"]+"', rb'\1""', line)


def rename(lines: list[bytes], at: int, size: int) -> None:
    """Another id for a call or its result: both are without their other half then."""
    lines[at] = lines[at].replace(b'"toolu_', b'"tool%d_' % (size % 3))


damages = st.sampled_from(
    [tear, glue, join, lose, repeat, move, dirty, garble, blank, unsign, rename]
)
hurts = st.lists(st.tuples(damages, st.integers(0, 60), st.integers(0, 5000)), max_size=4)


def damaged(story: Story, world: World, hurt: list[tuple[Damage, int, int]]) -> Path:
    path = story.transcript.write(world.store)
    lines = path.read_bytes().split(b"\n")
    for damage, at, size in hurt:
        if lines:
            damage(lines, at % len(lines), size)
    path.write_bytes(b"\n".join(lines))
    note(story.outline())
    note("\n".join(f"{n}: {line[:90]!r}…{line[-60:]!r}" for n, line in enumerate(lines, 1)))
    return path


async def require_clean(service: Service, session_id: str, repairs: tuple[str, ...]) -> None:
    """No error, and nothing that these repairs deal with, is left."""
    found = (await service.check_session(session_id)).findings
    left = [f for f in found if f.severity == "error" or f.repair in repairs]
    assert not left, left


@settings(max_examples=examples(60))
@given(stories(), hurts)
async def test_a_repaired_session_is_clean_and_has_the_turns_of_the_damaged_one(
    world: World, story: Story, hurt: list[tuple[Damage, int, int]]
) -> None:
    async with fresh_service(world) as service:
        damaged(story, world, hurt)
        before = store_hash(world.store)
        source = await turns(service, sid(story.transcript))
        try:
            made = await service.repair_session(sid(story.transcript), new_id())
        except (SessionDamaged, Unsupported) as refused:
            # What is left may be side chains alone: nobody's turns.
            assert not source
            assert isinstance(refused, Unsupported) or "No turn" in str(refused)
            assert store_hash(world.store) == before
            return
        assert_untouched(before, world.store)
        assert made.session is not None
        child = await turns(service, made.session.session_id)
        assert [t.turn_id for t in child] == [t.turn_id for t in source]
        assert [t.prompt for t in child] == [t.prompt for t in source]
        await require_clean(service, made.session.session_id, USUAL_REPAIRS)


OTHERS = ("recover_lines", "cut_gaps", "drop_calls", "drop_thinking", "strip_outputs")


@settings(max_examples=examples(40))
@given(stories(), hurts)
async def test_what_a_repair_cuts_and_drops_leaves_the_last_turns_whole(
    world: World, story: Story, hurt: list[tuple[Damage, int, int]]
) -> None:
    async with fresh_service(world) as service:
        damaged(story, world, hurt)
        source = await turns(service, sid(story.transcript))
        try:
            made = await service.repair_session(
                sid(story.transcript), new_id(), repairs=list(OTHERS), strip_outputs_over=64
            )
        except (SessionDamaged, Unsupported) as refused:
            assert not source or "leaves no whole turn" in str(refused)
            return
        assert made.session is not None
        child = await turns(service, made.session.session_id)
        assert 0 < len(child) <= len(source)
        assert [t.turn_id for t in child] == [t.turn_id for t in source[-len(child) :]]
        await require_clean(service, made.session.session_id, (*OTHERS, "bridge_gaps"))


@pytest.mark.parametrize("name", CASES)
async def test_a_repair_of_every_known_damage_brings_back_what_can_be_read(
    service: Service, world: World, name: str
) -> None:
    case = CASES[name](world)
    if case.refused:
        return
    wanted = case.recovered or case.prompts
    before = store_hash(world.store)
    if not wanted:
        with pytest.raises(SessionDamaged, match="No turn"):
            await service.repair_session(case.session_id, new_id())
        assert store_hash(world.store) == before
        return
    live = (await service.get_session(case.session_id)).session.live is not None
    names = [r for r in REPAIRS if r not in ("cut_gaps", "drop_calls")]
    made = await service.repair_session(case.session_id, new_id(), repairs=names)
    assert_untouched(before, world.store)
    assert made.session is not None
    kept = [t.prompt for t in await turns(service, made.session.session_id)]
    # A turn that is being written is left out.
    assert kept == (wanted[: len(kept)] if live else wanted)
    await require_clean(service, made.session.session_id, tuple(names))


def test_the_names_of_repairs_are_those_of_findings() -> None:
    from session.agents.claude_code.checking.codes import CODES

    assert {code.repair for code in CODES.values() if code.repair} <= set(REPAIRS)
    assert json.dumps(REPAIRS)
