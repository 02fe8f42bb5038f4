"""Cold listings, and the index that is made of everything that they only glanced at."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from session import osfile
from session.errors import Cancelled
from session.indexer import Step
from session.model import Session
from session.service import Service
from session.work import Work
from tests.builders import Transcript
from tests.session.telling import new_id, sid, told
from tests.world import World

LARGE = "x" * 90_000
"""A few answers of this make a file that no listing reads whole."""


def large(world: World, seed: int = 1, *, turns: int = 4) -> Transcript:
    t = Transcript(str(world.cwd), seed=seed, start=f"2026-01-{seed % 28 + 1:02}T09:00:00.000Z")
    for number in range(turns):
        t.turn(f"p{number} of {seed}", LARGE)
    t.turn("the last")
    t.write(world.store)
    return t


async def listed(service: Service) -> list[Session]:
    return (await service.list_sessions(limit=500)).sessions


async def index(service: Service) -> list[Step]:
    steps: list[Step] = []
    await service.index(steps.append)
    return steps


async def test_a_store_that_is_small_is_counted_at_once(service: Service, world: World) -> None:
    for seed in range(1, 30):
        told(world, "one", "two", seed=seed)
    page = await service.list_sessions()
    assert page.indexing is None
    assert {s.turn_count for s in page.sessions} == {2}


async def test_a_store_that_is_large_says_how_much_of_it_is_counted(
    service: Service, world: World
) -> None:
    made = [large(world, seed) for seed in range(1, 4)]
    page = await service.list_sessions()
    assert [s.session_id for s in page.sessions] == [sid(t) for t in reversed(made)]
    assert [s.turn_count for s in page.sessions] == [None] * 3
    assert page.indexing is not None
    assert (page.indexing.done, page.indexing.total) == (0, 3)
    steps = await index(service)
    assert (steps[-1].done, steps[-1].total) == (3, 3)
    assert {path for step in steps for path in step.paths} == {
        str(t.path(world.store)) for t in made
    }
    page = await service.list_sessions()
    assert page.indexing is None
    assert [s.turn_count for s in page.sessions] == [5] * 3


async def test_what_was_indexed_outlives_the_process(service: Service, world: World) -> None:
    large(world)
    await index(service)
    again = await Service.open(home=world.state)
    try:
        page = await again.list_sessions()
        assert (page.indexing, page.sessions[0].turn_count) == (None, 5)
        assert await index(again) == []
    finally:
        await again.close()


async def test_the_newest_session_is_indexed_first(service: Service, world: World) -> None:
    paths = [str(large(world, seed).path(world.store)) for seed in (2, 9, 5)]
    os.utime(paths[0])
    steps = await index(service)
    assert [path for step in steps for path in step.paths] == [paths[1], paths[2], paths[0]]


async def test_a_file_that_grew_is_indexed_again(service: Service, world: World) -> None:
    t = large(world)
    await index(service)
    t.turn("more")
    t.write(world.store)
    assert [s.turn_count for s in await listed(service)] == [None]
    await index(service)
    assert [s.turn_count for s in await listed(service)] == [6]


async def test_indexing_that_is_cancelled_keeps_what_is_done(
    service: Service, world: World
) -> None:
    for seed in range(1, 4):
        large(world, seed)
    work = Work()
    work.cancel()
    with pytest.raises(Cancelled):
        await service.index(lambda step: None, work)
    assert len(await listed(service)) == 3
    await index(service)
    assert [s.turn_count for s in await listed(service)] == [5] * 3


async def test_a_file_that_goes_meanwhile_stops_no_other(service: Service, world: World) -> None:
    gone, here = large(world, 1), large(world, 2)
    await listed(service)
    gone.path(world.store).unlink()
    await index(service)
    assert [(s.session_id, s.turn_count) for s in await listed(service)] == [(sid(here), 5)]


# What the ends of a file tell


def middle(t: Transcript) -> None:
    for number in range(4):
        t.turn(f"middle {number}", LARGE)


def plain(t: Transcript) -> None:
    t.turn("one")
    middle(t)
    t.turn("last")


def moved_at_the_end(t: Transcript) -> None:
    plain(t)
    t.relocated("/home/ada/elsewhere")


def named_at_the_end(t: Transcript) -> None:
    plain(t)
    t.ai_title("by the agent")
    t.custom_title("by a person")
    t.last_prompt("last")


def renamed(t: Transcript) -> None:
    t.custom_title("at first")
    plain(t)
    t.custom_title("second")
    t.custom_title("third")
    t.turn("after that")


def named_at_the_start(t: Transcript) -> None:
    t.turn("one")
    t.ai_title("early")
    middle(t)
    t.turn("last")


def settings_first(t: Transcript) -> None:
    t.mode()
    t.permission_mode()
    t.snapshot({})
    t.attachment("skill_listing")
    t.meta("a caveat")
    plain(t)


def of_a_library(t: Transcript) -> None:
    t.entrypoint = "sdk-py"
    plain(t)


def opened_by_a_side_chain(t: Transcript) -> None:
    t.sidechain("look", "looked")
    plain(t)


def forked_by_the_agent(t: Transcript) -> None:
    plain(t)
    t.fork_of("0f3c2f4e-0000-4000-8000-000000000001")


def ended_by_a_pointer(t: Transcript) -> None:
    plain(t)
    t.rewind_pointer(t.messages()[-3]["uuid"])


def damaged_at_both_ends(t: Transcript) -> None:
    t.append(b'{"torn')
    t.append(b"\x00" * 3000)
    plain(t)
    t.append(b'{"type":"user","mess')


def of_several_programs_turns(t: Transcript) -> None:
    """Another session's records at both ends."""
    for end in (False, True):
        other = Transcript(t.cwd, seed=77, start="2030-01-01T00:00:00.000Z")
        other.turn("not this session's")
        if end:
            plain(t)
        t.records += other.records


