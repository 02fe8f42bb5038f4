"""The ways in which an operation changes an agent's file, each recorded before it happens.

An effect is a value that can be stored as JSON, applied, and later asked whether it took
place: so a process that died in the middle can be finished or taken back by another.  `apply`
looks at the file again right before it writes, and refuses when it is not the file that the
plan was made for.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from session import osfile
from session.errors import SessionExists, StaleRevision
from session.faults import fault
from session.model import fields_of
from session.values import value

BEFORE, AFTER = "before", "after"


class Effect:
    """One of the classes below."""

    name: ClassVar[str]

    def apply(self, verb: str) -> None:
        """Make the change durable; `verb` names the fault points.  Repeating it is fine."""
        raise NotImplementedError

    def state(self) -> str:
        """`before` or `after`; what was left half done is first put back to `before`."""
        raise NotImplementedError

    def finish(self) -> None:
        """Tidy up after an effect that took place; repeating it is fine."""

    def clean(self) -> None:
        """Remove what was staged for an effect that will not be applied."""

    def to_json(self) -> dict[str, Any]:
        return {"effect": self.name, **fields_of(self)}


@value
class Append(Effect):
    """`text` after the first `size` bytes of the file with this inode."""

    name: ClassVar[str] = "append"
    path: str
    inode: int
    size: int
    text: str

    @property
    def end(self) -> int:
        return self.size + len(self.text.encode())

    def apply(self, verb: str) -> None:
        data = self.text.encode()
        # O_APPEND: what the agent may write in this moment can't be overwritten.
        with osfile.opened(Path(self.path), os.O_RDWR | os.O_APPEND) as fd:
            _require(fd, self.path, self.inode, self.size)
            try:
                with osfile.naming(Path(self.path)):
                    osfile.write_all(fd, data)
                    osfile.fsync_file(fd)
            except OSError:
                found = osfile.pread(fd, len(data) + 1, self.size)
                if data.startswith(found):
                    os.ftruncate(fd, self.size)
                raise
            end = os.fstat(fd).st_size
            if osfile.pread(fd, len(data), self.size) != data:
                if osfile.pread(fd, len(data), end - len(data)) == data:
                    os.ftruncate(fd, end - len(data))
                raise _changed(self.path, self.size, end)
        fault(f"{verb}.applied")

    def state(self) -> str:
        data = self.text.encode()
        with osfile.opened(Path(self.path), os.O_RDWR) as fd:
            stat = os.fstat(fd)
            if stat.st_ino != self.inode:
                return BEFORE
            found = osfile.pread(fd, len(data), self.size)
            if found == data:
                return AFTER
            if found and data.startswith(found) and stat.st_size == self.size + len(found):
                os.ftruncate(fd, self.size)
                osfile.fsync_file(fd)
        return BEFORE

    def is_last(self) -> bool:
        """Whether nothing was written to the file since."""
        with osfile.opened(Path(self.path), os.O_RDONLY) as fd:
            stat = os.fstat(fd)
            data = self.text.encode()
            return (stat.st_ino, stat.st_size) == (self.inode, self.end) and (
                osfile.pread(fd, len(data), self.size) == data
            )


@value
class Truncate(Effect):
    """Take an `Append` of `text` back, to `size` bytes."""

    name: ClassVar[str] = "truncate"
    path: str
    inode: int
    size: int
    text: str

    def apply(self, verb: str) -> None:
        with osfile.opened(Path(self.path), os.O_RDWR) as fd:
            _require(fd, self.path, self.inode, self.size + len(self.text.encode()))
            os.ftruncate(fd, self.size)
            osfile.fsync_file(fd)
        fault(f"{verb}.applied")

    def state(self) -> str:
        data = self.text.encode()
        with osfile.opened(Path(self.path), os.O_RDONLY) as fd:
            # The agent may have gone on since.
            gone = osfile.pread(fd, len(data), self.size) != data
            return AFTER if gone and os.fstat(fd).st_ino == self.inode else BEFORE


@value
class Swap(Effect):
    """Put the staged file in the place of `path`; the old one is kept as `archive`.

    `spent` is an archive that the staged file is a link to: once that file is in use again,
    the archive's name for it goes, or it would change with it.
    """

    name: ClassVar[str] = "swap"
    path: str
    inode: int
    size: int
    staged: str
    staged_inode: int
    staged_size: int
    archive: str
    spent: str | None = None

    def apply(self, verb: str) -> None:
        path, archive = Path(self.path), Path(self.archive)
        with osfile.opened(path, os.O_RDONLY) as fd:
            _require(fd, self.path, self.inode, self.size)
        keep(path, archive)
        fault(f"{verb}.archived")
        with osfile.opened(path, os.O_RDONLY) as fd:
            _require(fd, self.path, self.inode, self.size)
        os.replace(self.staged, path)
        osfile.fsync_directory(path.parent)
        fault(f"{verb}.applied")
        self.finish()

    def state(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self.path).st_ino == self.staged_inode and not os.path.exists(self.staged):
                return AFTER
        return BEFORE

    def finish(self) -> None:
        osfile.remove_tree(Path(self.staged).parent)
        if self.spent:
            osfile.remove_tree(Path(self.spent))

    def clean(self) -> None:
        # What was kept is still in place, so the archive is only another name for it.
        osfile.remove_tree(Path(self.archive))
        osfile.remove_tree(_partial(Path(self.archive)))
        with contextlib.suppress(OSError):
            Path(self.archive).parent.rmdir()
        osfile.remove_tree(Path(self.staged).parent)

    def is_last(self) -> bool:
        """Whether the file is still the one that was put there."""
        with contextlib.suppress(FileNotFoundError):
            stat = os.stat(self.path)
            return (stat.st_ino, stat.st_size) == (self.staged_inode, self.staged_size)
        return False


@value
class Move(Effect):
    """Move files and directories; each pair is (from, to).

    The first is the session's own file: leaving, it goes first; coming back, it comes last.
    """

    name: ClassVar[str] = "move"
    pairs: list[list[str]]
    returning: bool

    def apply(self, verb: str) -> None:
        pairs = [(Path(source), Path(target)) for source, target in self.pairs]
        for source, target in pairs:
            if not os.path.lexists(source) and not os.path.lexists(target):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
            # Both are there when a process died while it moved across file systems.
            if source.exists() and target.exists() and not _all_of_it_in(source, target):
                raise SessionExists(
                    f"{target} exists already; nothing was moved.", session_id=pairs[0][1].stem
                )
        for source, target in reversed(pairs) if self.returning else pairs:
            if not os.path.lexists(source):
                continue
            if target.exists():
                osfile.remove_tree(source)
            elif self.returning and (source, target) == pairs[0]:
                self._publish(source, target)
            else:
                osfile.move_tree(source, target)
            fault(f"{verb}.archived")
        fault(f"{verb}.applied")
        self.finish()

    def _publish(self, source: Path, target: Path) -> None:
        # Across file systems first beside the target, then one step that replaces nothing.
        staged = _unnamed(target)
        osfile.remove_tree(staged)
        try:
            osfile.copy_tree(source, staged)
            osfile.fsync_tree(staged)
            osfile.publish(staged, target)
        except FileExistsError:
            osfile.remove_tree(staged)
            raise SessionExists(
                f"{target} exists already; nothing was overwritten.", session_id=target.stem
            ) from None
        except OSError:
            osfile.remove_tree(staged)
            raise
        osfile.fsync_directory(target.parent)
        os.unlink(source)

    def state(self) -> str:
        """`before` while nothing has moved; a move that began is finished, by `apply`."""
        return AFTER if any(_moved(Path(a), Path(b)) for a, b in self.pairs) else BEFORE

    def finish(self) -> None:
        self.clean()

    def clean(self) -> None:
        """Copies that a process had not given their names when it died."""
        for _, target in self.pairs:
            osfile.remove_tree(_unnamed(Path(target)))

    def take_back(self) -> None:
        """After a failure: move what has moved to where it was."""
        for source, target in self.pairs:
            if not os.path.lexists(source) and os.path.lexists(target):
                osfile.move_tree(Path(target), Path(source))


def keep(path: Path, archive: Path) -> None:
    """Keep the file's present content as `archive`, durably.

    A link where the file systems are one, so that nothing is copied: the file is about to be
    replaced by another, never written through this name again.
    """
    osfile.make_private(archive.parent)
    partial = _partial(archive)
    osfile.remove_tree(partial)
    try:
        os.link(path, partial)
    except OSError:
        osfile.copy_tree(path, partial)
        osfile.fsync_tree(partial)
    os.replace(partial, archive)
    # Renaming one link of a file over another of it does nothing.
    osfile.remove_tree(partial)
    osfile.fsync_directory(archive.parent)


def _partial(archive: Path) -> Path:
    return archive.with_name(archive.name + ".partial")


def _require(fd: int, path: str, inode: int, size: int) -> None:
    stat = os.fstat(fd)
    if (stat.st_ino, stat.st_size) != (inode, size):
        raise _changed(path, size, stat.st_size)


def _changed(path: str, expected: int, actual: int) -> StaleRevision:
    return StaleRevision(
        f"{path} changed in this moment; nothing was written. Look at it again and retry.",
        expected=f"{expected} bytes",
        actual=f"{actual} bytes",
    )


def _unnamed(target: Path) -> Path:
    """The name of a copy, beside its place, until it is whole; as `osfile.move_tree` has it."""
    return target.with_name(f".turntree-{target.name}")


def _moved(source: Path, target: Path) -> bool:
    """Whether a move happened; across file systems the source may be there still, or in part."""
    if not os.path.lexists(target):
        return False
    return not os.path.lexists(source) or _all_of_it_in(source, target)


def _all_of_it_in(one: Path, other: Path) -> bool:
    """Whether every file of `one` (a file, or what is left of a directory) is in `other` too."""
    if one.is_dir() != other.is_dir():
        return False
    if not one.is_dir():
        return filecmp.cmp(one, other, shallow=False)
    return all(
        (other / path.relative_to(one)).is_file()
        and filecmp.cmp(path, other / path.relative_to(one), shallow=False)
        for path in one.rglob("*")
        if not path.is_dir()
    )


_CLASSES: dict[str, Callable[..., Effect]] = {c.name: c for c in (Append, Truncate, Swap, Move)}


def from_json(data: dict[str, Any]) -> Effect:
    fields = dict(data)
    return _CLASSES[fields.pop("effect")](**fields)
