"""Two at work on one session: one waits, or is told who is at it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from session.errors import SessionBusy
from session.model import Boundary
from session.service import Service
from tests.session.telling import new_id, prompts, sid, told
from tests.world import World, store_hash

CHILD = new_id()


@pytest_asyncio.fixture
async def other(world: World) -> AsyncIterator[Service]:
    """Another server on the same stores."""
    other = await Service.open(home=world.state, program="another")
    yield other
    await other.close()


async def test_who_does_not_wait_is_told_who_is_at_work(
    service: Service, other: Service, world: World
) -> None:
    t = told(world, "one", "two")
    before = store_hash(world.store)
    async with other.context.operations.locks.hold(sid(t), 0):
        for verb in (
            service.rewind(sid(t), Boundary(by=1), wait_ms=0),
            service.rewind(sid(t), Boundary(by=1), wait_ms=50),
        ):
            with pytest.raises(SessionBusy) as caught:
                await verb
            holder = caught.value.data["holder"]
            assert (holder.pid, holder.program) == (os.getpid(), "another")
            assert holder.since.endswith("Z")
            assert holder.host
    assert store_hash(world.store) == before
    await service.rewind(sid(t), Boundary(by=1), wait_ms=0)


async def test_who_waits_goes_on_when_the_other_is_done(
    service: Service, other: Service, world: World
) -> None:
    t = told(world, "one", "two")
    async with other.context.operations.locks.hold(sid(t), 0):
        waiting = asyncio.ensure_future(service.rewind(sid(t), Boundary(by=1), wait_ms=20_000))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert await prompts(service, sid(t)) == ["one", "two"]
    assert (await waiting).status == "rewound"


async def test_reading_and_forking_wait_for_nobody(
    service: Service, other: Service, world: World
) -> None:
    t = told(world, "one", "two")
    async with other.context.operations.locks.hold(sid(t), 0):
        assert await prompts(service, sid(t)) == ["one", "two"]
        assert len((await service.list_sessions()).sessions) == 1
        forked = await service.fork_session(sid(t), CHILD, wait_ms=0)
    assert forked.status == "forked"


async def test_one_id_asked_for_twice_at_once_is_one_child(
    service: Service, other: Service, world: World
) -> None:
    t = told(world, "one", "two")
    asked = [
        server.fork_session(sid(t), CHILD, wait_ms=20_000)
        for server in (service, other, service, other)
    ]
    results = await asyncio.gather(*asked)
    assert sorted(r.status for r in results) == ["already_forked"] * 3 + ["forked"]
    assert len({r.operation_id for r in results}) == 1
    assert len((await service.list_sessions(forked_from=sid(t))).sessions) == 1


async def test_many_forks_at_once_are_all_made(
    service: Service, other: Service, world: World
) -> None:
    t = told(world, "one", "two")
    servers = (service, other)
    asked = [
        servers[n % 2].fork_session(sid(t), new_id(n), at=Boundary(turn_number=n % 2 + 1))
        for n in range(12)
    ]
    await asyncio.gather(*asked)
    for number in range(12):
        assert await prompts(other, new_id(number)) == ["one", "two"][: number % 2 + 1]


async def test_rewinds_at_once_drop_one_turn_each(
    service: Service, other: Service, world: World
) -> None:
    t = told(world, *(f"p{n}" for n in range(6)))
    asked = [
        server.rewind(sid(t), Boundary(by=1), wait_ms=20_000)
        for server in (service, other, service)
    ]
    results = await asyncio.gather(*asked)
    assert sorted(r.turns.kept for r in results) == [3, 4, 5]
    assert await prompts(service, sid(t)) == ["p0", "p1", "p2"]
    for _ in range(3):
        await other.undo(sid(t))
    assert await prompts(service, sid(t)) == [f"p{n}" for n in range(6)]
