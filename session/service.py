"""The product: one method per verb of the protocol, top-down, in the protocol's words."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from session import ids, osfile
from session.agents.base import Agent
from session.agents.claude_code.agent import ClaudeCode
from session.catalog import Catalog, Query
from session.context import Context
from session.errors import InvalidParams
from session.home import home as default_home
from session.later import later
from session.model import (
    AgentInfo,
    Allocated,
    Boundary,
    BranchList,
    Change,
    Discarded,
    FindingList,
    ForkResult,
    MatchPage,
    OneSession,
    OperationPage,
    RepairResult,
    RewindResult,
    SessionPage,
    TurnItems,
    TurnPage,
    UndoResult,
)
from session.store.database import Store
from session.store.operations import page as operation_page
from session.watch import Changes
from session.work import Report, Work, has_loop

if TYPE_CHECKING:
    from session import (
        forking,
        indexer,
        indexing,
        paging,
        repairing,
        rewinding,
        searching,
        undoing,
    )
else:
    # A command line uses one verb.
    forking = later("session.forking")
    indexer = later("session.indexer")
    indexing = later("session.indexing")
    paging = later("session.paging")
    repairing = later("session.repairing")
    rewinding = later("session.rewinding")
    searching = later("session.searching")
    undoing = later("session.undoing")


def _known_agents() -> dict[str, Agent]:
    return {agent.name: agent for agent in (ClaudeCode(),)}


class Service:
    """Everything a server or a command line can do with sessions.

    Open one per process with `await Service.open()`, close it with `await close()`.
    All methods are coroutines, raise `session.errors.TurntreeError` subclasses, and return
    `session.model` values.  Cancelling the awaiting task cancels the work up to its
    publish step; past that step the coroutine returns its result normally.
    """

    def __init__(self, store: Store, home: Path, program: str) -> None:
        catalog = Catalog(store, _known_agents())
        self.context = Context(store, catalog, Changes(catalog), home, program)
        self._indexing: indexing.Indexing | None = None

    @classmethod
    async def open(cls, *, program: str = "turntree", home: Path | None = None) -> Service:
        """Open the store at `home` (default `$TURNTREE_HOME`, else the user's state directory).

        Cheap: creates the directory and database when absent; the start-up sweep is `sweep`.
        """
        place = home or default_home()
        return cls(await Store.open(place), place, program)

    async def close(self) -> None:
        if self._indexing is not None:
            await self._indexing.close()
        self.context.changes.close()
        if has_loop():
            await self.context.catalog.close()
        await self.context.store.close()

    @staticmethod
    def agents() -> list[AgentInfo]:
        """What `initialize` advertises; touches no database."""
        return [agent.info() for agent in _known_agents().values()]

    async def sweep(self) -> None:
        """Roll unfinished operations of dead processes forward or back; drop expired stages."""
        for session_id in await self.context.operations.sweep():
            self.context.changes.announce(Change([session_id], "changed"))

    def index_behind(self) -> None:
        """Have everything indexed that is not, by a process of its own; from now on also what
        listings come upon.  What it learns is announced."""
        if self._indexing is None:
            context = self.context
            self._indexing = indexing.Indexing(
                context.store, context.catalog, context.changes, context.home
            )

    async def index(self, tell: indexer.Tell, work: Work | None = None) -> None:
        """Index everything that is not indexed, here and now, or wait while another process does.

        Raises StorageError when nothing can be kept.
        """
        await self.context.store.require_writable()
        made = indexer.Indexer(self.context.catalog, self.context.store, tell)
        await made.run_alone(work or Work())

    @property
    def notice(self) -> str | None:
        """What a person should be told once after opening, such as a damaged database."""
        return self.context.store.notice

    def changes(self) -> AsyncIterator[Change]:
        """Changes of sessions by any program, ours included; ends when the service closes."""
        return self.context.changes.follow()

    # Reading

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
    ) -> SessionPage:
        self._require_known(agents, "list_sessions")
        real = _real_directory(cwd)
        wanted = Query(real, query, kinds or ["main"], forked_from, include_staged)
        page = await self.context.catalog.page(agents, wanted, limit, cursor, Work())
        if self._indexing is not None and (page.indexing or self.context.catalog.has_news):
            self._indexing.want()
        return page

    async def get_session(self, session_id: str) -> OneSession:
        located, history = await self.context.open(session_id, Work())
        return OneSession(await self.context.catalog.describe(located, history))

    async def list_turns(
        self,
        session_id: str,
        *,
        order: str = "oldest",
        branch: str = "active",
        limit: int = 50,
        cursor: str | None = None,
        report: Report | None = None,
    ) -> TurnPage:
        work = Work(report)
        located, history = await self.context.open(session_id, work)
        session = await self.context.catalog.describe(located, history)
        return await work.in_thread(
            paging.turn_page, history, session, order, branch, limit, cursor
        )

    async def list_branches(self, session_id: str) -> BranchList:
        work = Work()
        _, history = await self.context.open(session_id, work)
        return BranchList(await work.in_thread(history.branches))

    async def read_turn(
        self, session_id: str, turn_id: str, *, max_bytes: int = 1 << 20, cursor: str | None = None
    ) -> TurnItems:
        work = Work()
        _, history = await self.context.open(session_id, work)
        turn, items, after = await work.in_thread(history.items, turn_id, max_bytes, cursor)
        return TurnItems(turn, items, after)

    async def check_session(
        self, session_id: str, *, include_siblings: bool = True, report: Report | None = None
    ) -> FindingList:
        """What is wrong with a session, or dangerous for it; nothing is written."""
        work = Work(report)
        located, history = await self.context.open(session_id, work)
        found = await work.in_thread(located.check, history, siblings=include_siblings, work=work)
        return FindingList(found)

    async def search_turns(
        self,
        query: str,
        *,
        cwd: str | None = None,
        agents: list[str] | None = None,
        session_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> MatchPage:
        self._require_known(agents, "search_turns")
        real = _real_directory(cwd)
        order = searching.Order(query, real, agents, session_id, limit, cursor)
        page = await searching.search(self.context, order, Work())
        if page.indexing is not None and self._indexing is not None:
            self._indexing.want()
        return page

    async def allocate_session_id(self, agent: str) -> Allocated:
        adapter = self.context.catalog.agent(agent, "allocate_session_id")
        return Allocated(f"{agent}:{adapter.new_id()}")

    async def list_operations(
        self, *, session_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> OperationPage:
        before = paging.read_number(cursor, "list_operations")
        return await self.context.store.read(operation_page, session_id, before, limit)

    # Forking

    async def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        at: Boundary | None = None,
        title: str | None = None,
        cwd: str | None = None,
        workspace: dict[str, Any] | None = None,
        stage: bool = False,
        bridge_gaps: bool = False,
        unsaved: list[str] | None = None,
        dry_run: bool = False,
        expect_revision: str | None = None,
        wait_ms: int = 2000,
        report: Report | None = None,
    ) -> ForkResult:
        agent, child = self._child_of(session_id, new_session_id, "fork_session")
        forking.require_supported(agent, workspace)
        order = forking.Order(
            session_id=session_id,
            child=child,
            at=at or Boundary(latest=True),
            title=forking.plain_title(title),
            cwd=cwd,
            stage=stage,
            bridge_gaps=bridge_gaps,
            request={
                "session_id": session_id,
                "at": at or Boundary(latest=True),
                "title": title,
                "cwd": cwd,
                "workspace": forking.asked_for(workspace),
                "stage": stage,
                "bridge_gaps": bridge_gaps,
                "unsaved": unsaved,
            },
        )
        result = await self._make_child(order, dry_run, expect_revision, wait_ms, Work(report))
        assert isinstance(result, ForkResult)
        return result

    async def repair_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        repairs: list[str] | None = None,
        strip_outputs_over: int | None = None,
        title: str | None = None,
        cwd: str | None = None,
        stage: bool = False,
        dry_run: bool = False,
        expect_revision: str | None = None,
        wait_ms: int = 2000,
        report: Report | None = None,
    ) -> RepairResult:
        """Fork all finished turns of the live branch, mended where the session is damaged."""
        _, child = self._child_of(session_id, new_session_id, "repair_session")
        order = forking.Order(
            session_id=session_id,
            child=child,
            at=Boundary(latest=True),
            title=forking.plain_title(title),
            cwd=cwd,
            stage=stage,
            bridge_gaps=False,
            repairs=repairing.chosen(repairs, strip_outputs_over),
            request={
                "verb": "repair_session",
                "session_id": session_id,
                "repairs": repairs,
                "strip_outputs_over": strip_outputs_over,
                "title": title,
                "cwd": cwd,
                "stage": stage,
            },
        )
        result = await self._make_child(order, dry_run, expect_revision, wait_ms, Work(report))
        assert isinstance(result, RepairResult)
        return result

    def _child_of(self, session_id: str, new_session_id: str, verb: str) -> tuple[Agent, str]:
        """The agent of a session, and the whole id of a child that it would take."""
        agent, _ = self.context.catalog.agent_of(session_id, verb)
        native_id = ids.for_new(new_session_id, agent.name)
        agent.check_new_id(native_id)
        return agent, f"{agent.name}:{native_id}"

    async def _make_child(
        self,
        order: forking.Order,
        dry_run: bool,
        expect_revision: str | None,
        wait_ms: int,
        work: Work,
    ) -> forking.Forked:
        if dry_run:
            return await forking.preview(self.context, order, expect_revision, work)
        await self.context.store.require_writable()
        async with self.context.operations.locks.hold(order.child, wait_ms):
            return await work.to_the_end(forking.fork(self.context, order, expect_revision, work))

    async def promote_session(self, session_id: str, *, wait_ms: int = 2000) -> OneSession:
        self.context.catalog.agent_of(session_id, "promote_session")
        work = Work()
        async with self.context.operations.locks.hold(session_id, wait_ms):
            return await work.to_the_end(forking.promote(self.context, session_id, work))

    async def discard_session(self, session_id: str, *, wait_ms: int = 2000) -> Discarded:
        self.context.catalog.agent_of(session_id, "discard_session")
        work = Work()
        async with self.context.operations.locks.hold(session_id, wait_ms):
            return await work.to_the_end(forking.discard(self.context, session_id, work))

    # Rewinding

    async def rewind(
        self,
        session_id: str,
        to: Boundary,
        *,
        mode: str = "conversation",
        on_conflict: str = "refuse",
        unsaved: list[str] | None = None,
        dry_run: bool = False,
        operation_id: str | None = None,
        expect_revision: str | None = None,
        wait_ms: int = 2000,
        report: Report | None = None,
    ) -> RewindResult:
        agent, _ = self.context.catalog.agent_of(session_id, "rewind")
        rewinding.require_supported(agent, mode)
        work = Work(report)
        order = rewinding.Order(session_id, to, operation_id, expect_revision)
        if dry_run:
            return await rewinding.preview(self.context, order, work)
        await self.context.store.require_writable()
        async with self.context.operations.locks.hold(session_id, wait_ms):
            return await work.to_the_end(rewinding.rewind(self.context, order, work))

    async def undo(
        self,
        session_id: str | None = None,
        *,
        operation_id: str | None = None,
        request_id: str | None = None,
        on_conflict: str = "refuse",
        unsaved: list[str] | None = None,
        expect_revision: str | None = None,
        dry_run: bool = False,
        wait_ms: int = 2000,
    ) -> UndoResult:
        order = undoing.Reversal("undo", session_id, operation_id, request_id, expect_revision)
        return await self._reverse(order, dry_run, wait_ms)

    async def redo(
        self,
        session_id: str | None = None,
        *,
        operation_id: str | None = None,
        request_id: str | None = None,
        on_conflict: str = "refuse",
        unsaved: list[str] | None = None,
        expect_revision: str | None = None,
        dry_run: bool = False,
        wait_ms: int = 2000,
    ) -> UndoResult:
        order = undoing.Reversal("redo", session_id, operation_id, request_id, expect_revision)
        return await self._reverse(order, dry_run, wait_ms)

    async def _reverse(self, order: undoing.Reversal, dry_run: bool, wait_ms: int) -> UndoResult:
        if order.session_id is None and order.operation_id is None:
            raise InvalidParams(
                "Give session_id (its newest rewind) or operation_id.", field="session_id"
            )
        if not dry_run:
            await self.context.store.require_writable()
        context, work = self.context, Work()
        guarded = await undoing.guarded_session(context, order)
        if dry_run:
            return await undoing.reverse(context, order, work, dry_run=True)
        async with context.operations.locks.hold(guarded, wait_ms):
            return await work.to_the_end(undoing.reverse(context, order, work, dry_run=False))

    # Shared by the verbs

    def _require_known(self, agents: list[str] | None, operation: str) -> None:
        """Raise Unsupported when this version knows none of the agents."""
        if agents is not None and not {a.name for a in self.context.catalog.agents} & {*agents}:
            for name in agents:
                self.context.catalog.agent(name, operation)


def _real_directory(cwd: str | None) -> str | None:
    """The directory below which sessions are asked for; a server has none of its own to be
    relative to."""
    if cwd is None:
        return None
    path = os.path.expanduser(cwd)
    if not os.path.isabs(path):
        raise InvalidParams(f"cwd: {cwd!r} is not an absolute path", field="cwd")
    return osfile.real_path(path)
