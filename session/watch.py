"""Changes of sessions by any program, told once each.

The file system is watched with watchfiles.  What this process did itself is announced by the
verb that did it, with the exact reason; the file events that follow are recognised by the
file's state and not told again.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from session.catalog import Catalog
from session.later import later
from session.model import Change
from session.store.native_files import Identity
from session.work import Work

if TYPE_CHECKING:
    import asyncio

    import watchfiles
else:
    # Only a server follows changes.
    asyncio = later("asyncio")
    watchfiles = later("watchfiles")

_TAIL = 4096
_FIRST_SECONDS = 0.3


class Changes:
    """The source of `turntree/didChangeSessions`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._queue: asyncio.Queue[Change | None] | None = None
        self._stop: asyncio.Event | None = None
        self._waiting: set[tuple[tuple[str, ...], str, str | None]] = set()
        self._states: dict[Path, Identity] = {}

    @property
    def followed(self) -> bool:
        return self._queue is not None

    def announce(self, change: Change, path: Path | None = None) -> None:
        """Tell of a change that this process made to the file at `path`."""
        if self._queue is None:
            return
        if path is not None and (state := _state(path)) is not None:
            self._states[path] = state
        self._put(change)

    def _put(self, change: Change) -> None:
        """A change that waits to be told already need not wait twice."""
        key = (tuple(change.session_ids), change.reason, change.forked_from)
        if self._queue is not None and key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(change)

    def close(self) -> None:
        if self._stop is not None:
            self._stop.set()
        if self._queue is not None:
            self._queue.put_nowait(None)

    async def follow(self) -> AsyncIterator[Change]:
        """Changes as they happen, until `close`."""
        self._queue = asyncio.Queue()
        self._stop = asyncio.Event()
        watching = asyncio.ensure_future(self._watch(self._stop))
        try:
            while (change := await self._queue.get()) is not None:
                self._waiting.discard(
                    (tuple(change.session_ids), change.reason, change.forked_from)
                )
                yield change
        finally:
            self._queue = None
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, stop: asyncio.Event) -> None:
        agents = self._catalog.agents
        for agent in agents:
            for folder in agent.watched():
                await Work().in_thread(self._remember_all, folder)
        # To load the library and to set up the watch takes as long as a first answer may.
        await asyncio.sleep(_FIRST_SECONDS)
        try:
            await self._hear(stop)
        finally:
            self._catalog.quiet_since = None

    async def _hear(self, stop: asyncio.Event) -> None:
        agents = self._catalog.agents
        while not stop.is_set():
            places = {place for agent in agents for place in _watchable(agent.watched())}
            appeared = {p for agent in agents for p in agent.watched() if p.is_dir()}
            async for events in watchfiles.awatch(
                *places,
                stop_event=stop,
                recursive=True,
                watch_filter=None,
                debounce=200,
                step=50,
                rust_timeout=1000,
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                if self._catalog.quiet_since is None:
                    # What happened before this was watched.
                    for folder in appeared:
                        for path in await Work().in_thread(self._differing, folder):
                            self._tell(path)
                if events or self._catalog.quiet_since is None:
                    self._catalog.quiet_since = time.monotonic()
                for path in sorted({Path(name) for _, name in events}):
                    # What is written right after its directory was made may go unnoticed.
                    for found in sorted(path.rglob("*.jsonl")) if path.is_dir() else (path,):
                        self._tell(found)
                now = {p for agent in agents for p in agent.watched() if p.is_dir()}
                if now != appeared:
                    # A store was made, or went: watch what is there now.
                    for folder in now - appeared:
                        for path in sorted(folder.glob("*/*.jsonl")):
                            self._tell(path)
                    self._catalog.quiet_since = None  # until that is watched
                    break

    def _remember_all(self, folder: Path) -> None:
        for path, state in _states_below(folder):
            self._states.setdefault(path, state)

    def _differing(self, folder: Path) -> list[Path]:
        """Files that are not as they were when they were looked at last, or gone."""
        now = dict(_states_below(folder))
        known = self._states.copy()
        return [
            *(path for path, state in now.items() if known.get(path) != state),
            *(path for path in known.keys() - now.keys() if path.parent.parent == folder),
        ]

    def _tell(self, path: Path) -> None:
        for agent in self._catalog.agents:
            native_id = agent.session_of_path(path)
            if native_id is None or self._queue is None:
                continue
            before, now = self._states.get(path), _state(path)
            if now == before:
                return
            if now is None:
                self._states.pop(path, None)
            else:
                self._states[path] = now
            self._put(Change([f"{agent.name}:{native_id}"], *_reason(path, before, now)))


def _reason(path: Path, before: Identity | None, now: Identity | None) -> tuple[str, str | None]:
    """What happened to a file, as far as its state and its end tell."""
    if now is None:
        return "removed", None
    end = _end_of(path, now.size)
    if before is None:
        origin = _member(end, b'"forkedFrom":{"sessionId":"')
        return ("forked", f"claude-code:{origin}") if origin else ("appended", None)
    if now.inode != before.inode:
        return "changed", None
    if now.size < before.size:
        return "restored", None
    added = end[-(now.size - before.size) :] if now.size > before.size else b""
    if b'"type":"last-prompt"' in added and b'"rewound":true' in added:
        return "rewound", None
    return ("appended" if now.size > before.size else "changed"), None


def _member(text: bytes, start: bytes) -> str | None:
    at = text.rfind(start)
    if at < 0:
        return None
    return text[at + len(start) :].split(b'"', 1)[0].decode("utf-8", "replace")


def _end_of(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, size - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""


def _states_below(folder: Path) -> Iterator[tuple[Path, Identity]]:
    # Not by pathlib: a client's first request waits meanwhile.
    for project in _entries(str(folder)):
        for entry in _entries(project.path):
            if entry.name.endswith(".jsonl") and (state := _state(entry)) is not None:
                yield Path(entry.path), state


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # a file, or a directory that may not be read


def _state(path: Path | os.DirEntry[str]) -> Identity | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    if not S_ISREG(stat.st_mode):
        return None  # opening a FIFO would wait for someone to write
    return Identity(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _watchable(places: list[Path]) -> list[Path]:
    """Existing directories; for one that is not there yet, the nearest above it."""
    return [next(p for p in (place, *place.parents) if p.is_dir()) for place in places]
