"""The writer lock of a session: one per process and one across processes.

The file under `<home>/locks` is never unlinked (a lock file that is replaced would let two
holders in), is opened close-on-exec, and holds nothing: who holds the lock stands beside it,
so that it can be shown to whoever waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson

from session import osfile
from session.errors import SessionBusy, StorageError
from session.model import Holder

_POLL = 0.02


class Locks:
    """Writer locks under one home.  Order for callers: source before child, ids sorted."""

    def __init__(self, home: Path, program: str) -> None:
        self._folder = home / "locks"
        self._program = program
        self._local: dict[str, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def hold(self, session_id: str, wait_ms: int) -> AsyncIterator[None]:
        """Hold `session_id`'s writer lock; `SessionBusy` (with its holder) after `wait_ms`."""
        deadline = time.monotonic() + wait_ms / 1000
        local = self._local.setdefault(session_id, asyncio.Lock())
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic()) or None):
                if wait_ms == 0 and local.locked():
                    raise TimeoutError
                await local.acquire()
        except TimeoutError:
            raise self._busy(session_id) from None
        try:
            fd = self._open(session_id)
            try:
                while not osfile.try_lock(fd):
                    if time.monotonic() >= deadline:
                        raise self._busy(session_id)
                    await asyncio.sleep(_POLL)
                self._announce(session_id)
                yield
            finally:
                os.close(fd)
        finally:
            local.release()

    @contextlib.contextmanager
    def try_hold(self, session_id: str) -> Iterator[bool]:
        """Without waiting, for the sweep: yields whether the lock was got."""
        local = self._local.get(session_id)
        if local is not None and local.locked():
            yield False
            return
        fd = self._open(session_id)
        try:
            got = osfile.try_lock(fd)
            if got:
                self._announce(session_id)
            yield got
        finally:
            os.close(fd)

    def _open(self, session_id: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            with contextlib.suppress(FileNotFoundError):
                return os.open(self._path(session_id, "lock"), flags, 0o600)
            osfile.make_private(self._folder)
            return os.open(self._path(session_id, "lock"), flags, 0o600)
        except OSError as error:
            raise StorageError.from_os(error, f"Locking {session_id}") from error

    def _path(self, session_id: str, suffix: str) -> str:
        name = hashlib.sha256(session_id.encode()).hexdigest()[:40]
        return os.path.join(self._folder, f"{name}.{suffix}")

    def _announce(self, session_id: str) -> None:
        holder = {
            "pid": os.getpid(),
            "host": osfile.host(),
            "since": osfile.utc(),
            "program": self._program,
        }
        # Only shown to people, so a disk that is full here must not stop the work.  Written
        # over what was there: a file that is made empty first costs more than all the rest.
        path, data = self._path(session_id, "holder"), orjson.dumps(holder)
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                osfile.write_all(fd, data)
                if os.fstat(fd).st_size != len(data):
                    os.ftruncate(fd, len(data))
            finally:
                os.close(fd)

    def _busy(self, session_id: str) -> SessionBusy:
        holder = None
        with contextlib.suppress(OSError, ValueError, TypeError):
            holder = Holder(**orjson.loads(Path(self._path(session_id, "holder")).read_bytes()))
        who = f" by {holder.program} (pid {holder.pid} since {holder.since})" if holder else ""
        return SessionBusy(
            f"Session {session_id} is being written{who}. Try again, or wait longer (wait_ms).",
            holder=holder,
            alternative=None,
        )
