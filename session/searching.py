"""Searching turns: which match, whether they are still there, and how they read."""

from __future__ import annotations

import base64
import sqlite3
import zlib
from pathlib import Path

import orjson
from attrs import evolve

from session import words
from session.agents.base import Agent
from session.context import Context
from session.errors import InvalidParams
from session.indexer import index_words
from session.model import Indexing, Match, MatchPage
from session.store import search as database
from session.store.native_files import CachedFile
from session.store.search import Found
from session.store.texts import Known
from session.values import value
from session.work import Work

_ROUNDS = 3
"""How often a page is looked up again because files on it had changed."""


@value
class Order:
    """A request to search; `cwd` is a real path."""

    query: str
    cwd: str | None
    agents: list[str] | None
    session_id: str | None
    limit: int
    cursor: str | None


@value
class _Cursor:
    """Pins the query, and the newest turn that was indexed when it was first asked."""

    query: int
    newest: int
    offset: int


async def search(context: Context, order: Order, work: Work) -> MatchPage:
    """A page of matches from what is indexed; `session_id`'s session is, before it is looked at.

    Raises InvalidParams, SessionNotFound, StorageError, Unsupported.
    """
    database.require_fts5()
    terms = words.parsed(order.query)
    if not terms:
        raise InvalidParams(f"query: {order.query!r} holds no word to search for.", field="query")
    cursor = _read(order)
    _, below = await context.catalog.files(order.agents, order.cwd, work)
    wanted = None
    if order.session_id is not None:
        located = await context.catalog.find(order.session_id, "search_turns")
        wanted = str(located.path)
        below = [file for file in below if file[1].path == wanted]
    refusal = context.store.refusal
    if refusal is not None and not database.is_there(context.home):
        # An index in memory would have to be made of every session, by every process.
        raise refusal
    session = _Session(context.home, dict(_by_path(below)), refusal is None, work)
    page = await work.in_thread(session.page, order, terms, cursor, wanted is not None)
    if page.matches or cursor is not None:
        return page
    return evolve(page, searched=context.catalog.stores(order.agents))


def _by_path(
    files: list[tuple[Agent, CachedFile]],
) -> list[tuple[str, tuple[Agent, CachedFile]]]:
    return [(file.path, (agent, file)) for agent, file in files]


class _Session:
    """One search, on a thread of its own and with connections of its own.

    `files` are those to be searched, by path; `may_write` whether the index can be kept.
    """

    def __init__(
        self,
        home: Path,
        files: dict[str, tuple[Agent, CachedFile]],
        may_write: bool,
        work: Work,
    ) -> None:
        self._home = home
        self._files = files
        self._may_write = may_write
        self._work = work
        self._known: dict[str, Known] = {}
        self._numbers: dict[str, dict[int, int]] = {}

    def page(
        self,
        order: Order,
        terms: list[words.Term],
        cursor: _Cursor | None,
        first: bool,
    ) -> MatchPage:
        """The page; with `first` all of its files are brought up to date before."""
        if first:
            self._bring_up_to_date(list(self._files))
        place = cursor or _Cursor(_digest(order), 0, 0)
        found: list[Found] = []
        for _ in range(_ROUNDS):
            found, place = self._find(order, terms, cursor, place)
            changed = {row.path for row in found if not self._is_current(row.path)}
            if not changed or not self._may_write:
                break
            self._bring_up_to_date(sorted(changed))
        shown = found[: order.limit]
        matches = [match for row in shown if (match := self._match(row, terms)) is not None]
        more = len(found) > order.limit
        after = _Cursor(place.query, place.newest, place.offset + len(shown))
        files = [file for _, file in self._files.values()]
        waiting = len(database.stale(self._known, files))
        total = sum(file.kind != "subagent" for file in files)
        return MatchPage(
            matches=matches,
            next_cursor=_written(after) if more else None,
            indexing=Indexing(total - waiting, total) if waiting else None,
        )

    def _find(
        self, order: Order, terms: list[words.Term], cursor: _Cursor | None, place: _Cursor
    ) -> tuple[list[Found], _Cursor]:
        connection = database.open_to_read(self._home)
        if connection is None:
            return [], place
        try:
            self._known = database.states(connection)
            if cursor is None:
                place = _Cursor(place.query, database.newest_turn(connection), 0)
            found = database.find(
                connection,
                words.expression(terms),
                list(self._files),
                place.newest,
                place.offset,
                order.limit + 1,
            )
        except sqlite3.Error as error:
            if self._may_write and database.discard_damaged(self._home, error):
                return [], place
            raise database.storage_error(error, self._home) from error
        finally:
            connection.close()
        return found, place

    def _is_current(self, path: str) -> bool:
        known = self._known.get(path)
        return known is not None and self._files[path][1].describes(known.identity)

    def _bring_up_to_date(self, paths: list[str]) -> None:
        if not self._may_write or not paths:
            return
        connection = database.open_to_write(self._home)
        try:
            for path in paths:
                self._work.checkpoint()
                agent, file = self._files[path]
                known = database.state(connection, path)
                if known is None or not file.describes(known.identity):
                    index_words(connection, agent, file, self._work)
        except sqlite3.Error as error:
            raise database.storage_error(error, self._home) from error
        finally:
            connection.close()

    def _match(self, row: Found, terms: list[words.Term]) -> Match | None:
        agent, file = self._files[row.path]
        try:
            said = agent.said(row.path, row.turn_id, row.places)
            number = row.number
            if not self._is_current(row.path):
                if row.path not in self._numbers:
                    self._numbers[row.path] = agent.texts(file, None, self._work).numbers
                number = self._numbers[row.path].get(row.places[0])
        except OSError:
            return None
        if said is None:
            return None
        return Match(
            session_id=f"{agent.name}:{file.native_id}",
            turn_id=row.turn_id,
            turn_number=number,
            snippet=words.snippet(said, terms),
            title=file.title,
            updated_at=file.changed_at or None,
        )


def _digest(order: Order) -> int:
    asked = [order.query, order.cwd, order.agents, order.session_id]
    return zlib.crc32(orjson.dumps(asked))


def _written(cursor: _Cursor) -> str:
    fields = [cursor.query, cursor.newest, cursor.offset]
    return base64.urlsafe_b64encode(orjson.dumps(fields)).decode()


def _read(order: Order) -> _Cursor | None:
    if order.cursor is None:
        return None
    try:
        query, newest, offset = orjson.loads(base64.urlsafe_b64decode(order.cursor))
        cursor = _Cursor(int(query), int(newest), int(offset))
        good = cursor.query == _digest(order) and 0 <= cursor.offset < 1 << 40
    except (ValueError, TypeError):
        good = False
    if not good or not 0 <= cursor.newest < 1 << 62:
        raise InvalidParams(
            "cursor: not a cursor of search_turns with these parameters; leave it out to begin"
            " again.",
            field="cursor",
        )
    return cursor
