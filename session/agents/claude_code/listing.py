"""What a listing shows of the store: what is known of each file, and what is new.

A file that was never seen is glanced at, or read whole where all such files are small; one that
is known is only compared with what it was.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from attrs import evolve

from session.agents.base import Listing, Summary
from session.agents.claude_code.store import ClaudeStore, NativeFile
from session.errors import Cancelled
from session.later import later
from session.model import Skipped
from session.store.native_files import CachedFile, Identity
from session.values import value
from session.work import Work

if TYPE_CHECKING:
    import logging

    from session.agents.claude_code import glance as glances
else:
    # Mostly all files are known.
    logging = later("logging")
    glances = later("session.agents.claude_code.glance")

_SMALL = 256 << 10
_AT_ONCE = 8 << 20
"""Small files that are no more than this together are indexed before a listing is answered."""
_FURTHER = 64 << 20
"""How far a listing reads beyond the ends of files, in all."""
_LIKELY = 50
"""How many of the files that were written last, and of those on the first page, are looked at
even when nothing was heard of them."""
_NOTHING = "none"
"""The kind of a file that holds no message."""


class Known:
    """The files of a store as this process knows them."""

    def __init__(
        self,
        store: ClaudeStore,
        index: Callable[[NativeFile, Work], CachedFile],
        is_open: Callable[[str], bool],
    ) -> None:
        """`index` reads a file whole; `is_open` says of which that costs nothing."""
        self._store = store
        self._index = index
        self._is_open = is_open
        self._known: dict[str, CachedFile] = {}
        self._last: _Last | None = None

    def knows(self, entry: CachedFile) -> bool:
        return self._known.get(entry.path) == entry

    def listing(
        self, cached: dict[str, CachedFile], work: Work, *, watched: bool = False
    ) -> Listing:
        """See `base.Agent`."""
        # What this process has seen itself is newer than what it remembers from others.
        if cached:
            self._known = cached | self._known
        known = self._known
        last = self._last
        if watched and last is not None and last.still_holds():
            return Listing(last.found, last.all_skipped, [], [], last.unindexed)
        skipped: list[Skipped] = []
        seen: list[CachedFile] = []
        fresh: list[NativeFile] = []
        readable = True
        folders = self._store.folders()
        for file in self._store.files(skipped, known):
            if type(file) is CachedFile:
                seen.append(file)
                continue
            assert isinstance(file, NativeFile)
            entry = known.get(file.path)
            if entry is None or file.readable:
                fresh.append(file)
            else:
                readable = False
                skipped.append(Skipped(file.path, os.strerror(errno.EACCES)))
                summary = evolve(Summary.unpacked(entry), unreadable=True)
                seen.append(summary.packed(file.identity))
        skipped.sort(key=lambda one: one.path)
        if last is not None and not fresh and readable and seen == last.files:
            self._last = evolve(last, folders=folders, walked=skipped)
            return Listing(last.found, skipped + last.skipped, [], [], last.unindexed)
        changed = list(self._look_at(fresh, skipped, work))
        for entry in changed:
            known[entry.path] = entry
        files = [*seen, *changed]
        last = self._last = _Last.of(files, folders, skipped)
        gone = []
        if len(known) > len(files):
            missing = known.keys() - {entry.path for entry in files}
            gone = [path for path in missing if not os.path.lexists(path)]
        for path in gone:
            known.pop(path, None)
        return Listing(last.found, skipped + last.skipped, changed, gone, last.unindexed)

    def _look_at(
        self, files: list[NativeFile], skipped: list[Skipped], work: Work
    ) -> Iterator[CachedFile]:
        """What files hold that are new, or not as they were: of all of them, the newest first."""
        files.sort(key=lambda file: file.identity.mtime_ns, reverse=True)
        small = sum(file.identity.size for file in files if file.identity.size <= _SMALL)
        if not files:
            return
        further = glances.Allowance(_FURTHER)
        for file in files:
            work.checkpoint()
            whole = file.identity.size <= _SMALL and small <= _AT_ONCE
            try:
                if whole or self._is_open(file.path):
                    yield self._index(file, work)
                else:
                    size = file.identity.size
                    summary = glances.glance(file.path, file.native_id, size, further)
                    yield (summary or nothing(file)).packed(file.identity)
            except Cancelled:
                raise
            except OSError as error:
                skipped.append(Skipped(file.path, error.strerror or str(error)))
            except Exception as error:
                # A fault of ours with one file must not hide the others.
                logging.getLogger(__name__).exception("%s cannot be read", file.path)
                skipped.append(Skipped(file.path, f"it cannot be understood ({error!r})"))

    def failed(self, entry: CachedFile) -> CachedFile:
        """See `base.Agent`."""
        summary = evolve(Summary.unpacked(entry), failed=True)
        noted = summary.packed(Identity(*entry[:4]))
        self.note(noted)
        return noted

    def note(self, entry: CachedFile) -> None:
        """Know this of a file from now on."""
        self._known[entry.path] = entry
        self._last = None

    def learn(self, entries: Iterable[CachedFile]) -> list[CachedFile]:
        """See `base.Agent`."""
        news = []
        for entry in entries:
            known = self._known.get(entry.path)
            if known != entry and (known is None or not known.indexed or known[2:4] != entry[2:4]):
                self.note(entry)
                news.append(entry)
        return news


@value
class _Last:
    """What a listing made of `files`: the next one mostly finds the same.

    `folders` are the store's, with their times; `walked` what was skipped on the way.
    """

    files: list[CachedFile]
    found: list[CachedFile]
    skipped: list[Skipped]
    unindexed: list[CachedFile]
    likely: list[CachedFile]
    folders: dict[str, int]
    walked: list[Skipped]

    @classmethod
    def of(cls, files: list[CachedFile], folders: dict[str, int], walked: list[Skipped]) -> _Last:
        found: dict[str, CachedFile] = {}
        skipped: list[Skipped] = []
        unindexed: list[CachedFile] = []
        for entry in files:
            if entry.kind == _NOTHING:
                skipped.append(Skipped(entry.path, "no readable message"))
                continue
            twin = found.setdefault(entry.native_id, entry)
            if twin is not entry:
                found[entry.native_id] = _larger(entry, twin, skipped)
            if not entry.indexed:
                unindexed.append(entry)
        written = sorted(files, key=lambda file: file.mtime_ns)[-_LIKELY:]
        spoken = sorted(files, key=lambda file: file.changed_at)[-_LIKELY:]
        likely = list({file.path: file for file in (*written, *spoken)}.values())
        return cls(files, list(found.values()), skipped, unindexed, likely, folders, walked)

    @property
    def all_skipped(self) -> list[Skipped]:
        return self.walked + self.skipped

    def still_holds(self) -> bool:
        """Whether the store is as it was, for one who would hear of it if it were not, but
        perhaps a moment later: folders and the files that change most are looked at."""
        try:
            return all(
                os.stat(folder).st_mtime_ns == time for folder, time in self.folders.items()
            ) and all(
                (state := os.stat(file.path)).st_mtime_ns == file.mtime_ns
                and state.st_size == file.size
                and state.st_ino == file.inode
                for file in self.likely
            )
        except OSError:
            return False


def nothing(file: NativeFile) -> Summary:
    """What is remembered of a file that holds no message, so that it is not read again."""
    return Summary(
        native_id=file.native_id,
        path=file.path,
        kind=_NOTHING,
        title=None,
        cwd=None,
        last_cwd=None,
        created_at=None,
        updated_at=None,
        turn_count=0,
    )


def _larger(one: CachedFile, other: CachedFile, skipped: list[Skipped]) -> CachedFile:
    """Which of two files with one id shows the session; the other goes to `skipped`."""
    loser, winner = sorted((one, other), key=lambda file: (file.size, file.mtime_ns))
    # A fork has copies of its source's subagents, under the same names.
    if not one.native_id.startswith("agent-"):
        skipped.append(Skipped(loser.path, f"another file with its id is larger: {winner.path}"))
    return winner
