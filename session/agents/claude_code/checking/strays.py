"""Records of a session that a program wrote into the file of another one."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

import orjson
from attrs import define

from session import osfile
from session.agents.claude_code import passing, records
from session.agents.claude_code.checking.findings import Findings, count
from session.agents.claude_code.history import History
from session.agents.claude_code.records import PROMPT, TREE
from session.agents.claude_code.store import ClaudeStore, is_session_id
from session.work import Work

_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


@define(frozen=True)
class Sibling:
    """Another transcript that may hold records of the session."""

    path: Path
    native_id: str
    size: int


@define
class _Strays:
    seen: set[str]  # their ids, and those of the strays of files before
    records: int = 0
    prompts: int = 0
    line: int = 0  # of the first one


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


def look(
    history: History,
    siblings: list[Sibling],
    findings: Findings,
    *,
    done: int,
    total: int,
    work: Work,
) -> None:
    """Tell of each sibling that holds records of the session which its own file lacks.

    A copy of the file under another name, which kept its ids, is none.
    """
    shared: dict[str, int] = {}
    seen: set[str] = set()
    for sibling in siblings:
        with contextlib.suppress(OSError):
            _look_into(history, sibling, findings, shared, seen, done, total, work)
        done += sibling.size
    _tell_shared(history, shared, findings)


def _look_into(
    history: History,
    sibling: Sibling,
    findings: Findings,
    shared: dict[str, int],
    seen: set[str],
    done: int,
    total: int,
    work: Work,
) -> None:
    t = history.transcript
    own = _naming(history.native_id)
    its = _naming(sibling.native_id)
    strays = _Strays(seen.copy())
    has_own = False
    cwd: bytes | None = None
    for block in passing.blocks(sibling.path, own):
        work.checkpoint(done + block.read, total, "Searching the other sessions of the folder")
        if cwd is None and (match := _CWD.search(block.data)):
            cwd = match[1]
        has_own = has_own or any(name in block.data for name in its)
        if any(name in block.data for name in own):
            _look_at_lines(history, block.data, own, block.first, strays)
    if cwd is not None and sibling.path.parent == t.path.parent:
        with contextlib.suppress(ValueError):
            place = orjson.loads(cwd)
            shared[place] = shared.get(place, 0) + 1
    if strays.records and has_own:
        seen |= strays.seen
        findings.add(
            "stray_records",
            f"{count(strays.records, 'record')} of this session, with "
            f"{count(strays.prompts, 'prompt')}, stand in another session's file, from line "
            f"{strays.line:,} of {sibling.path} on: a program wrote them into the wrong file. "
            "They are not shown here; the repair collects them.",
        )


def _naming(native_id: str) -> tuple[bytes, bytes]:
    """How a record names its session, as the program writes and as other tools do."""
    return (f'"sessionId":"{native_id}"'.encode(), f'"sessionId": "{native_id}"'.encode())


def _look_at_lines(
    history: History, block: bytes, own: tuple[bytes, bytes], first: int, strays: _Strays
) -> None:
    for number, line in enumerate(block.split(b"\n"), first):
        if own[0] not in line and own[1] not in line:
            continue
        record = records.parse(line)
        # Other places of a record may name a session too, such as where a fork came from.
        if record is None or record.get("sessionId") != history.native_id:
            continue
        kind = records.kind_of(record) & records.KIND
        uid = record["uuid"] if kind in TREE else None
        if uid is not None and uid not in strays.seen and history.transcript.find(uid) is None:
            strays.seen.add(uid)
            strays.records += 1
            strays.prompts += kind == PROMPT
            strays.line = strays.line or number


def _tell_shared(history: History, shared: dict[str, int], findings: Findings) -> None:
    t = history.transcript
    own = {osfile.real_path(cwd) for cwd in (t.cwd, t.last_cwd) if cwd}
    others = {cwd: n for cwd, n in shared.items() if osfile.real_path(cwd) not in own}
    if own and others:
        (cwd, _), *more = sorted(others.items(), key=lambda pair: (-pair[1], pair[0]))
        also = f" and {count(len(more), 'other directory', 'other directories')}" if more else ""
        findings.add(
            "shared_folder",
            f"Its folder also holds {count(sum(others.values()), 'session')} of {cwd}{also}: "
            "Claude Code gives both the same folder name. `claude --continue` may pick the other "
            "one; resume by id.",
        )
