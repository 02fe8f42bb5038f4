"""A session's file that cannot be used as it is: its records stand partly in other files, or
in an encoding that no agent writes.  A temporary copy then stands in for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from session import osfile
from session.agents.claude_code import records
from session.agents.claude_code.history import History
from session.agents.claude_code.repairing.plain_text import as_utf8
from session.agents.claude_code.store import ClaudeStore
from session.agents.claude_code.strays import Stray, candidates, search
from session.agents.claude_code.transcript import Transcript
from session.errors import StorageError
from session.model import Repairs
from session.scratch import Scratch
from session.values import value
from session.work import Work

_WINDOW = 1 << 20


@value
class Strays:
    """What a session's copy is made of; `path` None: no copy was needed."""

    path: Path | None
    count: int
    files: tuple[Path, ...]


def usable_copy(
    store: ClaudeStore, history: History, wanted: Repairs, scratch: Scratch, work: Work
) -> Strays:
    """Make the copy that a repair works on, where it needs one.

    Raises StorageError when there is no room for it, OSError, Cancelled.
    """
    transcript = history.transcript
    strays: list[Stray] = []
    if wanted.has("collect_strays"):
        strays = sorted(find_strays(store, history, work), key=lambda stray: stray.at)
    if not strays and not transcript.other_encoding:
        return Strays(None, 0, ())
    # Of UTF-16 a character may take two bytes and as UTF-8 three.
    size = transcript.path.stat().st_size * (2 if transcript.other_encoding else 1)
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
        for block in _merged(transcript, strays, work):
            file.write(block)
    return Strays(path, len(strays), tuple(dict.fromkeys(stray.path for stray in strays)))


def find_strays(store: ClaudeStore, history: History, work: Work) -> Iterator[Stray]:
    """The records of which a check tells that they stand elsewhere.  Raises Cancelled."""
    seen: set[str] = set()
    siblings = candidates(store, history)
    total = sum(sibling.size for sibling in siblings)
    done = 0
    for sibling in siblings:
        # A file that cannot be read has nothing to give.
        with contextlib.suppress(OSError):
            found = search(history, sibling, seen, work, done, total)
            seen.update(stray.id for stray in found.strays)
            yield from found.strays
        done += sibling.size


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """A file in blocks of whole lines, each with its offset."""
    with path.open("rb") as file:
        offset = 0
        while block := file.read(_WINDOW):
            block += file.readline()
            yield offset, block
            offset += len(block)


def _merged(transcript: Transcript, strays: list[Stray], work: Work) -> Iterator[bytes]:
    """The session's lines with each stray before the first line that is later than it."""
    waiting = list(reversed(strays))
    size = os.stat(transcript.path).st_size
    blocks = (block for _, block in _blocks(transcript.path))
    done = 0
    for block in as_utf8(transcript.path) if transcript.other_encoding else blocks:
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
