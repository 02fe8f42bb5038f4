"""Which sessions there are: the agents' files, staged children, and who descends from whom."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve

from session import ids, osfile
from session.agents.base import Agent, History, Listing, Summary
from session.errors import InvalidParams, SessionNotFound, StorageError, Unsupported
from session.later import later
from session.model import (
    Finding,
    ForkedFrom,
    Indexing,
    Live,
    Resume,
    Searched,
    Session,
    SessionPage,
    Skipped,
)
from session.store import lineage, native_files, native_index, operations
from session.store.database import Store
from session.store.lineage import ForkRow
from session.store.native_files import NO_FILE, CachedFile, Learnt
from session.store.native_index import SavedIndex
from session.store.operations import OperationRow
from session.values import value
from session.work import Work, has_loop

if TYPE_CHECKING:
    import asyncio
else:
    # See `session.work.at_once`.
    asyncio = later("asyncio")


@value
class Located:
    """A session that was asked for by id.

    `path` is its file, or its staged file; None for one that exists only by its id.
    `row` is the operation that made it, where Turntree did.
    """

    session_id: str
    agent: Agent
    native_id: str
    path: Path | None
    row: OperationRow | None

    @property
    def staged(self) -> bool:
        return self.row is not None and self.row.state == "staged"

    def open(self, work: Work, saved: SavedIndex | None = None) -> History:
        """Index the file as it is now, from where `saved` ends.  Blocking; raises StorageError."""
        if self.path is None:
            intent: dict[str, Any] = self.row.intent if self.row else {}
            return self.agent.empty(self.native_id, intent.get("cwd"))
        with self._reading():
            return self.agent.open(self.path, native_id=self.native_id, work=work, saved=saved)

    def learn(self, work: Work, saved: SavedIndex | None) -> tuple[History, SavedIndex | None]:
        """As `open`; and the index, if it should be kept."""
        history = self.open(work, saved)
        kept = self.path is not None and not self.staged
        return history, self.agent.saved(history) if kept else None

    def known(self) -> History | None:
        """What `open` would give, when that needs no reading; else None.  Raises StorageError."""
        if self.path is None:
            return None
        with self._reading():
            return self.agent.known(self.path, native_id=self.native_id)

    def check(self, history: History, *, siblings: bool, work: Work) -> list[Finding]:
        """What is wrong with the session.  Blocking; raises StorageError."""
        with self._reading():
            return self.agent.check(history, siblings=siblings, work=work)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError.from_os(error, "Reading the session", str(self.path)) from error


@value
class Query:
    """The filters of list_sessions."""

    cwd: str | None
    query: str | None
    kinds: list[str]
    forked_from: str | None
    include_staged: bool


_Found: TypeAlias = tuple[str, Agent, CachedFile, ForkRow | None, OperationRow | None]
"""A session on a page: what it is sorted by, and what it is made of."""
_TRUSTED_SECONDS = 10.0
"""How long a listing is taken for what is there while no change is heard of."""
_QUICKLY = 8 << 20
"""Bytes of a page's sessions that are indexed before a command line shows them."""


