"""The index of one transcript file: its table of lines, and reading the lines themselves.

A session of a million lines costs tens of megabytes; text is read again from the file when it
is shown.  A file that only grew is indexed from where the last scan ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from session import osfile
from session.agents.claude_code import records
from session.agents.claude_code.branch import BranchTable
from session.agents.claude_code.records import KIND, TREE, Record
from session.agents.claude_code.store import is_session_id
from session.errors import StorageError
from session.store.native_files import Identity
from session.work import Work

_WINDOW = 1 << 20
LONGEST_LINE = 256 << 20
"""Bytes of the longest line that is read; the agent's own program holds no longer one."""
_GUARD = 256
_BOOKMARKED = 300_000
_COLUMNS = (
    "offsets",
    "ids",
    "parents",
    "kinds",
    "prompts",
    "prompt_parents",
    "prompt_ids",
    "chain",
    "turn_starts",
)


_windows = threading.local()


def identity_of(stat: os.stat_result) -> Identity:
    return Identity(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


class Transcript(BranchTable):
    """An indexed file.  `refresh` brings it up to date; everything else only reads."""

    def __init__(self, path: Path, session: str | None = None) -> None:
        """`session` is the session's id, where the file's name does not say it."""
        self.path = path
        self.session = session or path.stem
        self._reset()

    def _reset(self) -> None:
        self._restart(self._expected_ids)

    @property
    def _expected_ids(self) -> frozenset[str] | None:
        # A subagent's records carry its parent's id.
        return frozenset((self.session,)) if is_session_id(self.session) else None

    def _restart(self, own_ids: frozenset[str] | None) -> None:
        super().__init__(own_ids)
        self.identity: Identity | None = None
        self._guard = b""
        self.leaf_id: str | None = None
        self.earlier: Transcript | None = None
        self.kept_until = 0  # bytes of the file that a kept index describes

    # Scanning

    def refresh(self, work: Work | None = None) -> None:
        """Index what the file holds now: only what was added, unless it is not the same file.

        Raises OSError when it cannot be read.
        """
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            now = identity_of(os.fstat(fd))
            if now == self.identity:
                return
            if self.continues_in(fd, now):
                self._bookmark()
                self._detach()
                self.part_gaps()
            elif self.kinds and not self._go_back(fd, now):
                self._reset()
            indexed, foreign = len(self.kinds), len(self.foreign)
            self._scan(fd, now.size, work or Work())
            if self.own_ids != self._expected_ids and len(self.foreign) > foreign:
                # Who is foreign was judged before these came.
                self._reset()
                self._scan(fd, now.size, work or Work())
                indexed = 0
            while self._judge_again():
                self._scan(fd, now.size, work or Work())
                indexed = 0
            self.identity = now
            self.resolve(indexed)
            self.leaf_id = self._uuid_in(fd, self.leaf) if self.leaf >= 0 else None
        except BaseException:
            self._reset()
            raise
        finally:
            os.close(fd)

    def _judge_again(self) -> bool:
        """Whether it turned out wrong which records are the session's own; if so, begin anew."""
        others = self.misjudged
        if self.awaited is not None and self.has_own:
            self._reset()
        elif self.own_ids is None or others == frozenset():
            return False
        elif others is None:
            self._restart(None)
            self.awaited = self.session
        else:
            self._restart(self.own_ids | others)
        return True

    def is_current(self) -> bool:
        """Whether the file is as it was indexed; raises OSError when it cannot be read."""
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            return identity_of(os.fstat(fd)) == self.identity

    @contextlib.contextmanager
    def while_read(self) -> Iterator[None]:
        """What goes wrong in the block because the file is another one meanwhile is told so.

        Lines then are not where the table has them, which fails in as many ways as there are
        readers; a fault that has no such excuse is passed on.
        """
        try:
            yield
        except (StorageError, OSError):
            raise
        except Exception as fault:
            if self.is_rewritten():
                raise self.rewritten() from fault
            raise

    def is_rewritten(self) -> bool:
        """Whether the file is not what was indexed and more; raises OSError."""
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            return not self.continues_in(fd, identity_of(os.fstat(fd)))

    def rewritten(self) -> StorageError:
        return StorageError(
            f"{self.path} was rewritten while it was read. Try again.",
            path=str(self.path),
            errno=None,
        )

    def view(self) -> Transcript:
        """This index as it is now: a later `refresh` of the original does not change it."""
        view = Transcript.__new__(Transcript)
        view.__dict__.update(self.__dict__)
        return view

    def _bookmark(self) -> None:
        """Keep this state for a while: taking a rewind back makes the file shorter again."""
        mark = self.view()
        if mark.earlier is not None and mark.earlier.earlier is not None:
            mark.earlier = mark.earlier.view()
            mark.earlier.earlier = None
        self.earlier = mark if len(self.kinds) < _BOOKMARKED else None

    def _go_back(self, fd: int, now: Identity) -> bool:
        mark = self.earlier
        while mark is not None and not mark.continues_in(fd, now):
            mark = mark.earlier
        if mark is None:
            return False
        self.__dict__.update(mark.__dict__)
        self._known = None  # it may know lines that came later
        self._detach()
        self.part_gaps()
        return True

    def measure(self) -> None:
        """Take the file as it is now for what the table already describes."""
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            self.identity = identity_of(os.fstat(fd))
            self.scanned = self.identity.size
            take = min(_GUARD, self.scanned)
            self._guard = osfile.pread(fd, take, self.scanned - take)

    def finish_scan(self, remembered: int) -> None:
        """As after a scan, for a table that was filled in another way."""
        self.remember_end(remembered)
        self.resolve(0)
        self.leaf_id = self.uuid_at(self.leaf) if self.leaf >= 0 else None

    def _detach(self) -> None:
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[:])
        for name in (
            "gaps",
            "foreign",
            "adopted",
            "circles",
            "relocations",
            "recovered",
            "unterminated",
            "_recent",
            "open_calls",
            "orphan_results",
            "agent_calls",
            "entrypoints",
            "compactions",
        ):
            setattr(self, name, getattr(self, name).copy())
        self._pending = {id_: waiting[:] for id_, waiting in self._pending.items()}
        self._aside = self._aside[:]
        self._side_results = (self._side_results[0][:], self._side_results[1][:])

    def continues_in(self, fd: int, now: Identity) -> bool:
        old = self.identity
        return (
            old is not None
            and (now.device, now.inode) == (old.device, old.inode)
            and now.size >= self.scanned
            and osfile.pread(fd, len(self._guard), self.scanned - len(self._guard)) == self._guard
        )

    def _scan(self, fd: int, size: int, work: Work) -> None:
        start = position = self.scanned
        if self.open_end and osfile.pread(fd, 1, position) == b"\n":
            # The newline of a last line that was read without it.
            self.open_end = False
            self.scanned = start = position = position + 1
        window = _window()
        held = 0  # bytes at the window's beginning, of a line whose end was not read yet
        while position < size:
            work.checkpoint(position - start, size - start, "Reading the session")
            if held == len(window):
                blank = window.count(0) == held
                if blank or held >= LONGEST_LINE:
                    begin = position - held
                    position, held = self._pass_over(fd, position, size, work, blank=blank), 0
                    self.add_unread(begin, blank=blank)
                    self.scanned = position
                    continue
                window = window + bytes(len(window))  # a line that is longer
            with memoryview(window) as view:
                read = osfile.pread_into(fd, view[held : held + size - position], position)
            if not read:
                break
            position += read
            filled = held + read
            whole = window.rfind(b"\n", held, filled) + 1
            self.scanned = self.add_lines(position - filled, window, whole)
            held = filled - whole
            window[:held] = window[whole:filled]
        # A last line without its newline counts when it is whole; else it is still being
        # written, or torn, and is looked at again when the file has grown.
        last = bytes(window[:held])
        if last and records.parse(last) is not None:
            self.scanned = self.add_lines(position - held, last + b"\n", held + 1) - 1
            self.open_end = True
        take = min(_GUARD, self.scanned)
        self._guard = osfile.pread(fd, take, self.scanned - take)

    @staticmethod
    def _pass_over(fd: int, position: int, size: int, work: Work, *, blank: bool) -> int:
        """Where a line ends of which no more is held: it is too long, or `blank`, gigabytes of
        NULs perhaps.  A record may stand behind those on the same line."""
        while position < size and (data := osfile.pread(fd, _WINDOW, position)):
            work.checkpoint(position, size, "Reading the session")
            filled = data.lstrip(b"\x00") if blank else data
            if blank and filled:
                return position + len(data) - len(filled) + filled.startswith(b"\n")
            if (end := data.find(b"\n") + 1) > 0:
                return position + end
            position += len(data)
        return position

    # Reading

    @property
    def revision(self) -> str:
        """Changes whenever the live branch does."""
        state = f"{self.leaf_id}:{len(self.turn_starts)}:{len(self.chain)}"
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    def span(self, line: int) -> tuple[int, int]:
        """Byte offsets of a line: its start, and the start of the next."""
        after = line + 1
        return self.offsets[line], self.offsets[after] if after < len(
            self.offsets
        ) else self.scanned

    def line_numbers(self, lines: Sequence[int]) -> list[int]:
        """1-based numbers in the file of lines in ascending order, in one pass over it."""
        numbers: list[int] = []
        count, position = 1, 0
        with self.path.open("rb") as file:
            for line in lines:
                end = self.offsets[line]
                while position < end and (data := file.read(min(_WINDOW, end - position))):
                    count += data.count(b"\n")
                    position += len(data)
                numbers.append(count)
        return numbers

    def read(
        self,
        lines: array[int] | list[int],
        parse: Callable[[bytes], Record | None] = records.parse,
    ) -> Iterator[tuple[int, Record]]:
        """The records of `lines`, in that order; `parse` makes them of the file's lines."""
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            block, begin = b"", 0
            for at, line in enumerate(lines):
                start, end = self.span(line)
                if not begin <= start <= end <= begin + len(block):
                    begin = start
                    block = osfile.pread(fd, self._end_of_run(lines, at) - start, start)
                record = parse(block[start - begin : end - begin])
                if record is not None:
                    yield line, record
                elif self.kinds[line] & KIND in TREE and self.is_rewritten():
                    raise self.rewritten()

    def _end_of_run(self, lines: array[int] | list[int], at: int) -> int:
        """Where in the file the lines end that are neighbours from `lines[at]` on."""
        first = lines[at]
        begin, end = self.span(first)
        while (at := at + 1) < len(lines) and 0 < lines[at] - lines[at - 1] < 4:
            _, next_end = self.span(lines[at])
            if next_end - begin > _WINDOW:
                break
            end = next_end
        return end

    def read_from(self, offsets: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """The records of the lines that start at these bytes, each with its offset."""
        with self.path.open("rb") as file:
            for offset in offsets:
                file.seek(offset)
                if (record := records.parse(file.readline())) is not None:
                    yield offset, record

    def same_message(self, line: int, other: int) -> bool:
        """Whether two assistant records are parts of one message."""
        ids = [
            message.get("id") if isinstance(message := record.get("message"), dict) else None
            for _, record in self.read([line, other])
        ]
        return len(ids) == 2 and ids[0] is not None and ids[0] == ids[1]

    def turn_of(self, line: int) -> str | None:
        """The id of the turn that a line belongs to."""
        prompt = self.owner(line)
        return self.uuid_at(prompt) if prompt >= 0 else None

    def uuid_at(self, line: int) -> str | None:
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            return self._uuid_in(fd, line)

    def _uuid_in(self, fd: int, line: int) -> str | None:
        start, end = self.span(line)
        uid = (records.parse(osfile.pread(fd, end - start, start)) or {}).get("uuid")
        return uid if isinstance(uid, str) else None


def _window() -> bytearray:
    """This thread's window: memory that is new each time costs as much as what is read into it."""
    window: bytearray | None = getattr(_windows, "window", None)
    if window is None or len(window) != _WINDOW:
        window = _windows.window = bytearray(_WINDOW)
    return window
