"""Where a session lies: its directory and folder, its age, who has it open, what is beside it."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import orjson

from session import osfile
from session.agents.claude_code.checking.findings import Findings, count, size
from session.agents.claude_code.history import History
from session.agents.claude_code.store import ClaudeStore

_KEPT_DAYS = 30
_SOON_DAYS = 7
_DAY = 86_400


def look(store: ClaudeStore, history: History, findings: Findings) -> None:
    """Findings that need no reading of the session itself."""
    _tell_writer(history, findings)
    path = history.transcript.path
    if path.parent.parent != store.projects:
        return  # staged, or a subagent's
    _tell_age(store, path, history.open_in is not None, findings)
    _tell_directory(store, history, findings)
    for twin in store.twins(path, history.native_id):
        findings.add(
            "second_file",
            f"Another file has this session's id, {twin} ({size(_size(twin))}); this one "
            f"({size(_size(path))}) is the larger and is shown. Claude Code resumes the one of "
            "the directory it is started in. Look at both, and move one of them away.",
        )
    _tell_index(path, history.native_id, findings)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _tell_writer(history: History, findings: Findings) -> None:
    live = history.open_in
    if live is not None:
        since = f" since {live.since}" if live.since else ""
        findings.add(
            "live_writer",
            f"Process {live.pid} has the session open{since}: what is found here may still change, "
            "and a rewind is refused until it ends.",
        )


def _tell_age(store: ClaudeStore, path: Path, live: bool, findings: Findings) -> None:
    days = kept_days(store.root)
    if days is None or live:
        return
    try:
        written = path.stat().st_mtime
    except OSError:
        return
    goes = written + days * _DAY
    left = (goes - time.time()) / _DAY
    if left >= _SOON_DAYS:
        return
    when = (
        f"may delete it at any time: its {count(days, 'day')} ended on {osfile.utc(goes)[:10]}"
        if left <= 0
        else f"will delete it on {osfile.utc(goes)[:10]}, in {count(math.ceil(left), 'day')}"
    )
    findings.add(
        "expires_soon",
        f"Claude Code {when}. It keeps sessions for {count(days, 'day')} after their file was last "
        "written (cleanupPeriodDays in its settings). A fork of it, or a turn more, counts anew.",
    )


def kept_days(root: Path) -> int | None:
    """After how many days without a write the program deletes a session's file; None: never.

    The program takes a whole number from 1 on, and cleans up nothing while it finds another
    value.  Of two files the shorter time counts: which one does depends on where it is started.
    """
    found: list[int] = []
    for name in ("settings.json", "settings.local.json"):
        try:
            settings = orjson.loads((root / name).read_bytes())
        except (OSError, ValueError):
            continue
        if not isinstance(settings, dict) or "cleanupPeriodDays" not in settings:
            continue
        days = settings["cleanupPeriodDays"]
        if type(days) is float and days.is_integer():
            days = int(days)
        if type(days) is not int or days < 1:
            return None
        found.append(days)
    return min(found, default=_KEPT_DAYS)


def _tell_directory(store: ClaudeStore, history: History, findings: Findings) -> None:
    t = history.transcript
    began, goes_on = t.cwd, t.last_cwd or t.cwd
    if began is None or goes_on is None:
        return
    folder = t.path.parent
    places = [cwd for cwd in (goes_on, began) if store.folder_for(cwd) == folder]
    from_here = places[0] if places else began
    if not os.path.isdir(from_here):
        findings.add(
            "missing_directory",
            f"Its directory {from_here} does not exist, so that it cannot be resumed there. Make "
            "the directory again, or fork the session into another one.",
        )
    elif began != goes_on:
        found = (
            f"Claude Code finds it from {from_here}."
            if places
            else "Claude Code finds it from neither; a fork into one of them is found there."
        )
        findings.add(
            "moved_directory", f"The session began in {began} and goes on in {goes_on}. {found}"
        )
    elif not places:
        findings.add(
            "moved_directory",
            f"Its directory is {began}, but its file lies in the folder {folder.name}, which "
            "belongs to another name for it. Claude Code does not find it from there; a fork is "
            "found.",
        )


def _tell_index(path: Path, native_id: str, findings: Findings) -> None:
    index = path.with_name("sessions-index.json")
    try:
        data = index.read_bytes()
    except OSError:
        return
    entry: Any = None
    try:
        entries = orjson.loads(data)["entries"]
        entry = next((e for e in entries if e.get("sessionId") == native_id), None)
    except (ValueError, TypeError, KeyError, AttributeError):
        what = "cannot be read"
    else:
        what = "does not name this session"
    if entry is not None:
        named = entry.get("fullPath")
        if not isinstance(named, str) or os.path.realpath(named) == os.path.realpath(path):
            return
        what = f"says that this session is at {named}"
    findings.add(
        "stale_session_index",
        f"The index of its folder, {index}, {what}. Older versions of Claude Code list what the "
        "index says, so that the session may be missing there; `claude --resume` with its id "
        "finds it. Turntree reads the files.",
    )
