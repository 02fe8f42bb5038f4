"""Indexes of native files, as the agents pack them, so that a file is read once.

Each is a cache: what is missing, or what its agent does not recognise, is made again from the
file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from session.store.unsigned import as_written, signed

if TYPE_CHECKING:
    from array import array

Piece: TypeAlias = "bytes | bytearray | array[int]"
_WHOLE = 1 << 20
"""Bytes up to which an index is put together; larger ones are written piece by piece, since
SQLite makes two copies of what it is given whole."""


class SavedIndex(NamedTuple):
    """The index of a file that had this identity, which comes first; as one run of bytes, in
    pieces that need not lie behind each other in memory."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    path: str
    pieces: Sequence[Piece]

    @property
    def length(self) -> int:
        return sum(memoryview(piece).nbytes for piece in self.pieces)


_COLUMNS = "device, inode, size, mtime_ns, path, blob"


def load(connection: sqlite3.Connection, agent: str, path: str) -> SavedIndex | None:
    cursor = connection.cursor()
    cursor.row_factory = None
    query = f"SELECT {_COLUMNS} FROM native_index WHERE agent=? AND path=?"
    row = cursor.execute(query, (agent, path)).fetchone()
    return None if row is None else SavedIndex._make((*as_written(row[:5]), [row[5]]))


def save_within(connection: sqlite3.Connection, agent: str, indexes: Iterable[SavedIndex]) -> None:
    """Keep indexes, inside a transaction of the caller's."""
    for index in indexes:
        identity = (signed(index.device), signed(index.inode), *index[2:5])
        size = index.length
        if size <= _WHOLE:
            connection.execute(_INSERT.format("?"), (agent, *identity, b"".join(index.pieces)))
            continue
        row = connection.execute(_INSERT.format("zeroblob(?)"), (agent, *identity, size)).lastrowid
        with connection.blobopen("native_index", "blob", row or 0) as blob:
            for piece in index.pieces:
                blob.write(piece)


_INSERT = f"INSERT OR REPLACE INTO native_index (agent, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, {{}})"


def forget_within(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    connection.executemany("DELETE FROM native_index WHERE path=?", [(p,) for p in paths])
