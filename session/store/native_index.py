"""Indexes of native files, as the agents pack them, so that a file is read once.

Each is a cache: what is missing, or what its agent does not recognise, is made again from the
file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from session.store.unsigned import as_written, signed


class SavedIndex(NamedTuple):
    """The index of a file that had this identity, which comes first."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    path: str
    blob: bytes


_COLUMNS = ", ".join(SavedIndex._fields)


def load(connection: sqlite3.Connection, agent: str, path: str) -> SavedIndex | None:
    cursor = connection.cursor()
    cursor.row_factory = None
    query = f"SELECT {_COLUMNS} FROM native_index WHERE agent=? AND path=?"
    row = cursor.execute(query, (agent, path)).fetchone()
    return None if row is None else SavedIndex._make(as_written(row))


def save_within(connection: sqlite3.Connection, agent: str, indexes: Iterable[SavedIndex]) -> None:
    """Keep indexes, inside a transaction of the caller's."""
    holes = ", ".join("?" * len(SavedIndex._fields))
    connection.executemany(
        f"INSERT OR REPLACE INTO native_index (agent, {_COLUMNS}) VALUES (?, {holes})",
        [(agent, signed(index.device), signed(index.inode), *index[2:]) for index in indexes],
    )


def forget_within(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    connection.executemany("DELETE FROM native_index WHERE path=?", [(p,) for p in paths])
