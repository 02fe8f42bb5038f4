"""The words of all turns: a database of its own, `search-<schema>-<n>.db`, which may be lost.

The text itself is not kept, only where its words are (a contentless FTS5 table); what is shown
of a match is read from the session's file.  Rows of turns that are gone are dropped at once,
their words stay until they are half of all: then the whole is built anew beside the old one,
under the next number.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sqlite3
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from session import words
from session.errors import StorageError, Unsupported
from session.store.database import transaction
from session.store.native_files import NO_FILE, CachedFile, Identity
from session.store.texts import Known, Texts, TurnText
from session.store.unsigned import as_written, signed

_SCHEMA = 1
_BUSY_SECONDS = 5.0
_CHUNK = 4 << 20
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_FEW = 2_000
_NAME = re.compile(r"search-(\d+)-(\d+)\.db")
_TABLES = """
    CREATE TABLE files (
        file_id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        agent TEXT NOT NULL,
        device INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        size INTEGER NOT NULL,           -- 0: not all of it is indexed yet
        mtime_ns INTEGER NOT NULL,
        scanned INTEGER NOT NULL,
        guard BLOB NOT NULL
    ) STRICT;
    CREATE TABLE turns (
        turn INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: its words stay behind
        file_id INTEGER NOT NULL,
        place INTEGER NOT NULL,          -- offset of the prompt's line
        more BLOB NOT NULL,              -- distances from it to the lines of the answers
        turn_id TEXT NOT NULL,
        number INTEGER,                  -- NULL on an abandoned branch
        at TEXT NOT NULL
    ) STRICT;
    CREATE INDEX turns_file ON turns (file_id, place);
    CREATE VIRTUAL TABLE words USING fts5(
        prompt, answer, content='',
        tokenize="unicode61 remove_diacritics 0 categories 'L* N* Co M*'"
    );
    CREATE TABLE facts (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;
    INSERT INTO facts VALUES ('documents', 0);
"""


class Found(NamedTuple):
    """A turn whose words match."""

    path: str
    turn_id: str
    number: int | None
    places: list[int]


def require_fts5() -> None:
    """Raises Unsupported when this Python's SQLite cannot search text."""
    if not has_fts5():
        reason = "the SQLite of this Python is built without FTS5"
        raise Unsupported(
            f"Searching is not possible here: {reason}.",
            agent=None,
            operation="search_turns",
            reason=reason,
        )


@functools.cache
def has_fts5() -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5(word)")
        except sqlite3.OperationalError:
            return False
    return True


def open_to_write(home: Path) -> sqlite3.Connection:
    """The index, made when there is none; raises StorageError, Unsupported."""
    path = _path(home, _newest(home) or 1)
    try:
        return _opened(path)
    except sqlite3.Error as error:
        if discard_damaged(home, error):
            return open_to_write(home)
        raise storage_error(error, path.parent) from error


def open_to_read(home: Path) -> sqlite3.Connection | None:
    """The index, None when there is none that can be read."""
    number = _newest(home)
    if number is None:
        return None
    path = _path(home, number)
    # Where the directory may not be written, a log that no one has left is not looked for.
    tidy = not os.access(home, os.W_OK) and not os.path.exists(f"{path}-wal")
    connection = None
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro{'&immutable=1' if tidy else ''}",
            uri=True,
            isolation_level=None,
            timeout=_BUSY_SECONDS,
        )
        if connection.execute("PRAGMA user_version").fetchone() == (_SCHEMA,):
            return connection
    except sqlite3.Error:
        pass
    if connection is not None:
        connection.close()
    return None


def is_there(home: Path) -> bool:
    """Whether there is an index that can be read."""
    connection = open_to_read(home)
    if connection is not None:
        connection.close()
    return connection is not None


def storage_error(error: sqlite3.Error, path: Path) -> StorageError:
    return StorageError(
        f"Turntree's search index {path}: {error}. It may be deleted; it is made again.",
        path=str(path),
        errno=None,
    )


def states(connection: sqlite3.Connection | None) -> dict[str, Known]:
    """As of when each file's words are known; of one that is not done, NO_FILE."""
    if connection is None:
        return {}
    found = connection.execute(
        "SELECT path, device, inode, size, mtime_ns, scanned, guard FROM files"
    )
    return {row[0]: _known(row[1:]) for row in found}


