"""What the tests with the real program have in common: forks, and whole conversations."""

from __future__ import annotations

import uuid
from typing import Any

from tests.client import Client
from tests.rig.model import Request

Conversation = list[tuple[str, str, str]]


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
