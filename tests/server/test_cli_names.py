"""What a person types, and the id that is meant."""

from __future__ import annotations

from typing import Any

import pytest

from server.commands import names
from session.errors import InvalidParams, SessionNotFound, Unsupported
from session.model import Boundary, SessionPage
from session.service import Service
from tests.builders import Transcript
from tests.server.program import conversation
from tests.world import World


class Counted(Service):
    """The engine, counting how often it lists sessions."""

    listings = 0

    async def list_sessions(self, **options: Any) -> SessionPage:
        self.listings += 1
        return await super().list_sessions(**options)


async def opened(world: World) -> Counted:
    service = await Counted.open(home=world.state)
    assert isinstance(service, Counted)
    return service


async def test_a_full_uuid_costs_no_listing(world: World) -> None:
    native = conversation(world)
    service = await opened(world)
    try:
        for name in (native, f"claude-code:{native}"):
            assert await names.session(service, name) == f"claude-code:{native}"
        assert service.listings == 0
        assert await names.session(service, native[:6]) == f"claude-code:{native}"
        assert service.listings == 1
    finally:
        await service.close()


async def test_a_prefix_is_looked_for_on_every_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "PAGE", 2)
    natives = [conversation(world, 1, seed=seed) for seed in range(5)]
    service = await opened(world)
    try:
        for native in natives:
            assert await names.session(service, native[:8]) == f"claude-code:{native}"
        for wrong in ("", "claude-code:"):
            with pytest.raises(SessionNotFound):
                await names.session(service, wrong)
        with pytest.raises((SessionNotFound, Unsupported)):
            await names.session(service, "codex:" + natives[0][:4])
    finally:
        await service.close()


async def test_digits_are_a_turn_number_unless_they_are_as_many_as_an_id_shows(
    world: World,
) -> None:
    ids = ["12345678-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"]
    transcript = Transcript(str(world.cwd))
    for number, id in enumerate(ids):
        transcript.prompt(f"question {number}", uuid=id)
        transcript.answer()
    transcript.write(world.store)
    session = f"claude-code:{transcript.session_id}"
    service = await opened(world)
    try:
        assert await names.turn(service, session, "2") == ids[1]
        assert await names.turn(service, session, "12345678") == ids[0]
        before = await names.boundary(service, session, before="2")
        assert before == Boundary(turn_number=1)
        assert await names.boundary(service, session, before="22222222") == Boundary(
            before_turn=ids[1]
        )
        assert await names.boundary(service, session) == Boundary(latest=True)
    finally:
        await service.close()


async def test_a_turn_prefix_that_two_turns_share_is_refused_with_both(world: World) -> None:
    ids = [f"abcdef00-0000-4000-8000-00000000000{n}" for n in (1, 2)]
    transcript = Transcript(str(world.cwd))
    for id in ids:
        transcript.prompt("question", uuid=id)
        transcript.answer()
    transcript.write(world.store)
    service = await opened(world)
    try:
        with pytest.raises(InvalidParams) as refused:
            await names.turn(service, f"claude-code:{transcript.session_id}", "abc")
        assert refused.value.data["candidates"] == ids
    finally:
        await service.close()