class Catalog:
    """Finds and describes sessions; see the protocol's `Session`."""

    def __init__(self, store: Store, agents: dict[str, Agent]) -> None:
        self._store = store
        self._agents = agents
        self._loaded: set[str] = set()
        self._unindexed: dict[str, list[str]] = {}
        # Whether a listing came upon something since this was taken note of.
        self.has_news = False
        # When a watcher heard of the last change; None: nobody watches.
        self.quiet_since: float | None = None
        self._walked: dict[str, float] = {}
        self._orders: dict[str, tuple[list[CachedFile], dict[str, str], list[_Found]]] = {}
        self._keeping: set[asyncio.Task[None]] = set()

    @property
    def agents(self) -> list[Agent]:
        return list(self._agents.values())

    def agent_of(self, session_id: str, operation: str = "read") -> tuple[Agent, str]:
        name, native_id = ids.split(session_id)
        return self.agent(name, operation), native_id

    def agent(self, name: str, operation: str) -> Agent:
        if name not in self._agents:
            raise Unsupported(
                f"Sessions of {name} are not supported by this version; "
                f"supported: {', '.join(self._agents)}.",
                agent=name,
                operation=operation,
                reason="this version has no adapter for it",
            )
        return self._agents[name]

    async def find(self, session_id: str, operation: str = "read") -> Located:
        """Where a session is.  Raises SessionNotFound."""
        agent, native_id = self.agent_of(session_id, operation)
        row = await self._store.read(operations.of_child, session_id)
        path = agent.locate(native_id)
        if path is not None:
            if row is not None and row.state != "done":
                row = None
            return Located(session_id, agent, native_id, path, row)
        if row is not None and row.state == "staged":
            stage = row.intent["stage"]
            staged = Path(stage["folder"]) / "session" if stage["destination"] else None
            return Located(session_id, agent, native_id, staged, row)
        if row is not None and row.state == "done" and not row.intent["stage"]["destination"]:
            return Located(session_id, agent, native_id, None, row)
        raise SessionNotFound(f"There is no session {session_id}.", session_id=session_id)

    async def describe(self, located: Located, history: History) -> Session:
        """The `Session` of one that was opened: every count known."""
        fork = await self._store.read(lineage.fork_of, located.session_id)
        return self._session(located.agent, history.summary, history.open_in, fork, row=located.row)

    def _session(
        self,
        agent: Agent,
        summary: Summary,
        live: Live | None,
        fork: ForkRow | None,
        row: OperationRow | None = None,
        folders: dict[str, str] | None = None,
    ) -> Session:
        staged = row is not None and row.state == "staged"
        title, created = summary.title, summary.created_at
        if row is not None and title is None:
            title = row.intent.get("title")
        if fork is not None:
            created = fork.created_at
        elif row is not None:
            created = row.created_at
        resume = agent.resume(summary, folders)
        if staged:
            resume = Resume(
                resume.command, resume.cwd, resume.env, False, "it is staged: promote it first"
            )
        return Session(
            session_id=f"{agent.name}:{summary.native_id}",
            agent=agent.name,
            title=title,
            cwd=summary.cwd,
            last_cwd=summary.last_cwd,
            created_at=created,
            updated_at=summary.updated_at,
            turn_count=summary.turn_count,
            branch_count=summary.branch_count,
            revision=summary.revision,
            state=_state(summary, staged),
            kind=summary.kind,
            forked_from=_forked_from(agent, summary, fork, row),
            live=live,
            resume=resume,
            finding_count=summary.finding_count,
        )

    # Listing

    async def page(
        self, agents: list[str] | None, query: Query, limit: int, cursor: str | None, work: Work
    ) -> SessionPage:
        """A page, newest first."""
        after = _read_cursor(cursor)
        wanted = _Filter(query)
        forks = await self._store.run(lineage.all_forks)
        skipped: list[Skipped] = []
        total = pending = 0
        orders: list[list[_Found]] = []
        for agent in self._agents.values():
            if agents is not None and agent.name not in agents:
                continue
            listing = await self.scan(agent, work)
            skipped += listing.skipped
            total += len(listing.files)
            pending += len(listing.unindexed)
            orders.append(self._ordered(agent, listing.files, forks))
            unborn = await self._unborn(agent, listing.files, query)
            orders.append([_entry(agent, file, forks, row) for file, row in unborn])
        page: list[_Found] = []
        rest = False
        for entry in _merged(orders):
            if (after is None or entry[0] < after) and wanted(*entry[1:]):
                if len(page) == limit:
                    rest = True
                    break
                page.append(entry)
        found = bool(page)
        if pending and not has_loop():
            page = await self._counted(page, work)
        live = {agent.name: agent.live() for agent in self._agents.values()}
        folders: dict[str, str] = {}
        sessions = [
            self._session(
                agent,
                Summary.unpacked(file),
                live[agent.name].get(file.native_id),
                fork,
                row,
                folders,
            )
            for _, agent, file, fork, row in page
        ]
        empty = not found and after is None
        return SessionPage(
            sessions=sessions,
            next_cursor=page[-1][0] if rest else None,
            skipped=skipped,
            searched=self.stores(agents) if empty else None,
            indexing=Indexing(max(0, total - pending), total) if pending else None,
        )

    def _ordered(
        self, agent: Agent, files: list[CachedFile], forks: dict[str, ForkRow]
    ) -> list[_Found]:
        """Sessions with a file, newest first; sorted again only when there is something new."""
        made = {child: fork.created_at for child, fork in forks.items()}
        before = self._orders.get(agent.name)
        if before is None or before[0] is not files or before[1] != made:
            order = [_entry(agent, file, forks, None) for file in files]
            order.sort(key=itemgetter(0), reverse=True)
            before = self._orders[agent.name] = (files, made, order)
        return before[2]

    async def _counted(self, page: list[_Found], work: Work) -> list[_Found]:
        """The page with the counts of those of its sessions that are quick to count: nobody does
        it behind a command line."""
        left = _QUICKLY
        learnt: dict[str, CachedFile] = {}
        for _, agent, file, _, _ in page:
            if not file.indexed and file.path and file.size <= left:
                left -= file.size
                with contextlib.suppress(OSError):
                    entry = agent.index(Path(file.path), None, work).entry
                    if entry is not None and entry.native_id == file.native_id:
                        learnt[file.path] = entry
                        await self._keep(agent, [entry], [])
        return [
            (key, agent, learnt.get(file.path, file), fork, row)
            for key, agent, file, fork, row in page
        ]

    @property
    def unindexed(self) -> dict[str, list[str]]:
        """Files whose counts the newest listing did not know, by agent; no agent without one."""
        return {name: paths for name, paths in self._unindexed.items() if paths}

    def stores(self, agents: list[str] | None) -> list[Searched]:
        """Where sessions are looked for."""
        chosen = [a.info() for a in self.agents if agents is None or a.name in agents]
        return [Searched(info.agent, info.store, info.available) for info in chosen]

    async def scan(self, agent: Agent, work: Work) -> Listing:
        """All files of an agent, as they are now."""
        # The agent keeps what it learnt; the database is for the next process.
        cached = {}
        if agent.name not in self._loaded:
            cached = await self._store.run(native_files.load, agent.name)
            self._loaded.add(agent.name)
        walked = self._walked.get(agent.name)
        began = time.monotonic()
        watched = (
            self.quiet_since is not None
            and walked is not None
            and self.quiet_since < walked
            and began - walked < _TRUSTED_SECONDS
        )
        if not watched:
            self._walked[agent.name] = began
        listing = await work.in_thread(agent.listing, cached, work, watched=watched)
        self._unindexed[agent.name] = [entry.path for entry in listing.unindexed]
        self.has_news = self.has_news or bool(listing.changed or listing.gone)
        if listing.changed or listing.gone:
            keeping = self._keep(agent, listing.changed, listing.gone)
            if has_loop():
                # Nobody waits for it: what is not kept is learnt again.
                task = asyncio.ensure_future(keeping)
                self._keeping.add(task)
                task.add_done_callback(self._keeping.discard)
            else:
                await keeping
        return listing

    async def close(self) -> None:
        """Keep what was learnt last."""
        await asyncio.gather(*self._keeping)

    async def _keep(self, agent: Agent, changed: list[CachedFile], gone: list[str]) -> None:
        # The cache is only a cache: a full disk must not hide the sessions.
        with contextlib.suppress(StorageError):
            if changed:
                await self._store.run(native_files.save, agent.name, changed)
            if gone:
                await self._store.run(native_files.forget, gone)

    async def learn(self, name: str, paths: list[str]) -> list[str]:
        """Take over what another process has indexed of an agent's files; the ids of the sessions
        of which that is news."""
        entries = await self._store.run(native_files.load_some, name, paths)
        learnt = self._agents[name].learn(entries)
        known = {entry.path for entry in entries if entry.indexed}
        self._unindexed[name] = [p for p in self._unindexed.get(name, ()) if p not in known]
        return [f"{name}:{entry.native_id}" for entry in learnt]

    async def files(
        self, agents: list[str] | None, cwd: str | None, work: Work
    ) -> tuple[list[tuple[Agent, CachedFile]], list[tuple[Agent, CachedFile]]]:
        """All sessions that have a file, and those of them that are asked for, as in `page`."""
        wanted = _Filter(Query(cwd, None, ["main", "sdk", "subagent"], None, False))
        everything = [
            (agent, file)
            for agent in self._agents.values()
            for file in (await self.scan(agent, work)).files
        ]
        return everything, [
            (agent, file)
            for agent, file in everything
            if (agents is None or agent.name in agents) and wanted(agent, file, None, None)
        ]

    async def _unborn(
        self, agent: Agent, files: list[CachedFile], query: Query
    ) -> list[tuple[CachedFile, OperationRow | None]]:
        """Children without a file in the agent's store: staged ones, and empty forks."""
        rows = await self._store.run(operations.children_without_file)
        listed = {file.native_id for file in files} if rows else set()
        out: list[tuple[CachedFile, OperationRow | None]] = []
        for row in rows:
            name, native_id = ids.split(row.new_session_id or "")
            if name != agent.name or native_id in listed:
                continue
            staged = row.state == "staged"
            if staged and not query.include_staged:
                continue
            located = Located(row.new_session_id or "", agent, native_id, None, row)
            if row.intent["stage"]["destination"]:
                located = evolve(located, path=Path(row.intent["stage"]["folder"]) / "session")
            try:
                out.append((located.open(Work()).summary.packed(NO_FILE), row))
            except StorageError:
                continue
        return out

    async def titles(self, agent: Agent, work: Work) -> set[str | None]:
        """Titles of all sessions, staged ones too, so that a fork's is its own."""
        listing = await self.scan(agent, work)
        rows = await self._store.run(operations.children_without_file)
        return {file.title for file in listing.files} | {row.intent.get("title") for row in rows}

    async def index(self, located: Located, work: Work) -> History:
        """A session's file indexed as it is now, from where any process knows it; what that
        taught is kept.  Raises StorageError when the file cannot be read, never for a database
        that has nothing to say or takes nothing."""
        saved = None
        if located.path is not None and not located.agent.holds(located.path):
            with contextlib.suppress(StorageError):
                path = str(located.path)
                saved = await self._store.run(native_index.load, located.agent.name, path)
        history, index = await work.in_thread(located.learn, work, saved)
        learnt = self.learnt(located, history, index)
        if learnt is not None:
            with contextlib.suppress(StorageError):
                await self._store.run(native_files.save, *learnt)
        return history

    def learnt(
        self, located: Located, history: History, index: SavedIndex | None = None
    ) -> Learnt | None:
        """What indexing a file taught that the database does not know yet."""
        agent = located.agent
        entry = None if located.staged else agent.cache_entry(history)
        if entry is None and index is None:
            return None
        return agent.name, [entry] if entry else [], [index] if index else []


