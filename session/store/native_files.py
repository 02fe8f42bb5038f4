"""The cache of what a listing shows of each native file, keyed by the file's identity."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from session.store.database import transaction
from session.values import value


@value
class Identity:
    """Which bytes a file holds, as far as the file system tells."""

    device: int
    inode: int
    size: int
    mtime_ns: int


@value
class CachedFile:
    path: str
    identity: Identity
    summary: bytes


def load(connection: sqlite3.Connection, agent: str) -> dict[str, CachedFile]:
    rows = connection.execute(
        "SELECT path, device, inode, size, mtime_ns, summary FROM native_files WHERE agent=?",
        (agent,),
    )
    return {row[0]: CachedFile(row[0], Identity(*row[1:5]), row[5]) for row in rows}


def save(connection: sqlite3.Connection, agent: str, files: Iterable[CachedFile]) -> None:
    with transaction(connection, durable=False, patient=False):
        connection.executemany(
            "INSERT OR REPLACE INTO native_files"
            " (path, agent, device, inode, size, mtime_ns, summary) VALUES (?,?,?,?,?,?,?)",
            [
                (
                    f.path,
                    agent,
                    _signed(f.identity.device),
                    _signed(f.identity.inode),
                    f.identity.size,
                    f.identity.mtime_ns,
                    f.summary,
                )
                for f in files
            ],
        )


def forget(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    with transaction(connection, durable=False, patient=False):
        connection.executemany("DELETE FROM native_files WHERE path=?", [(p,) for p in paths])


def _signed(value: int) -> int:
    # File systems hand out unsigned 64-bit numbers; SQLite's integers are signed.
    return value - (1 << 64) if value >= 1 << 63 else value
