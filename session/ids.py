"""Session ids: `<agent>:<native id>`."""

from __future__ import annotations

from session.errors import InvalidParams, SessionNotFound

AGENTS = ("claude-code", "codex", "opencode", "gemini", "pi", "journal")


def split(session_id: str) -> tuple[str, str]:
    """(agent, native id); raises SessionNotFound for what can be no session's id."""
    agent, colon, native = session_id.partition(":")
    if not colon or agent not in AGENTS or not native:
        raise SessionNotFound(
            f"No session {session_id!r}: an id is <agent>:<native id>, with agent one of "
            f"{', '.join(AGENTS)}.",
            session_id=session_id,
        )
    return agent, native


def for_new(session_id: str, agent: str) -> str:
    """The native id that a caller allocated, given with or without the agent's prefix."""
    prefix, colon, native = session_id.partition(":")
    if not colon:
        return session_id
    if prefix != agent:
        raise InvalidParams(
            f"new_session_id: a fork of a {agent} session is a {agent} session, not {prefix!r}.",
            field="new_session_id",
        )
    return native