def state(connection: sqlite3.Connection, path: str) -> Known | None:
    row = connection.execute(
        "SELECT device, inode, size, mtime_ns, scanned, guard FROM files WHERE path=?", (path,)
    ).fetchone()
    return None if row is None else _known(row)


def put(
    connection: sqlite3.Connection, path: str, agent: str, before: Known | None, texts: Texts
) -> bool:
    """Index what an agent found in a file whose state was `before`.

    Long files are written in several pieces, and count as done with the last one.  False, and
    nothing more is written, when another process was faster.
    """
    # While a file is in the making, this names who makes it.
    unfinished = Known(NO_FILE, int.from_bytes(os.urandom(7), "big"), b"")
    piece: list[TurnText] = []
    size, first = 0, True
    for turn in texts.turns:
        piece.append(turn)
        size += len(turn.prompt) + len(turn.answer)
        if size > _CHUNK:
            if not _put(connection, path, agent, before, unfinished, texts, piece, first):
                return False
            piece, size, first, before = [], 0, False, unfinished
    return _put(connection, path, agent, before, texts.known, texts, piece, first)


def _put(
    connection: sqlite3.Connection,
    path: str,
    agent: str,
    before: Known | None,
    after: Known,
    texts: Texts,
    turns: list[TurnText],
    first: bool,
) -> bool:
    with transaction(connection, durable=False):
        if state(connection, path) != before:
            return False
        (file_id,) = connection.execute(
            "INSERT INTO files (path, agent, device, inode, size, mtime_ns, scanned, guard)"
            " VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (path) DO UPDATE SET device=excluded.device,"
            " inode=excluded.inode, size=excluded.size, mtime_ns=excluded.mtime_ns,"
            " scanned=excluded.scanned, guard=excluded.guard RETURNING file_id",
            (path, agent, *map(signed, after.identity), after.scanned, after.guard),
        ).fetchone()
        if texts.whole and first:
            connection.execute("DELETE FROM turns WHERE file_id=?", (file_id,))
        for turn in turns:
            _put_turn(connection, file_id, turn, replace=not texts.whole)
        connection.execute("UPDATE facts SET number=number+? WHERE name='documents'", (len(turns),))
        if not texts.whole:
            _renumber(connection, file_id, texts.numbers)
    return True


def _put_turn(
    connection: sqlite3.Connection, file_id: int, turn: TurnText, *, replace: bool
) -> None:
    place, *rest = turn.places
    if replace:
        connection.execute("DELETE FROM turns WHERE file_id=? AND place=?", (file_id, place))
    more = array("q", (other - place for other in rest))
    cursor = connection.execute(
        "INSERT INTO turns (file_id, place, more, turn_id, number, at) VALUES (?,?,?,?,?,?)",
        (file_id, place, more.tobytes(), turn.turn_id, turn.number, turn.at),
    )
    connection.execute(
        "INSERT INTO words (rowid, prompt, answer) VALUES (?,?,?)",
        (cursor.lastrowid, words.indexable(turn.prompt), words.indexable(turn.answer)),
    )


def _renumber(connection: sqlite3.Connection, file_id: int, numbers: dict[int, int]) -> None:
    """Give turns that a rewind or a branch has moved their numbers."""
    found = connection.execute(
        "SELECT turn, place, number FROM turns WHERE file_id=?", (file_id,)
    ).fetchall()
    connection.executemany(
        "UPDATE turns SET number=? WHERE turn=?",
        [
            (numbers.get(place), turn)
            for turn, place, number in found
            if numbers.get(place) != number
        ],
    )


def forget(connection: sqlite3.Connection, paths: Sequence[str]) -> None:
    """Drop files that are gone."""
    with transaction(connection, durable=False):
        for path in paths:
            connection.execute(
                "DELETE FROM turns WHERE file_id=(SELECT file_id FROM files WHERE path=?)", (path,)
            )
            connection.execute("DELETE FROM files WHERE path=?", (path,))


def newest_turn(connection: sqlite3.Connection) -> int:
    (turn,) = connection.execute("SELECT coalesce(max(turn), 0) FROM turns").fetchone()
    return int(turn)


