"""Small words for tests of the service: sessions in a world's store, and what is told of them."""

from __future__ import annotations

import uuid

from session.model import Turn
from session.service import Service
from tests.builders import Transcript
from tests.world import World


def told(world: World, *prompts: str, seed: int = 1, cwd: str | None = None) -> Transcript:
    """A session of the world's project with these turns, written."""
    t = Transcript(cwd or str(world.cwd), seed=seed)
    for prompt in prompts:
        t.turn(prompt, f"answer to {prompt}")
    t.write(world.store)
    return t


def sid(t: Transcript) -> str:
    """The id by which the service knows the session."""
    return f"claude-code:{t.session_id}"


def new_id(number: int = 1) -> str:
    """An id for a child, with the agent's prefix."""
    return f"claude-code:{uuid.UUID(int=0xC41D0000 + number, version=4)}"


async def turns(service: Service, session_id: str) -> list[Turn]:
    """All turns of the active branch."""
    return (await service.list_turns(session_id, limit=500)).turns


async def prompts(service: Service, session_id: str) -> list[str]:
    return [turn.prompt for turn in await turns(service, session_id)]


async def titles(service: Service, **filters: object) -> list[str | None]:
    """Titles of the sessions that are listed, in their order."""
    page = await service.list_sessions(**filters)  # type: ignore[arg-type]
    return [session.title for session in page.sessions]
