"""What the tests with the real program have in common: recordings, forks, conversations."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Self

from attrs import define

from tests.client import Client
from tests.rig.claude import Claude
from tests.rig.model import Request
from tests.world import World

Conversation = list[tuple[str, str, str]]


@define(frozen=True)
class Recorded:
    """A session that the real program recorded in `world`, and what it sent meanwhile."""

    world: World
    id: str
    requests: tuple[Request, ...]

    @classmethod
    def talk(cls, claude: Claude, world: World, *prompts: str) -> Self:
        native_id = claude.talk(world.cwd, *prompts)
        return cls(world, native_id, tuple(claude.model.mains()))

    @property
    def path(self) -> Path:
        return path_of(self.world, self.id)

    def before(self, prompt: str, *, in_copy: str | None = None) -> Conversation:
        """The conversation that the session itself sent before a prompt.

        `in_copy`: the id of a copy, as whose conversation it is told: a summary names its file.
        """
        said = before_prompt(next(r for r in self.requests if r.newest == prompt))
        return [
            (role, kind, text.replace(self.id, in_copy or self.id)) for role, kind, text in said
        ]

    def copied(self) -> str:
        """Lay a copy beside it, for a test that writes; returns the copy's native id."""
        native_id = new_id()
        text = self.path.read_text().replace(self.id, native_id)
        self.path.with_name(f"{native_id}.jsonl").write_text(text)
        return native_id


def path_of(world: World, native_id: str) -> Path:
    return next((world.store / "projects").glob(f"*/{native_id}.jsonl"))


def session_id(native: str) -> str:
    return f"claude-code:{native}"


def new_id() -> str:
    return str(uuid.uuid4())


def fork(server: Client, source: str, turn_number: int | None, **more: Any) -> dict[str, Any]:
    """Fork the session with native id `source` after a turn (None: the latest)."""
    at = {"latest": True} if turn_number is None else {"turn_number": turn_number}
    result: dict[str, Any] = server.fork_session(
        **{"session_id": session_id(source), "new_session_id": new_id(), "at": at, **more}
    )
    return result


def native(session: dict[str, Any]) -> str:
    """The agent's own id of a Session."""
    return str(session["session_id"]).removeprefix("claude-code:")


def before_prompt(request: Request) -> Conversation:
    """What a request held before its newest prompt: what the source sends at that point."""
    said = request.said()
    assert said[-1] == ("user", "text", request.newest)
    return said[:-1]


def asked(prompt: str) -> tuple[str, str, str]:
    return ("user", "text", prompt)