def find(
    connection: sqlite3.Connection,
    expression: str,
    paths: Sequence[str] | None,
    newest: int,
    offset: int,
    limit: int,
) -> list[Found]:
    """Turns that match, the best first, newer before older ones that are as good.

    Only of the files at `paths` (None: of all), and only turns up to `newest`.
    """
    among = "" if paths is None else " AND f.path IN (SELECT value FROM json_each(?))"
    rows = connection.execute(
        "SELECT f.path, t.turn_id, t.number, t.place, t.more FROM words"
        " JOIN turns t ON t.turn=words.rowid JOIN files f ON f.file_id=t.file_id"
        f" WHERE words MATCH ? AND t.turn <= ?{among}"
        " ORDER BY bm25(words, 4.0, 1.0), t.at DESC, t.turn DESC LIMIT ? OFFSET ?",
        (
            expression,
            newest,
            *(() if paths is None else (orjson.dumps(paths).decode(),)),
            limit,
            offset,
        ),
    )
    found = []
    for path, turn_id, number, place, more in rows:
        distances = array("q")
        distances.frombytes(more)
        places = [place, *(place + distance for distance in distances)]
        found.append(Found(path, turn_id, number, places))
    return found


def is_mostly_gone(connection: sqlite3.Connection) -> bool:
    """Whether most of the words are those of turns that are gone."""
    documents, turns = connection.execute(
        "SELECT (SELECT number FROM facts WHERE name='documents'), (SELECT count(*) FROM turns)"
    ).fetchone()
    return bool(documents - turns > max(turns, _FEW))


def open_successor(home: Path) -> sqlite3.Connection:
    """The database that will take the present one's place with `publish_successor`."""
    return _opened(_successor(home))


def publish_successor(home: Path, connection: sqlite3.Connection) -> None:
    """Close it, and let it be the index from now on."""
    # Without a log of its own a database is one file, which can get its name in one step.
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    number = _newest(home) or 0
    os.rename(_successor(home), _path(home, number + 1))
    tidy(home)


def tidy(home: Path) -> None:
    """Remove what a newer index has replaced."""
    newest = _newest(home) or 0
    for name in os.listdir(home):
        match = _NAME.match(name)
        if match and (int(match[1]), int(match[2])) < (_SCHEMA, newest):
            with contextlib.suppress(OSError):
                os.unlink(home / name)


def discard_damaged(home: Path, error: sqlite3.Error) -> bool:
    """Remove the newest index if `error` says that it is damaged: it is made again."""
    number = _newest(home)
    if number is None or getattr(error, "sqlite_errorname", "") not in _DAMAGED:
        return False
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            os.unlink(f"{_path(home, number)}{suffix}")
    return True


def stale(known: dict[str, Known], files: Sequence[CachedFile]) -> list[CachedFile]:
    """The files whose words are not known as they are now, newest first."""
    waiting = [
        file
        for file in files
        if file.kind != "subagent"
        and ((seen := known.get(file.path)) is None or not file.describes(seen.identity))
    ]
    return sorted(waiting, key=lambda file: file.changed_at, reverse=True)


def count_behind(home: Path, files: Sequence[CachedFile]) -> int:
    """How many files there are whose words are not known as they are now."""
    if not has_fts5():
        return 0
    connection = open_to_read(home)
    try:
        return len(stale(states(connection), files))
    finally:
        if connection is not None:
            connection.close()


def _opened(path: Path) -> sqlite3.Connection:
    require_fts5()
    # Used by one thread at a time, not always the same.
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False
    )
    try:
        with contextlib.suppress(OSError):
            path.chmod(0o600)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA journal_size_limit=4194304")
        if connection.execute("PRAGMA user_version").fetchone() != (_SCHEMA,):
            _make(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection) -> None:
    with transaction(connection, durable=False):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == _SCHEMA:
            return  # another process was faster
        for statement in _TABLES.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={_SCHEMA}")


def _newest(home: Path) -> int | None:
    with contextlib.suppress(OSError):
        found = (_NAME.fullmatch(name) for name in os.listdir(home))
        return max((int(m[2]) for m in found if m and int(m[1]) == _SCHEMA), default=None)
    return None


def _path(home: Path, number: int) -> Path:
    return home / f"search-{_SCHEMA}-{number}.db"


def _successor(home: Path) -> Path:
    return home / f"search-{_SCHEMA}-next.part"


def _known(row: tuple[int, int, int, int, int, bytes]) -> Known:
    identity = Identity._make(as_written(row[:4]))
    return Known(identity, row[4], row[5])
