"""A process's way to Turntree's database: one connection for everything, one for small reads.

`Store.run(fn, …)` takes `fn(connection, …)` to the connection's own thread: one hop for as
many statements as a request needs.  `Store.read(fn, …)` needs no hop.  Everything that is
acknowledged is committed with `synchronous=FULL`; what a later step makes true again may use
`durable=False`.

Without an event loop (`session.work.at_once`) there is one connection and no thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from session import osfile
from session.errors import StorageError
from session.later import later
from session.store.schema import MIGRATIONS
from session.work import has_loop, pause

if TYPE_CHECKING:
    import asyncio
    import logging

    import aiosqlite
else:
    # A command that only looks runs without an event loop.
    aiosqlite = later("aiosqlite")
    asyncio = later("asyncio")
    logging = later("logging")

P = ParamSpec("P")
R = TypeVar("R")

_BUSY_SECONDS = 10.0
_UNWRITABLE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")
_CORRUPT = ("file is not a database", "malformed", "disk image")


class Store:
    """An open store; `refusal` is why nothing can be written to it, None when it can.

    A home that cannot be written (a read-only disk) still lets sessions be listed and read:
    the database is then opened for reading, or is one in memory where even that is refused,
    and every mutation raises `refusal`.
    """

    def __init__(self, path: Path, connection: _Connection, refusal: StorageError | None) -> None:
        self.path = path
        self.refusal = refusal
        self.notice: str | None = None
        self._connection = connection
        self._retired: list[_Connection] = []
        self._reader = _connect_reader(path) if refusal is None and has_loop() else None

    @classmethod
    async def open(cls, home: Path) -> Store:
        """Open or create `<home>/turntree.db`; raises `StorageError` for a newer schema."""
        path = home / "turntree.db"
        try:
            osfile.make_private(home)
            _require_access(home, path)
        except OSError as error:
            refusal = StorageError.from_os(error, "Opening Turntree's state directory")
            return cls(path, await _connect_to_read(path), refusal)
        try:
            return cls(path, await _connect(str(path)), None)
        except sqlite3.DatabaseError as error:
            if any(word in str(error) for word in _CORRUPT):
                return await cls._open_anew(path, error)
            refusal = _storage_error(error, path)
            if getattr(error, "sqlite_errorname", "").startswith(_UNWRITABLE):
                return cls(path, await _connect_to_read(path), refusal)
            raise refusal from error

    @classmethod
    async def _open_anew(cls, path: Path, damage: sqlite3.DatabaseError) -> Store:
        """Set a damaged database aside, unless another process did so meanwhile."""
        fd = os.open(path.with_name("turntree.db.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            while not osfile.try_lock(fd):
                await pause(0.02)
            with contextlib.suppress(sqlite3.DatabaseError):
                return cls(path, await _connect(str(path), check=True), None)
            aside = _set_aside(path)
            store = cls(path, await _connect(str(path)), None)
        finally:
            os.close(fd)
        store.notice = (
            f"Turntree's database was damaged ({damage}) and set aside as {aside}. A new one "
            "was made: sessions are listed from the agents' files, older undo is gone."
        )
        logging.getLogger(__name__).error(store.notice)
        return store

    async def close(self) -> None:
        # The last connection to close is the one that may tidy the log away.
        if self._reader is not None:
            self._reader.close()
        for connection in (*self._retired, self._connection):
            await connection.close()

    async def require_writable(self) -> None:
        """Raise the refusal, unless what was in the way is gone by now."""
        if self.refusal is None:
            return
        again = await Store.open(self.path.parent)
        if again.refusal is not None:
            await again.close()
            raise again.refusal
        self._take_over(again)
        self.refusal = None

    async def run(
        self, fn: Callable[Concatenate[sqlite3.Connection, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run `fn(connection, …)` on the database thread; it finishes even when cancelled."""
        # aiosqlite's public methods are one statement a hop; its queue takes any function.
        connection = self._connection
        hop = connection._execute
        try:
            result: R = await hop(fn, connection._conn, *args, **kwargs)
        except asyncio.CancelledError:
            # The thread takes one after the other, so what follows shows that `fn` has ended.
            with contextlib.suppress(Exception):
                await hop(_nothing)
            raise
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorname", "") in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
                await self._replace(connection, error)
            raise _storage_error(error, self.path) from error
        except (sqlite3.Error, ValueError) as error:
            raise StorageError(
                f"Turntree's database {self.path}: {error}. Try again.",
                path=str(self.path),
                errno=None,
            ) from error
        return result

    async def _replace(self, failed: _Connection, damage: sqlite3.DatabaseError) -> None:
        """Go on with a new database, for a damage that only a statement came upon."""
        if self.refusal is not None or self._connection is not failed:
            return
        fresh = await Store._open_anew(self.path, damage)
        if self._connection is failed:
            self._take_over(fresh)
            self.notice = fresh.notice or self.notice
        else:
            await fresh.close()

    def _take_over(self, other: Store) -> None:
        """Go on with another's connections; ours may still have work queued, so it stays open."""
        if self._reader is not None:
            self._reader.close()
        self._retired.append(self._connection)
        self._connection, self._reader = other._connection, other._reader

    async def read(
        self, fn: Callable[Concatenate[sqlite3.Connection, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run a `fn(connection, …)` that reads a few rows, at once on the caller's own thread.

        A reader never waits for a writer, and a few rows cost less than a hop to a thread and
        back.  What does not work like this at once (another process is putting the log in
        order) is done by `run`, which may wait and knows how to tell an error.
        """
        if self._reader is not None:
            with contextlib.suppress(sqlite3.Error):
                return fn(self._reader, *args, **kwargs)
        return await self.run(fn, *args, **kwargs)


def _nothing() -> None:
    pass


@contextlib.contextmanager
def transaction(
    connection: sqlite3.Connection, *, durable: bool = True, patient: bool = True
) -> Iterator[None]:
    """One write transaction; with `durable` it is on the disk when the block ends.

    Without `patient` it raises at once when another process is writing.
    """
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    if not patient:
        connection.execute("PRAGMA busy_timeout=0")
    try:
        connection.execute("BEGIN IMMEDIATE")
    finally:
        if not patient:
            connection.execute(f"PRAGMA busy_timeout={int(_BUSY_SECONDS * 1000)}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have rolled it back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _require_access(home: Path, path: Path) -> None:
    """Raises OSError when the directory or a file of the database may not be written."""
    for place in (home, path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        if os.path.exists(place) and not os.access(place, os.R_OK | os.W_OK):
            number = errno.EROFS if osfile.is_read_only(home) else errno.EACCES
            raise OSError(number, os.strerror(number), str(place))


async def _connect_to_read(path: Path) -> _Connection:
    """The existing database for reading, else an empty one in memory."""
    if os.path.exists(path):  # False, too, where it may not be known
        # Without its log a database is whole by itself; with it, a reader needs the log.
        way = "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"
        with contextlib.suppress(sqlite3.DatabaseError, StorageError):
            return await _connect(f"{path.as_uri()}?{way}", read_only=True)
    return await _connect(":memory:")


def _connect_reader(path: Path) -> sqlite3.Connection | None:
    """A second connection, of the calling thread, that never waits; None: do without."""
    with contextlib.suppress(sqlite3.Error):
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only=1")
        return connection
    return None


class _Here:
    """What `Store` needs of an aiosqlite connection, on the calling thread."""

    def __init__(self, path: str, **options: Any) -> None:
        self._conn = sqlite3.connect(path, **options)

    async def _execute(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return fn(*args, **kwargs)

    async def close(self) -> None:
        self._conn.close()


_Connection: TypeAlias = "aiosqlite.Connection | _Here"


async def _connect(path: str, *, read_only: bool = False, check: bool = False) -> _Connection:
    options: dict[str, Any] = {
        "isolation_level": None,
        "timeout": _BUSY_SECONDS,
        "uri": read_only,
    }
    connection = await _on_a_thread(path, options) if has_loop() else _Here(path, **options)
    try:
        await connection._execute(_prepare, connection._conn, Path(path), read_only)
        if check:
            await connection._execute(_require_sound, connection._conn)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _on_a_thread(path: str, options: dict[str, Any]) -> aiosqlite.Connection:
    connection = aiosqlite.connect(path, **options)
    # A thread that only waits for work must not keep a process alive that is on its way out.
    connection._thread.daemon = True
    return await connection


def _prepare(connection: sqlite3.Connection, path: Path, read_only: bool) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA busy_timeout={int(_BUSY_SECONDS * 1000)}")
    if read_only:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != len(MIGRATIONS):
            raise sqlite3.DatabaseError(f"schema {version} cannot be read as {len(MIGRATIONS)}")
        return
    if str(path) != ":memory:":
        _use_log(connection)
        with contextlib.suppress(OSError):
            path.chmod(0o600)
    migrate(connection, path)


def _use_log(connection: sqlite3.Connection) -> None:
    """Turn the write-ahead log on; SQLite does not wait there for another that does so."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _require_sound(connection: sqlite3.Connection) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date; refuse one that a newer Turntree has made."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(MIGRATIONS):
        return
    if version > len(MIGRATIONS):
        raise StorageError(
            f"{path} has schema {version}, made by a newer Turntree; this one knows "
            f"{len(MIGRATIONS)}. Upgrade Turntree, or set TURNTREE_HOME to another directory.",
            path=str(path),
            errno=None,
        )
    with transaction(connection):
        # Another process may have migrated while this one waited for the write lock.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for script in MIGRATIONS[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit the open transaction, so the script is fed by statement.
    pending = ""
    for line in script.splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _set_aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.damaged-{stamp}-{os.getpid()}")
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{aside}{suffix}")
    return aside


def _storage_error(error: sqlite3.Error, path: Path) -> StorageError:
    name = getattr(error, "sqlite_errorname", "")
    number = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_READONLY": errno.EROFS}.get(name)
    hint = {
        "SQLITE_BUSY": " Another program holds Turntree's database; try again.",
        "SQLITE_FULL": " The disk is full.",
    }.get(name, "")
    return StorageError(f"Turntree's database {path}: {error}.{hint}", path=str(path), errno=number)
