"""Where Claude Code keeps its sessions, and which of them a living program has open."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import orjson

from session import osfile
from session.errors import StorageError
from session.model import Live, Skipped
from session.store.native_files import CachedFile, Identity

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SUBAGENT = re.compile(r"agent-[A-Za-z0-9_-]+")
_LONGEST_SLUG = 200


class NativeFile(NamedTuple):
    """One transcript file as the store's folders show it."""

    path: str
    native_id: str
    identity: Identity
    readable: bool


class ClaudeStore:
    """The folders under `$CLAUDE_CONFIG_DIR`, else `~/.claude`."""

    def __init__(self, root: Path | None = None) -> None:
        chosen = os.environ.get("CLAUDE_CONFIG_DIR")
        self.default_root = Path("~/.claude").expanduser()
        self.root = root or (Path(chosen).expanduser() if chosen else self.default_root)

    @functools.cached_property
    def projects(self) -> Path:
        return self.root / "projects"

    @property
    def file_history(self) -> Path:
        return self.root / "file-history"

    @functools.cached_property
    def env(self) -> dict[str, str]:
        """What must be set for the agent to find this store."""
        if self.root.absolute() == self.default_root.absolute():
            return {}
        return {"CLAUDE_CONFIG_DIR": str(self.root)}

    def folders(self) -> dict[str, int]:
        """The folders in which sessions are, with the times (ns) at which names in them changed."""
        found: dict[str, int] = {}
        with contextlib.suppress(OSError):
            found[str(self.projects)] = os.stat(self.projects).st_mtime_ns
            for folder in _entries(str(self.projects), []):
                with contextlib.suppress(OSError):
                    found[folder.path] = folder.stat().st_mtime_ns
        return found

    def files(
        self, skipped: list[Skipped], known: Mapping[str, CachedFile]
    ) -> Iterator[NativeFile | CachedFile]:
        """All transcripts, each as it is `known` if it still is so; what cannot be looked at is
        added to `skipped`, hiding nothing else."""
        # Asked thousands of times, so that what can be asked once is.
        known_at, me = known.get, _me()
        for folder in _entries(str(self.projects), skipped):
            if folder.name.startswith(".") or not _is_directory(folder, skipped):
                continue
            for entry in _entries(folder.path, skipped):
                seen = known_at(entry.path)
                if seen is not None and _is_as(entry, seen, me):
                    yield seen
                    continue
                name = entry.name
                if name.endswith(".jsonl"):
                    if (file := _file(entry, skipped, seen)) is not None:
                        yield file
                elif is_session_id(name) and _is_plain_directory(entry):
                    yield from self._subagents(entry.path, skipped, known)

    def _subagents(
        self, folder: str, skipped: list[Skipped], known: Mapping[str, CachedFile]
    ) -> Iterator[NativeFile | CachedFile]:
        for entry in _entries(os.path.join(folder, "subagents"), skipped):
            if not (entry.name.startswith("agent-") and entry.name.endswith(".jsonl")):
                continue
            seen = known.get(entry.path)
            if seen is not None and _is_as(entry, seen, _me()):
                yield seen
            elif (file := _file(entry, skipped, seen)) is not None:
                yield file

    def locate(self, native_id: str) -> Path | None:
        """The file of a session; where two have one id the larger wins, then the newer.

        Raises StorageError when only something else has its name: a pipe, which nobody must
        open, a directory, a device.
        """
        found, others = self._named(native_id)
        if not found and others:
            (path, mode), *_ = others
            raise StorageError(
                f"The session's file is {_what_it_is(mode)}, not a file: {path}. "
                "Move it away; nothing in it was read.",
                path=path,
                errno=errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL,
            )
        return Path(max(found)[2]) if found else None

    def twins(self, path: Path, native_id: str) -> list[Path]:
        """Other files with the id of the session whose file is `path`."""
        found, _ = self._named(native_id)
        return sorted(Path(name) for _, _, name in found if name != str(path))

    def _named(self, native_id: str) -> tuple[list[tuple[int, int, str]], list[tuple[str, int]]]:
        """What has a session's name: (size, mtime, path) of files, (path, mode) of the rest."""
        found: list[tuple[int, int, str]] = []
        others: list[tuple[str, int]] = []
        if not (is_session_id(native_id) or _SUBAGENT.fullmatch(native_id)):
            return found, others
        with contextlib.suppress(OSError):
            for folder in os.scandir(self.projects):
                if folder.name.startswith("."):
                    continue
                for path in self._candidates(folder.path, native_id):
                    # Most folders do not have it, and an exception costs more than a question.
                    if not os.access(path, os.F_OK):
                        continue
                    with contextlib.suppress(OSError):
                        state = os.stat(path)
                        if stat.S_ISREG(state.st_mode):
                            found.append((state.st_size, state.st_mtime_ns, path))
                        else:
                            others.append((path, state.st_mode))
        return found, others

    def _candidates(self, folder: str, native_id: str) -> Iterator[str]:
        yield os.path.join(folder, f"{native_id}.jsonl")
        if native_id.startswith("agent-"):
            yield from map(str, Path(folder).glob(f"*/subagents/{native_id}.jsonl"))

    def id_at(self, path: Path) -> str | None:
        """The session whose file a path is, None for any other path."""
        try:
            folder, *inner, name = path.relative_to(self.projects).parts
        except ValueError:
            return None
        native_id = name.removesuffix(".jsonl")
        if folder.startswith(".") or native_id == name:
            return None
        if not inner and (is_session_id(native_id) or _SUBAGENT.fullmatch(native_id)):
            return native_id
        below = len(inner) == 2 and is_session_id(inner[0]) and inner[1] == "subagents"
        return native_id if below and _SUBAGENT.fullmatch(native_id) else None

    def live(self) -> dict[str, Live]:
        """Sessions that a living agent has open, by native id.

        The registry is `sessions/<pid>.json`; `procStart` is the pid's start time as
        /proc/<pid>/stat gives it, so an entry left by a dead process is told from a reused pid.
        """
        open_now: dict[str, Live] = {}
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.root / "sessions"):
                if not entry.name.endswith(".json"):
                    continue
                with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
                    record = orjson.loads(Path(entry.path).read_bytes())
                    pid, native_id = int(record["pid"]), str(record["sessionId"])
                    started = osfile.process_start(pid)
                    token = record.get("procStart")
                    if started is None or (token is not None and str(token) != started):
                        continue
                    at = record.get("startedAt")
                    since = osfile.utc(at / 1000) if isinstance(at, int | float) else None
                    open_now[native_id] = Live(pid, since)
        return open_now

    def folder_for(self, cwd: str) -> Path:
        """The project folder in which the agent looks when it runs in `cwd`."""
        return self.projects / slug(osfile.real_path(cwd))


