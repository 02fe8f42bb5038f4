"""A session's file that cannot be used as it is: its records stand partly in other files, or
in an encoding that no agent writes.  A temporary copy then stands in for it."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from pathlib import Path

from session import osfile
from session.agents.claude_code import records
from session.agents.claude_code.history import History
from session.agents.claude_code.records import TREE
from session.agents.claude_code.splice import encoded
from session.agents.claude_code.transcript import Transcript
from session.errors import StorageError
from session.model import Repairs
from session.scratch import Scratch
from session.values import value
from session.work import Work

_WINDOW = 1 << 20
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@value
class Stray:
    """A record of the session in another file: its time, and where it stands."""

    at: str
    path: Path
    offset: int
    size: int


@value
class Strays:
    """What a session's copy is made of; `path` None: no copy was needed.  `dirty` counts lines
    that were decoded with replacement characters."""

    path: Path | None
    encoding: str | None
    count: int
    files: tuple[Path, ...]
    dirty: int = 0


def usable_copy(history: History, wanted: Repairs, scratch: Scratch, work: Work) -> Strays:
    """Make the copy that a repair works on, where it needs one.

    Raises StorageError when there is no room for it, OSError, Cancelled.
    """
    transcript = history.transcript
    encoding = other_encoding(transcript.path)
    strays: list[Stray] = []
    if wanted.has("collect_strays"):
        known = transcript if encoding is None else None
        strays = sorted(
            find_strays(transcript.path, history.native_id, known, work), key=lambda s: s.at
        )
    files = tuple(dict.fromkeys(stray.path for stray in strays))
    if not strays and encoding is None:
        return Strays(None, None, 0, ())
    size = transcript.path.stat().st_size * (2 if encoding else 1)
    size += sum(stray.size for stray in strays)
    folder = scratch.folder()
    free = osfile.free_bytes(folder)
    if free < size + (1 << 16):
        raise StorageError(
            f"The repair needs {size:,} bytes in {folder} for a time, and {free:,} are free.",
            path=str(folder),
            errno=28,
        )
    path = folder / f"{history.native_id}.jsonl"
    with osfile.writing(path) as file:
        for block in _merged(transcript.path, encoding, strays, work):
            file.write(block)
    return Strays(path, encoding and encoding.upper(), len(strays), files)


def other_encoding(path: Path) -> str | None:
    """The encoding of a file that is not UTF-8, as an editor or a shell may have saved it."""
    with osfile.opened(path, os.O_RDONLY) as fd:
        head = osfile.pread(fd, 4, 0)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    return {b"{\0": "utf-16-le", b"\0{": "utf-16-be"}.get(head[:2])


def find_strays(
    path: Path, native_id: str, known: Transcript | None, work: Work
) -> Iterator[Stray]:
    """Records of a session in the other files of its project folder, less those that `known`
    has itself.  Raises OSError, Cancelled."""
    needle = encoded(native_id)
    seen: set[str] = set()
    others = sorted(other for other in path.parent.glob("*.jsonl") if _may_hold(other, path))
    for other in others:
        for offset, line in _lines_with(other, needle, work):
            record = records.parse(line)
            uid = record.get("uuid") if record is not None else None
            if record is None or not isinstance(uid, str) or record.get("sessionId") != native_id:
                continue
            if records.kind_of(record) & records.KIND not in TREE or uid in seen:
                continue
            if known is None or known.find(uid) is None:
                seen.add(uid)
                yield Stray(records.time_of(record) or "", other, offset, len(line))


def _may_hold(other: Path, path: Path) -> bool:
    # A subagent's file carries its parent's id; it is no stray.
    return other != path and other.is_file() and not other.name.startswith("agent-")


def _lines_with(path: Path, needle: bytes, work: Work) -> Iterator[tuple[int, bytes]]:
    """The lines of a file in which some bytes stand, with their offsets; a file that cannot be
    read holds none."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        size, offset = os.fstat(file.fileno()).st_size, 0
        while block := file.read(_WINDOW):
            block += file.readline()
            if needle in block:
                at = offset
                for line in block.split(b"\n"):
                    if needle in line:
                        yield at, line
                    at += len(line) + 1
            offset += len(block)
            work.checkpoint(offset, size, "Looking for stray records")


def _merged(path: Path, encoding: str | None, strays: list[Stray], work: Work) -> Iterator[bytes]:
    """The session's lines with each stray before the first line that is later than it."""
    waiting = list(reversed(strays))
    size = path.stat().st_size
    done = 0
    for block in _decoded(path, encoding):
        done += len(block)
        work.checkpoint(min(done, size), size, "Collecting the session's records")
        if not waiting:
            yield block
            continue
        for line in block.removesuffix(b"\n").split(b"\n"):
            if waiting and (at := _time_in(line)) is not None:
                while waiting and waiting[-1].at < at:
                    yield _text_of(waiting.pop())
            yield line + b"\n"
    while waiting:
        yield _text_of(waiting.pop())


def _time_in(line: bytes) -> str | None:
    record = records.parse(line)
    return records.time_of(record) if record is not None else None


def _text_of(stray: Stray) -> bytes:
    with stray.path.open("rb") as file:
        file.seek(stray.offset)
        text = file.read(stray.size)
    if records.parse(text) is None:
        raise StorageError(
            f"{stray.path} was rewritten while it was read. Try again.",
            path=str(stray.path),
            errno=None,
        )
    return text + b"\n"


def _decoded(path: Path, encoding: str | None) -> Iterator[bytes]:
    """A file in blocks of whole lines, as UTF-8."""
    if encoding is None:
        with path.open("rb") as file:
            while block := file.read(_WINDOW):
                yield block + file.readline()
        return
    with path.open(encoding=encoding, errors="replace", newline="\n") as text:
        while part := text.read(_WINDOW):
            yield (part + text.readline()).encode("utf-8", "replace")
