"""Indexing what listings have only glanced at: the counts of every session, the newest first,
and after them the words of all turns.

One file after the other, each outside the cache of sessions that somebody asked for.  What is
learnt is committed as it comes, so that whoever goes on after a death does none of it again,
and so that no request ever waits for the database longer than one such commit takes.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from session import osfile
from session.agents.base import Agent
from session.catalog import Catalog
from session.errors import Cancelled, StorageError
from session.faults import fault
from session.store import native_files, native_index, search
from session.store.database import Store
from session.store.native_files import CachedFile, Identity
from session.store.native_index import SavedIndex
from session.store.texts import Known, Texts
from session.values import value
from session.work import Work, pause

_COMMIT_SECONDS = 0.1
_COMMIT_FILES = 100
_TELL_SECONDS = 1.0
_POLL_SECONDS = 0.3


@value
class Step:
    """Progress: the files of an agent that were indexed since the last one was told."""

    agent: str
    paths: list[str]
    done: int
    total: int


Tell = Callable[[Step], None]


class Lease:
    """The right to index behind, which one process of a home has at a time.

    The system takes it back from a process that dies.
    """

    def __init__(self, home: Path) -> None:
        path = home / "indexing.lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> bool:
        """Without waiting; False when another process has it."""
        return osfile.try_lock(self._fd)

    def give_back(self) -> None:
        os.close(self._fd)


class Indexer:
    """Indexes everything that is not; `tell` hears of it once a second or so."""

    def __init__(self, catalog: Catalog, store: Store, tell: Tell) -> None:
        self._catalog = catalog
        self._store = store
        self._tell = tell

    async def run_alone(self, work: Work) -> None:
        """`run`, once no other process does it; raises StorageError, Cancelled."""
        lease = Lease(self._store.path.parent)
        try:
            while not lease.take():
                if await self._is_done(work):
                    return
                await pause(_POLL_SECONDS)
            await self.run(work)
        finally:
            lease.give_back()

    async def _is_done(self, work: Work) -> bool:
        """Whether the process that has the lease has made everything ready; tells how far it is."""
        waiting = 0
        for agent in self._catalog.agents:
            files = (await self._catalog.scan(agent, work)).files
            left = search.count_behind(self._store.path.parent, files)
            total = sum(file.kind != "subagent" for file in files)
            self._tell(Step(agent.name, [], total - left, total))
            waiting += left
        return not waiting

    async def run(self, work: Work) -> None:
        """Raises StorageError when what was learnt cannot be kept, Cancelled."""
        for agent in self._catalog.agents:
            await self._count(agent, work)
        if not search.has_fts5():
            return
        for agent in self._catalog.agents:
            listing = await self._catalog.scan(agent, work)
            await self._index_words(agent, listing.files, work)

    async def _count(self, agent: Agent, work: Work) -> None:
        listing = await self._catalog.scan(agent, work)
        waiting = sorted(listing.unindexed, key=_changed_at)
        total = len(listing.files)
        entries: list[CachedFile] = []
        indexes: list[SavedIndex] = []
        news: list[str] = []
        committed = told = time.monotonic()
        while waiting:
            work.checkpoint()
            file = waiting.pop()
            entry, index = await self._index(agent, file, work)
            entries += [entry] if entry else []
            indexes += [index] if index else []
            news.append(file.path)
            now = time.monotonic()
            due = now - committed > _COMMIT_SECONDS or len(entries) >= _COMMIT_FILES
            if due or not waiting:
                await self._store.run(native_files.save, agent.name, entries, indexes, patient=True)
                fault("index.committed")
                entries, indexes = [], []
                committed = time.monotonic()
                if now - told > _TELL_SECONDS or not waiting:
                    self._tell(Step(agent.name, news, max(0, total - len(waiting)), total))
                    news = []
                    told = now

    async def _index(
        self, agent: Agent, file: CachedFile, work: Work
    ) -> tuple[CachedFile | None, SavedIndex | None]:
        try:
            saved = await self._store.run(native_index.load, agent.name, file.path)
            learnt = await work.in_thread(agent.index, Path(file.path), saved, work)
        except (StorageError, Cancelled):
            raise
        except FileNotFoundError:
            return None, None
        except Exception as error:
            # Whatever is wrong with a file, others wait for their turn, and it had its own.
            logging.getLogger(__name__).warning("%s cannot be indexed: %r", file.path, error)
            return agent.failed(file), None
        return learnt.entry, learnt.saved

    async def _index_words(self, agent: Agent, files: list[CachedFile], work: Work) -> None:
        home = self._store.path.parent
        connection = search.open_to_write(home)
        try:
            known = search.states(connection)
            present = {file.path for file in files}
            gone = [path for path in known.keys() - present if not os.path.lexists(path)]
            search.forget(connection, gone)
            total = sum(file.kind != "subagent" for file in files)
            await self._put_words(connection, agent, search.stale(known, files), total, work)
            if search.is_mostly_gone(connection):
                successor = search.open_successor(home)
                try:
                    everything = search.stale(search.states(successor), files)
                    await self._put_words(successor, agent, everything, total, work)
                except BaseException:
                    successor.close()
                    raise
                search.publish_successor(home, successor)
        except sqlite3.Error as error:
            raise search.storage_error(error, home) from error
        finally:
            connection.close()

    async def _put_words(
        self,
        connection: sqlite3.Connection,
        agent: Agent,
        waiting: list[CachedFile],
        total: int,
        work: Work,
    ) -> None:
        told = 0.0
        for done, file in enumerate(waiting, total - len(waiting) + 1):
            work.checkpoint()
            saved = await self._store.run(native_index.load, agent.name, file.path)
            await work.in_thread(index_words, connection, agent, file, work, saved)
            fault("index.worded")
            if time.monotonic() - told > _TELL_SECONDS or done == total:
                self._tell(Step(agent.name, [], done, total))
                told = time.monotonic()


def index_words(
    connection: sqlite3.Connection,
    agent: Agent,
    file: CachedFile,
    work: Work,
    saved: SavedIndex | None = None,
) -> None:
    """Index what was said in a file since it was indexed last; `saved` is its index, if kept.

    Raises sqlite3.Error, Cancelled.
    """
    before = search.state(connection, file.path)
    try:
        search.put(
            connection, file.path, agent.name, before, agent.texts(file, before, work, saved)
        )
    except (sqlite3.Error, Cancelled):
        raise
    except FileNotFoundError:
        return
    except Exception as error:
        # Whatever is wrong with a file, others wait for their turn, and it had its own.
        logging.getLogger(__name__).warning("%s cannot be searched: %r", file.path, error)
        nothing = Texts(Known(Identity(*file[:4]), 0, b""), True, {}, [])
        search.put(connection, file.path, agent.name, search.state(connection, file.path), nothing)


def _changed_at(entry: CachedFile) -> str:
    return entry.changed_at
