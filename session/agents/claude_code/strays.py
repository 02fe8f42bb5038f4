"""Records of a session that a program wrote into the file of another one."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import orjson

from session import osfile
from session.agents.claude_code import passing, records
from session.agents.claude_code.history import History
from session.agents.claude_code.records import PROMPT, TREE
from session.agents.claude_code.store import ClaudeStore, is_session_id
from session.values import value
from session.work import Work

_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


@value
class Sibling:
    """Another transcript that may hold records of the session."""

    path: Path
    native_id: str
    size: int


@value
class Stray:
    """A record of the session in another file: its id and time, and where it stands there."""

    id: str
    at: str
    path: Path
    line: int
    offset: int
    size: int
    is_prompt: bool


@value
class Found:
    """What of the session a sibling holds, and the directory that the sibling names first."""

    strays: list[Stray]
    cwd: str | None


def candidates(store: ClaudeStore, history: History) -> list[Sibling]:
    """The other sessions' files of the session's project folder, and of the folder of the
    directory in which it goes on."""
    path = history.transcript.path
    if path.parent.parent != store.projects:
        return []
    folders = {str(path.parent)}
    if history.transcript.last_cwd is not None:
        folders.add(str(store.folder_for(history.transcript.last_cwd)))
    found: list[Sibling] = []
    for folder in sorted(folders):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                native_id = entry.name.removesuffix(".jsonl")
                if native_id in (entry.name, history.native_id) or not is_session_id(native_id):
                    continue
                with contextlib.suppress(OSError):
                    state = entry.stat()
                    if stat.S_ISREG(state.st_mode) and osfile.may_read(entry.path, state):
                        found.append(Sibling(Path(entry.path), native_id, state.st_size))
    return sorted(found, key=lambda sibling: str(sibling.path))


def search(
    history: History, sibling: Sibling, seen: set[str], work: Work, done: int, total: int
) -> Found:
    """What of the session stands in a sibling, less records whose ids are in `seen`.

    A copy of the file under another name, which kept its ids, holds no strays.  `done` of
    `total` bytes were searched before.  Raises OSError, Cancelled.
    """
    own, its = _naming(history.native_id), _naming(sibling.native_id)
    found: dict[str, Stray] = {}
    has_own = False
    cwd: bytes | None = None
    for block in passing.blocks(sibling.path, own):
        read = done + min(block.read, sibling.size)
        work.checkpoint(read, total, "Searching the other sessions of the folder")
        if cwd is None and (match := _CWD.search(block.data)):
            cwd = match[1]
        has_own = has_own or any(name in block.data for name in its)
        if any(name in block.data for name in own):
            for stray in _in_block(history, sibling.path, block, own):
                if stray.id not in seen:
                    found.setdefault(stray.id, stray)
    place: str | None = None
    if cwd is not None:
        with contextlib.suppress(ValueError):
            place = orjson.loads(cwd)
    return Found(list(found.values()) if has_own else [], place)


def _naming(native_id: str) -> tuple[bytes, bytes]:
    """How a record names its session, as the program writes and as other tools do."""
    return (f'"sessionId":"{native_id}"'.encode(), f'"sessionId": "{native_id}"'.encode())


def _in_block(
    history: History, path: Path, block: passing.Block, own: tuple[bytes, bytes]
) -> Iterator[Stray]:
    offset = block.offset
    for number, line in enumerate(block.data.split(b"\n"), block.first):
        if own[0] in line or own[1] in line:
            record = records.parse(line)
            # Other places of a record may name a session too, such as where a fork came from.
            if record is not None and record.get("sessionId") == history.native_id:
                kind = records.kind_of(record) & records.KIND
                if kind in TREE and history.transcript.find(record["uuid"]) is None:
                    at = records.time_of(record) or ""
                    size, prompt = len(line), kind == PROMPT
                    yield Stray(record["uuid"], at, path, number, offset, size, prompt)
        offset += len(line) + 1