def _state(summary: Summary, staged: bool) -> str:
    if staged:
        return "staged"
    if summary.unreadable:
        return "unreadable"
    return "damaged" if summary.damaged else "ready"


def _forked_from(
    agent: Agent, summary: Summary, fork: ForkRow | None, row: OperationRow | None
) -> ForkedFrom | None:
    if fork is None and row is not None and "fork" in row.intent:
        fork = ForkRow(**row.intent["fork"])
    if fork is not None:
        return ForkedFrom(fork.parent, fork.turn_id, fork.turn_number)
    if summary.forked_from is not None:
        parent = f"{agent.name}:{summary.forked_from}"
        return ForkedFrom(parent, summary.forked_at, summary.forked_turn)
    return None


def _entry(
    agent: Agent, file: CachedFile, forks: dict[str, ForkRow], row: OperationRow | None
) -> _Found:
    session_id = f"{agent.name}:{file.native_id}"
    fork = forks.get(session_id)
    return f"{_sort_time(file, fork, row)}/{session_id}", agent, file, fork, row


def _merged(orders: list[list[_Found]]) -> list[_Found]:
    filled = [order for order in orders if order]
    if len(filled) == 1:
        return filled[0]
    everything = [entry for order in filled for entry in order]
    everything.sort(key=itemgetter(0), reverse=True)
    return everything


