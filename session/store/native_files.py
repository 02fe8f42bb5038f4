"""The cache of what a listing shows of each native file, keyed by the file's identity.

A listing looks at every row, so rows are tuples and hold apart what it filters and sorts by;
the rest, `summary`, is unpacked for the few that it shows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from session.store import native_index
from session.store.database import transaction
from session.store.native_index import SavedIndex
from session.store.unsigned import as_written, signed


class Identity(NamedTuple):
    """Which bytes a file holds, as far as the file system tells."""

    device: int
    inode: int
    size: int
    mtime_ns: int


NO_FILE = Identity(0, 0, 0, 0)


class CachedFile(NamedTuple):
    """What is known of a file since it had this identity, which comes first.

    `changed_at` is the time that a listing is sorted by, `indexed` whether counts are known,
    `summary` JSON in the agent's words.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    path: str
    native_id: str
    kind: str
    title: str | None
    cwd: str | None
    last_cwd: str | None
    changed_at: str
    indexed: bool
    summary: bytes

    def describes(self, identity: Identity) -> bool:
        """Whether the file is still as it was."""
        return self[:4] == identity


Learnt = tuple[str, list[CachedFile], list[SavedIndex]]
"""An agent's name, what is known of files of its, and indexes of them: what `save` takes."""

_COLUMNS = ", ".join(CachedFile._fields)


def load(connection: sqlite3.Connection, agent: str) -> dict[str, CachedFile]:
    """All that is known of an agent's files, by path."""
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(f"SELECT {_COLUMNS} FROM native_files WHERE agent=?", (agent,))
    return {row[4]: CachedFile._make(as_written(row)) for row in cursor}


def load_some(connection: sqlite3.Connection, agent: str, paths: Sequence[str]) -> list[CachedFile]:
    """What is known of some of them."""
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(
        f"SELECT {_COLUMNS} FROM native_files WHERE agent=?"
        " AND path IN (SELECT value FROM json_each(?))",
        (agent, orjson.dumps(paths)),
    )
    return [CachedFile._make(as_written(row)) for row in cursor]


def save(
    connection: sqlite3.Connection,
    agent: str,
    files: Iterable[CachedFile],
    indexes: Iterable[SavedIndex] = (),
    *,
    patient: bool = False,
) -> None:
    with transaction(connection, durable=False, patient=patient):
        save_within(connection, agent, files, indexes)


def save_within(
    connection: sqlite3.Connection,
    agent: str,
    files: Iterable[CachedFile],
    indexes: Iterable[SavedIndex] = (),
) -> None:
    """`save` inside a transaction of the caller's."""
    native_index.save_within(connection, agent, indexes)
    holes = ", ".join("?" * len(CachedFile._fields))
    connection.executemany(
        f"INSERT OR REPLACE INTO native_files (agent, {_COLUMNS}) VALUES (?, {holes})",
        [(agent, signed(file.device), signed(file.inode), *file[2:]) for file in files],
    )


def forget(connection: sqlite3.Connection, paths: Sequence[str]) -> None:
    """Drop what is known of files that are gone, their indexes too."""
    with transaction(connection, durable=False, patient=False):
        native_index.forget_within(connection, paths)
        connection.executemany("DELETE FROM native_files WHERE path=?", [(p,) for p in paths])