def _is_as(entry: os.DirEntry[str], seen: CachedFile, me: int) -> bool:
    """Whether a file is there, may be read by user `me`, and is as it was `seen`."""
    try:
        state = entry.stat()
    except OSError:
        return False
    return (
        seen[3] == state.st_mtime_ns
        and seen[2] == state.st_size
        and seen[1] == state.st_ino
        and seen[0] == state.st_dev
        and (
            (state.st_uid == me and bool(state.st_mode & stat.S_IRUSR))
            or osfile.may_read(entry.path, state)
        )
    )


def _me() -> int:
    return -1 if sys.platform == "win32" else os.geteuid()


def _file(
    entry: os.DirEntry[str], skipped: list[Skipped], seen: CachedFile | None
) -> NativeFile | None:
    native_id = entry.name.removesuffix(".jsonl")
    if seen is None and not is_session_id(native_id) and not native_id.startswith("agent-"):
        reason = "its name is not a session id (a UUID)"
    else:
        try:
            state = entry.stat()
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            size, path = state.st_size, entry.path
            if size and stat.S_ISREG(state.st_mode):
                identity = Identity(state.st_dev, state.st_ino, size, state.st_mtime_ns)
                return NativeFile(path, native_id, identity, osfile.may_read(path, state))
            reason = "empty file" if stat.S_ISREG(state.st_mode) else "not a regular file"
    skipped.append(Skipped(entry.path, reason))
    return None


def _what_it_is(mode: int) -> str:
    for is_one, name in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if is_one(mode):
            return name
    return "a device"


def is_session_id(text: str) -> bool:
    """A canonical lower-case UUID; the agent refuses other names."""
    return _ID.fullmatch(text) is not None


@functools.lru_cache(1024)
def slug(path: str) -> str:
    """The agent's folder name for a directory.

    Each UTF-16 unit that is not an ASCII letter or digit becomes a hyphen; names over 200
    units are cut there and a base-36 hash of the whole path is added.
    """
    units = path.encode("utf-16-le", "surrogatepass")
    codes = [units[i] | units[i + 1] << 8 for i in range(0, len(units), 2)]
    name = "".join(chr(c) if c < 128 and chr(c).isalnum() else "-" for c in codes)
    if len(name) <= _LONGEST_SLUG:
        return name
    value = 0
    for code in codes:
        value = (value * 31 + code) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return f"{name[:_LONGEST_SLUG]}-{_base36(abs(signed))}"


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
        if not number:
            return digits


def _entries(folder: str, skipped: list[Skipped]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        skipped.append(Skipped(folder, error.strerror or str(error)))
        return []


def _is_directory(entry: os.DirEntry[str], skipped: list[Skipped]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        skipped.append(Skipped(entry.path, error.strerror or str(error)))
        return False


def _is_plain_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