SHAPES = (
    plain,
    moved_at_the_end,
    named_at_the_end,
    renamed,
    named_at_the_start,
    settings_first,
    of_a_library,
    opened_by_a_side_chain,
    forked_by_the_agent,
    ended_by_a_pointer,
    damaged_at_both_ends,
    of_several_programs_turns,
)
ALIKE = ("title", "cwd", "last_cwd", "created_at", "updated_at", "kind")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
async def test_the_ends_of_a_file_tell_what_all_of_it_tells(
    service: Service, world: World, shape: Callable[[Transcript], None]
) -> None:
    t = Transcript(str(world.cwd), seed=3)
    shape(t)
    t.write(world.store)
    everything = {"kinds": ["main", "sdk", "subagent"]}
    (cold,) = (await service.list_sessions(**everything)).sessions  # type: ignore[arg-type]
    assert cold.turn_count is None
    await index(service)
    (known,) = (await service.list_sessions(**everything)).sessions  # type: ignore[arg-type]
    assert known.turn_count is not None
    assert {name: getattr(cold, name) for name in ALIKE} == {
        name: getattr(known, name) for name in ALIKE
    }
    source = known.forked_from and known.forked_from.session_id
    assert (cold.forked_from and cold.forked_from.session_id) == source


async def test_what_only_the_middle_tells_is_put_right_by_the_index(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("one", LARGE)
    t.turn("two", LARGE)
    t.custom_title("in the middle")
    t.turn("three", LARGE)
    t.turn("four")
    t.write(world.store)
    assert [s.title for s in await listed(service)] == ["one"]
    await index(service)
    assert [s.title for s in await listed(service)] == ["in the middle"]


async def test_a_file_with_long_damage_at_both_ends_is_listed_and_then_known(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.append(b"\x00" * 3_000_000)
    t.turn("one")
    t.append(b'{"torn' + b"x" * 3_000_000)
    path = t.write(world.store)
    (cold,) = await listed(service)
    assert (cold.session_id, cold.title, cold.turn_count) == (sid(t), None, None)
    assert cold.updated_at == osfile.utc(path.stat().st_mtime)
    await index(service)
    (known,) = await listed(service)
    assert (known.title, known.turn_count, known.state) == ("one", 1, "damaged")


async def test_a_long_file_without_a_message_is_skipped_once_that_is_known(
    service: Service, world: World
) -> None:
    path = told(world, "one").path(world.store).with_name(f"{new_id(9)[12:]}.jsonl")
    path.write_bytes(b'{"type":"mode","mode":"normal"}\n' * 300_000)
    await index(service)
    page = await service.list_sessions()
    assert [s.title for s in page.sessions] == ["one"]
    assert [(s.path, s.reason) for s in page.skipped] == [(str(path), "no readable message")]
    assert page.indexing is None
    assert await index(service) == []
