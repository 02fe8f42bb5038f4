"""What holds for rewinding, undoing and forking any session through the service."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hypothesis import given, note, settings
from hypothesis import strategies as st

from session.model import Boundary
from session.service import Service
from tests.session.agents.claude_code.slow import Conversation
from tests.session.agents.claude_code.stories import MARK, Story, stories
from tests.session.examples import examples
from tests.session.telling import new_id, sid, turns
from tests.world import World, assert_untouched, store_hash


@asynccontextmanager
async def fresh_service(world: World) -> AsyncIterator[Service]:
    """A service on an empty store: a world is made once, examples are many."""
    shutil.rmtree(world.store, ignore_errors=True)
    with tempfile.TemporaryDirectory() as home:
        service = await Service.open(home=Path(home))
        try:
            yield service
        finally:
            await service.close()


async def ids(service: Service, session_id: str) -> list[str]:
    return [turn.turn_id for turn in await turns(service, session_id)]


def told(story: Story, world: World, version: str) -> Path:
    t = story.transcript
    t.records = [
        record.replace(b'"version":"2.1.197"', b'"version":"%s"' % version.encode())
        if isinstance(record, bytes)
        else record
        for record in t.records
    ]
    note(story.outline())
    return t.write(world.store)


versions = st.sampled_from(["2.1.197", "2.1.100"])


@settings(max_examples=examples(25))
@given(stories(), versions, st.lists(st.integers(0, 6), min_size=1, max_size=3))
async def test_rewinds_keep_the_first_turns_and_undo_gives_every_byte_back(
    world: World, story: Story, version: str, counts: list[int]
) -> None:
    async with fresh_service(world) as service:
        path = told(story, world, version)
        session_id = sid(story.transcript)
        states, kept = [path.read_bytes()], [await ids(service, session_id)]
        for count in counts:
            if count >= len(kept[-1]):
                continue
            result = await service.rewind(session_id, Boundary(turn_number=count))
            assert (result.status, result.turns.kept) == ("rewound", count)
            assert await ids(service, session_id) == kept[-1][:count]
            states.append(path.read_bytes())
            kept.append(kept[-1][:count])
        for state, before in list(zip(states, kept, strict=True))[-2::-1]:
            await service.undo(session_id)
            assert path.read_bytes() == state
            assert await ids(service, session_id) == before
        for after in kept[1:]:
            await service.redo(session_id)
            assert await ids(service, session_id) == after
        for _ in kept[1:]:
            await service.undo(session_id)
        assert path.read_bytes() == states[0]


@settings(max_examples=examples(20))
@given(stories(), versions, st.integers(0, 6))
async def test_a_rewound_session_goes_on_and_its_undo_keeps_what_was_said_since(
    world: World, story: Story, version: str, count: int
) -> None:
    async with fresh_service(world) as service:
        path = told(story, world, version)
        session_id = sid(story.transcript)
        before = await ids(service, session_id)
        if count >= len(before):
            return
        result = await service.rewind(session_id, Boundary(turn_number=count))
        assert result.session.turn_count == count
        leaf = (await service.list_branches(session_id)).branches[0].leaf_id or None
        said = _say_below(leaf, path, story)
        assert await ids(service, session_id) == [*before[:count], said]
        await service.undo(session_id)
        assert await ids(service, session_id) == before
        everything = (await service.list_turns(session_id, branch="all", limit=500)).turns
        assert {*before, said} <= {turn.turn_id for turn in everything}


def _say_below(leaf: str | None, path: Path, story: Story) -> str:
    from tests.builders import Transcript

    more = Transcript(story.transcript.cwd, session_id=path.stem, seed=4242)
    more.branch_from(leaf)
    turn_id = more.turn("said since", "heard")
    with path.open("ab") as file:
        file.write(more.dump())
    return turn_id


@settings(max_examples=examples(20))
@given(stories(), st.integers(0, 6), st.booleans())
async def test_a_fork_through_the_service_leaves_all_else_and_holds_no_dropped_text(
    world: World, story: Story, count: int, staged: bool
) -> None:
    async with fresh_service(world) as service:
        told(story, world, "2.1.197")
        session_id = sid(story.transcript)
        expected = await ids(service, session_id)
        if count > len(expected):
            return
        before = store_hash(world.store)
        await service.fork_session(
            session_id, new_id(), at=Boundary(turn_number=count), stage=staged
        )
        if staged:
            await service.promote_session(new_id())
        assert_untouched(before, world.store)
        assert await ids(service, new_id()) == expected[:count]
        allowed = Conversation(story).allowed(count)
        for path in (world.store / "projects").glob(f"*/{new_id()[12:]}*"):
            assert set(MARK.findall(path.read_bytes())) <= allowed
