"""A session that was indexed and did not change is described without reading its file."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from session.errors import SessionNotFound
from session.service import Service
from tests.builders import Transcript
from tests.session.telling import prompts, sid, told
from tests.world import World

R = TypeVar("R")


def at_once(step: Coroutine[Any, Any, R]) -> R | None:
    """What a coroutine returns without waiting for anything; None when it waits."""
    try:
        step.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    step.close()
    return None


async def test_an_indexed_session_is_described_at_once(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    assert at_once(service.get_session(sid(t))) is None
    indexed = await service.get_session(sid(t))
    again = at_once(service.get_session(sid(t)))
    assert again is not None and again == indexed
    assert again.session.turn_count == 2


async def test_a_session_that_grew_is_read_again(service: Service, world: World) -> None:
    t = told(world, "one")
    await service.get_session(sid(t))
    t.turn("two", "more")
    t.write(world.store)
    assert at_once(service.get_session(sid(t))) is None
    assert (await service.get_session(sid(t))).session.turn_count == 2
    assert await prompts(service, sid(t)) == ["one", "two"]


async def test_another_file_of_the_same_size_and_time_is_read_again(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    path = t.path(world.store)
    await service.get_session(sid(t))
    times = path.stat()
    path.rename(path.with_suffix(".old"))
    other = Transcript(str(world.cwd), seed=1)
    other.turn("two", "answer to one")
    other.write(world.store)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert await prompts(service, sid(t)) == ["two"]


async def test_an_indexed_session_whose_file_is_gone_is_not_found(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    await service.get_session(sid(t))
    t.path(world.store).unlink()
    with pytest.raises(SessionNotFound):
        await service.get_session(sid(t))


async def test_an_indexed_session_that_moved_to_another_folder_is_found_there(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    await service.get_session(sid(t))
    path = t.path(world.store)
    elsewhere = path.parent.with_name("-another-folder")
    elsewhere.mkdir()
    path.rename(elsewhere / path.name)
    assert (await service.get_session(sid(t))).session.turn_count == 1
