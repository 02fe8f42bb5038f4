"""Every method of the protocol that the engine answers, in one table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from attrs import AttrsInstance, define

from server import messages
from server.checking import read
from server.engine import Engine
from server.progress import Progress
from server.stdio import Stdio
from server.transport import NOT_YET
from session.service import Service

_READS_AT_ONCE = 16


@define(frozen=True)
class Verb:
    """What a method takes, and the coroutine of the engine that answers it.

    `reports`: it tells its progress.  `reads`: it waits for nothing but the store, so that
    only so many need to run at once.  `at_once`: it hardly ever waits for anything, and may
    begin again when it would.
    """

    params: type[AttrsInstance]
    call: Callable[..., Coroutine[Any, Any, Any]]
    reports: bool = False
    reads: bool = False
    at_once: bool = False


VERBS: dict[str, Verb] = {
    "list_sessions": Verb(messages.ListSessions, Service.list_sessions, reads=True),
    "get_session": Verb(messages.GetSession, Service.get_session, reads=True),
    "list_turns": Verb(messages.ListTurns, Service.list_turns, reports=True, reads=True),
    "list_branches": Verb(messages.ListBranches, Service.list_branches, reads=True),
    "read_turn": Verb(messages.ReadTurn, Service.read_turn, reads=True),
    "check_session": Verb(messages.CheckSession, Service.check_session, reports=True, reads=True),
    "search_turns": Verb(messages.SearchTurns, Service.search_turns, reads=True),
    "allocate_session_id": Verb(
        messages.AllocateSessionId, Service.allocate_session_id, at_once=True
    ),
    "fork_session": Verb(messages.ForkSession, Service.fork_session, reports=True),
    "repair_session": Verb(messages.RepairSession, Service.repair_session, reports=True),
    "promote_session": Verb(messages.PromoteSession, Service.promote_session),
    "discard_session": Verb(messages.DiscardSession, Service.discard_session),
    "rewind": Verb(messages.Rewind, Service.rewind, reports=True),
    "undo": Verb(messages.Undo, Service.undo),
    "redo": Verb(messages.Undo, Service.redo),
    "list_operations": Verb(
        messages.ListOperations, Service.list_operations, reads=True, at_once=True
    ),
}


class Methods:
    """The engine's verbs, ready to be called with a request's parameters."""

    def __init__(self, engine: Engine, stdio: Stdio) -> None:
        self._engine = engine
        self._stdio = stdio
        self._reading = asyncio.Semaphore(_READS_AT_ONCE)

    async def call(self, name: str, params: Any, progress: Progress | None = None) -> Any:
        """Answer the method `name`.  Raises `TurntreeError`, also for wrong `params`."""
        verb = VERBS[name]
        fields = messages.sent(read(verb.params, params))
        if verb.reports and progress is not None:
            fields["report"] = progress.report
        service = self._engine.opened or await self._engine.service()
        if not verb.reads:
            return await verb.call(service, **fields)
        # A client that sends faster than it reads must not fill the memory with results.
        async with self._reading:
            if self._stdio.congested:
                await self._stdio.drained()
            return await verb.call(service, **fields)

    def call_at_once(self, name: str, params: Any) -> Any:
        """Answer a method that waits for nothing, without a task; `NOT_YET` when it would wait."""
        service = self._engine.opened
        if service is None or self._stdio.congested:
            return NOT_YET
        verb = VERBS[name]
        coroutine = verb.call(service, **messages.sent(read(verb.params, params)))
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        coroutine.close()
        return NOT_YET
