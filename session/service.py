"""The product: one method per verb of the protocol.  (Interface; bodies follow.)"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from session import model
from session.work import Report


class Service:
    """Everything a server or a command line can do with sessions.

    Open one per process with `await Service.open()`, close it with `await close()`.
    All methods are coroutines, raise `session.errors.TurntreeError` subclasses, and return
    `session.model` values.  Cancelling the awaiting task cancels the work up to its
    publish step; past that step the coroutine returns its result normally.
    """

    @classmethod
    async def open(cls, *, program: str = "turntree", home: Path | None = None) -> Service:
        """Open the store at `home` (default `$TURNTREE_HOME`, else the user's state directory).

        Cheap: creates the directory and database when absent; the start-up sweep is `sweep`.
        """
        raise NotImplementedError

    async def close(self) -> None: ...

    @staticmethod
    def agents() -> list[model.AgentInfo]:
        """What `initialize` advertises; touches no database."""
        raise NotImplementedError

    async def sweep(self) -> None:
        """Roll unfinished operations of dead processes forward or back; drop expired stages."""

    def changes(self) -> AsyncIterator[model.Change]:
        """Changes of sessions by any program, ours included; ends when the service closes."""
        raise NotImplementedError

    async def list_sessions(
        self,
        *,
        cwd: str | None = None,
        agents: list[str] | None = None,
        query: str | None = None,
        kinds: list[str] | None = None,
        forked_from: str | None = None,
        include_staged: bool = False,
        include_archived: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> model.SessionPage: ...

    async def get_session(self, session_id: str) -> model.OneSession: ...

    async def list_turns(
        self,
        session_id: str,
        *,
        order: str = "oldest",
        branch: str = "active",
        limit: int = 50,
        cursor: str | None = None,
        report: Report | None = None,
    ) -> model.TurnPage: ...

    async def list_branches(self, session_id: str) -> model.BranchList: ...

    async def read_turn(
        self, session_id: str, turn_id: str, *, max_bytes: int = 1 << 20, cursor: str | None = None
    ) -> model.TurnItems: ...

    async def allocate_session_id(self, agent: str) -> model.Allocated: ...

    async def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        at: model.Boundary | None = None,
        title: str | None = None,
        cwd: str | None = None,
        workspace: dict | None = None,
        stage: bool = False,
        bridge_gaps: bool = False,
        dry_run: bool = False,
        expect_revision: str | None = None,
        wait_ms: int = 2000,
        report: Report | None = None,
    ) -> model.ForkResult: ...

    async def promote_session(self, session_id: str, *, wait_ms: int = 2000) -> model.OneSession: ...

    async def discard_session(self, session_id: str, *, wait_ms: int = 2000) -> model.Discarded: ...

    async def rewind(
        self,
        session_id: str,
        to: model.Boundary,
        *,
        mode: str = "conversation",
        dry_run: bool = False,
        operation_id: str | None = None,
        expect_revision: str | None = None,
        wait_ms: int = 2000,
        report: Report | None = None,
    ) -> model.RewindResult: ...

    async def undo(
        self,
        session_id: str | None = None,
        *,
        operation_id: str | None = None,
        request_id: str | None = None,
        expect_revision: str | None = None,
        dry_run: bool = False,
        wait_ms: int = 2000,
    ) -> model.UndoResult: ...

    async def redo(
        self,
        session_id: str | None = None,
        *,
        operation_id: str | None = None,
        request_id: str | None = None,
        expect_revision: str | None = None,
        dry_run: bool = False,
        wait_ms: int = 2000,
    ) -> model.UndoResult: ...

    async def list_operations(
        self, *, session_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> model.OperationPage: ...