def _sort_time(file: CachedFile, fork: ForkRow | None, row: OperationRow | None) -> str:
    made = fork or row
    return max(file.changed_at, made.created_at) if made else file.changed_at


class _Filter:
    """Whether a session is one that was asked for."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._kinds = set(query.kinds)
        self._text = (query.query or "").casefold()
        self._below: dict[str | None, bool] = {None: False}

    def __call__(
        self, agent: Agent, file: CachedFile, fork: ForkRow | None, row: OperationRow | None
    ) -> bool:
        query = self._query
        return (
            file.kind in self._kinds
            and (query.cwd is None or self._is_below(file.cwd) or self._is_below(file.last_cwd))
            and (query.forked_from is None or self._descends(agent, file, fork, row))
            and (not self._text or self._mentions(file))
        )

    def _is_below(self, directory: str | None) -> bool:
        """Whether a directory is `cwd` or below it; many sessions have the same."""
        if directory not in self._below:
            assert directory is not None and self._query.cwd is not None
            cwd, inside = self._query.cwd, self._query.cwd.rstrip(os.sep) + os.sep
            self._below[directory] = any(
                path == cwd or path.startswith(inside)
                for path in (directory, osfile.real_path(directory))
            )
        return self._below[directory]

    def _descends(
        self, agent: Agent, file: CachedFile, fork: ForkRow | None, row: OperationRow | None
    ) -> bool:
        origin = _forked_from(agent, Summary.unpacked(file), fork, row)
        return origin is not None and origin.session_id == self._query.forked_from

    def _mentions(self, file: CachedFile) -> bool:
        first_prompt = Summary.unpacked(file).first_prompt
        texts = (file.title, first_prompt, file.cwd, file.native_id)
        return any(text and self._text in text.casefold() for text in texts)


def _read_cursor(cursor: str | None) -> str | None:
    """The key, `<time>/<session id>`, of the last session on the page before."""
    if cursor is not None and not ("/" in cursor and ":" in cursor.rpartition("/")[2]):
        raise InvalidParams(
            "cursor: not a cursor of list_sessions; leave it out to begin again.", field="cursor"
        )
    return cursor
