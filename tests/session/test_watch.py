"""Changes of sessions, by any program, told once each with what happened."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from session.model import Boundary, Change
from session.service import Service
from tests.builders import Transcript
from tests.session.telling import new_id, sid, told
from tests.world import World

CHILD = new_id()
PATIENCE = 30.0
"""Seconds to wait for news before the test fails."""


class News:
    """What `Service.changes` told so far."""

    def __init__(self, service: Service) -> None:
        self.heard: list[Change] = []
        self._more = asyncio.Condition()
        self._task = asyncio.ensure_future(self._listen(service))

    async def _listen(self, service: Service) -> None:
        async for change in service.changes():
            async with self._more:
                self.heard.append(change)
                self._more.notify_all()

    async def until(self, true: Callable[[Change], bool]) -> Change:
        async with asyncio.timeout(PATIENCE), self._more:
            await self._more.wait_for(lambda: any(true(change) for change in self.heard))
        return next(change for change in self.heard if true(change))

    async def of(self, session_id: str, reason: str) -> Change:
        return await self.until(lambda c: c.session_ids == [session_id] and c.reason == reason)

    def reasons(self, session_id: str) -> list[str]:
        return [c.reason for c in self.heard if session_id in c.session_ids]

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@pytest_asyncio.fixture
async def session(world: World) -> Transcript:
    """A session that is there before anyone watches."""
    return told(world, "one", "two")


@pytest_asyncio.fixture
async def news(service: Service, world: World, session: Transcript) -> AsyncIterator[News]:
    """The news of a service that has begun to watch."""
    news = News(service)
    try:
        # A session that appears is told once the watch is on.
        number = 0
        while not any(c.session_ids != [sid(session)] for c in news.heard):
            number += 1
            told(world, "is anyone there", seed=1000 + number)
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.4)
        news.heard.clear()
        yield news
    finally:
        await news.close()


@pytest_asyncio.fixture
async def other(world: World) -> AsyncIterator[Service]:
    """Another server on the same stores."""
    other = await Service.open(home=world.state, program="another")
    yield other
    await other.close()


def append(t: Transcript, world: World, text: str) -> None:
    more = Transcript(t.cwd, session_id=t.session_id, seed=77)
    more.branch_from(t.head)
    more.turn(text)
    with t.path(world.store).open("ab") as file:
        file.write(more.dump())


async def test_what_another_program_appends_is_told(
    news: News, session: Transcript, world: World
) -> None:
    append(session, world, "three")
    await news.of(sid(session), "appended")


async def test_a_new_session_is_told(news: News, world: World) -> None:
    t = told(world, "new", seed=50)
    await news.of(sid(t), "appended")


async def test_a_session_in_a_new_project_folder_is_told(news: News, world: World) -> None:
    t = told(world, "new", seed=50, cwd="/somewhere/else")
    await news.of(sid(t), "appended")


async def test_a_session_that_goes_is_told(news: News, session: Transcript, world: World) -> None:
    session.path(world.store).unlink()
    await news.of(sid(session), "removed")


async def test_a_rewind_and_an_undo_by_another_server_are_told(
    news: News, session: Transcript, other: Service
) -> None:
    await other.rewind(sid(session), Boundary(by=1))
    await news.of(sid(session), "rewound")
    await other.undo(sid(session))
    await news.of(sid(session), "restored")


async def test_a_fork_by_another_server_is_told_with_its_source(
    news: News, session: Transcript, other: Service
) -> None:
    await other.fork_session(sid(session), CHILD)
    change = await news.of(CHILD, "forked")
    assert change.forked_from == sid(session)
    assert news.reasons(sid(session)) == []


async def test_a_rewind_by_a_new_file_by_another_server_is_told(
    news: News, other: Service, world: World
) -> None:
    t = Transcript(str(world.cwd), seed=60, version="2.1.100")
    t.turns(2)
    t.write(world.store)
    await news.of(sid(t), "appended")
    await other.rewind(sid(t), Boundary(by=1))
    await news.until(lambda c: c.session_ids == [sid(t)] and c.reason != "appended")
    assert "removed" not in news.reasons(sid(t))


async def test_what_this_service_does_is_told_once_with_its_reason(
    news: News, service: Service, session: Transcript, world: World
) -> None:
    await service.fork_session(sid(session), CHILD)
    await service.rewind(sid(session), Boundary(by=1))
    await service.undo(sid(session))
    await service.redo(sid(session))
    await service.fork_session(sid(session), new_id(2), stage=True)
    await service.promote_session(new_id(2))
    # What is told after something that comes later was not told twice before it.
    last = told(world, "the last", seed=70)
    await news.of(sid(last), "appended")
    assert news.reasons(CHILD) == ["forked"]
    assert news.reasons(sid(session)) == ["rewound", "restored", "rewound"]
    assert news.reasons(new_id(2)) == ["forked"]
    assert [c.forked_from for c in news.heard if c.reason == "forked"] == [sid(session)] * 2


async def test_taking_a_fork_away_and_bringing_it_back_is_told(
    news: News, service: Service, session: Transcript
) -> None:
    forked = await service.fork_session(sid(session), CHILD)
    await service.undo(operation_id=forked.operation_id)
    await news.of(CHILD, "removed")
    await service.redo(operation_id=forked.operation_id)
    await news.of(CHILD, "restored")


async def test_a_subagents_file_is_told_as_the_subagents(
    news: News, session: Transcript, world: World
) -> None:
    t = Transcript(str(world.cwd), session_id=session.session_id, seed=80)
    t.prompt("go")
    t.subagent("look", "looked", agent_id="ab12")
    folder = session.path(world.store).with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-ab12.jsonl").write_bytes(t.files["subagents/agent-ab12.jsonl"])
    await news.of("claude-code:agent-ab12", "appended")


async def test_files_that_are_no_sessions_are_not_told(
    news: News, session: Transcript, world: World
) -> None:
    folder = session.path(world.store).parent
    (folder / "notes.jsonl").write_text("{}\n")
    (folder / "readme.txt").write_text("hello")
    (folder / ".turntree-x").mkdir()
    (folder / ".turntree-x" / f"{CHILD[12:]}.jsonl").write_text("{}\n")
    last = told(world, "the last", seed=70)
    await news.of(sid(last), "appended")
    assert {tuple(c.session_ids) for c in news.heard} == {(sid(last),)}


async def test_a_store_that_is_made_later_is_watched_too(service: Service, world: World) -> None:
    news = News(service)
    try:
        await asyncio.sleep(1.0)
        t = told(world, "the first ever")
        await news.of(sid(t), "appended")
        news.heard.clear()
        append(t, world, "more")
        await news.of(sid(t), "appended")
    finally:
        await news.close()


async def test_following_ends_when_the_service_closes(world: World) -> None:
    service = await Service.open(home=world.state)
    news = News(service)
    await asyncio.sleep(0.2)
    await service.close()
    async with asyncio.timeout(PATIENCE):
        await news._task


async def test_a_large_session_that_was_listed_is_counted_behind_and_told(
    news: News, service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd), seed=90)
    for number in range(4):
        t.turn(f"p{number}", "x" * 200_000)
    t.write(world.store)
    await news.of(sid(t), "appended")
    service.index_behind()
    page = await service.list_sessions(query="p0")
    assert [s.turn_count for s in page.sessions] == [None]
    await news.of(sid(t), "changed")
    page = await service.list_sessions(query="p0")
    assert [s.turn_count for s in page.sessions] == [4]


@pytest.mark.parametrize("times", [1, 3])
async def test_many_changes_at_once_are_all_told(news: News, world: World, times: int) -> None:
    sessions = [told(world, "new", seed=200 + n) for n in range(20 * times)]
    for t in sessions:
        await news.of(sid(t), "appended")
    assert all(news.reasons(sid(t)).count("removed") == 0 for t in sessions)


async def until_watched(service: Service) -> None:
    async with asyncio.timeout(PATIENCE):
        while service.context.catalog.quiet_since is None:
            await asyncio.sleep(0.02)
    await service.list_sessions()


async def test_a_listing_is_what_is_there_though_nothing_was_heard_yet(
    news: News, service: Service, world: World
) -> None:
    for seed in range(120):
        told(world, "old", seed=seed)
    kept = [told(world, f"kept {n}", seed=300 + n) for n in range(3)]
    await until_watched(service)
    for number in range(3):
        t = told(world, f"new {number}", seed=400 + number)
        listed = {s.session_id for s in (await service.list_sessions(limit=500)).sessions}
        assert sid(t) in listed
        kept[number].turn("more")
        kept[number].write(world.store)
        assert (await service.list_sessions(query=f"kept {number}")).sessions[0].turn_count == 2
        t.path(world.store).unlink()
        listed = {s.session_id for s in (await service.list_sessions(limit=500)).sessions}
        assert sid(t) not in listed
        await until_watched(service)


async def test_a_session_that_nobody_looked_at_is_listed_as_it_is_once_that_is_told(
    news: News, service: Service, world: World
) -> None:
    old = told(world, "old", seed=500)
    times = old.path(world.store)
    os.utime(times, (1_000_000_000, 1_000_000_000))
    for seed in range(2, 120):
        told(world, "newer", seed=seed)
    await until_watched(service)
    old.turn("more")
    old.write(world.store)
    os.utime(times, (1_000_000_001, 1_000_000_001))
    await news.of(sid(old), "appended")
    assert (await service.list_sessions(query=old.session_id)).sessions[0].turn_count == 2


async def test_what_this_process_changed_is_listed_at_once(
    news: News, service: Service, world: World
) -> None:
    old = told(world, "one", "two", seed=500)
    os.utime(old.path(world.store), (1_000_000_000, 1_000_000_000))
    for seed in range(2, 120):
        told(world, "newer", seed=seed)
    await until_watched(service)
    await service.rewind(sid(old), Boundary(by=1))
    assert (await service.list_sessions(query=old.session_id)).sessions[0].turn_count == 1
