"""The file below a built transcript: lines, ids, time, the parent chain, and where it lies.

`tests.builders.Transcript` adds what is said in it.
"""

from __future__ import annotations

import json
import random
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

Record = dict[str, Any]

FOLDER = "@@folder-of-the-session@@"
"""Stands for the absolute path of the session's own folder until `write` knows it."""


class Chain:
    """One session file.  `head` is the uuid that the next chained record descends from."""

    def __init__(
        self,
        cwd: str = "/home/ada/project",
        *,
        session_id: str | None = None,
        seed: int = 0,
        entrypoint: str = "sdk-cli",
        version: str = "2.1.197",
        git_branch: str = "main",
        model: str = "claude-opus-4-8",
        start: str = "2026-01-31T09:00:00.000Z",
        step_ms: int = 250,
    ) -> None:
        self._random = random.Random(seed)
        self.session_id = session_id or self.new_uuid()
        self.cwd = cwd
        self.entrypoint = entrypoint
        self.version = version
        self.git_branch = git_branch
        self.model = model
        self.records: list[Record | bytes] = []
        self.head: str | None = None
        self.prompt_id: str | None = None
        self.prompts: list[str] = []
        self.extra: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.backups: dict[str, bytes] = {}
        self._clock = datetime.fromisoformat(start)
        self._step = timedelta(milliseconds=step_ms)

    def new_uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def new_id(self, prefix: str, digits: int = 24) -> str:
        return f"{prefix}{self._random.getrandbits(4 * digits):0{digits}x}"

    def now(self) -> str:
        """The next timestamp; each one is `step_ms` after the one before."""
        self._clock += self._step
        return self._clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def wait(self, seconds: float) -> None:
        self._clock += timedelta(seconds=seconds)

    def append(self, record: Record | bytes) -> None:
        """One line of any kind, outside the chain: an unknown record, or bytes as they are."""
        self.records.append(record)

    def message(self, body: Record, *, parent: str | bool | None = True, **more: Any) -> str:
        """A chained record.  `parent`: True = the head, else a uuid or None.  Moves the head."""
        record_id = more.pop("uuid", None) or self.new_uuid()
        record: Record = {
            "parentUuid": self.head if parent is True else parent,
            "isSidechain": False,
            **body,
            "uuid": record_id,
            "timestamp": self.now(),
            **more,
            "userType": "external",
            "entrypoint": self.entrypoint,
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": self.version,
            "gitBranch": self.git_branch,
            **self.extra,
        }
        self.records.append(record)
        self.head = record_id
        return record_id

    def messages(self) -> list[Record]:
        """The chained records (those with a uuid), in file order."""
        return [r for r in self.records if isinstance(r, dict) and "uuid" in r]

    def find(self, record_id: str) -> Record:
        return next(r for r in self.messages() if r["uuid"] == record_id)

    def move_before(self, record_id: str, other_id: str) -> None:
        """Move a record in the file; the TUI writes a turn's answer before its prompt."""
        record = self.find(record_id)
        self.records.remove(record)
        self.records.insert(self.records.index(self.find(other_id)), record)

    def repeat(self, record_id: str) -> None:
        """Write a record a second time, as the program does around a compaction."""
        self.records.append(dict(self.find(record_id)))

    def drop(self, *record_ids: str) -> None:
        """Leave records out, so that their children's parents are missing."""
        for record_id in record_ids:
            self.records.remove(self.find(record_id))

    def dump(self, folder: Path | str = FOLDER) -> bytes:
        """The file's bytes; `folder` is where the session's own folder will lie."""
        lines = [r if isinstance(r, bytes) else to_json(r) for r in self.records]
        data = b"".join(line + b"\n" for line in lines)
        return data.replace(FOLDER.encode(), to_json(str(folder))[1:-1])

    def path(self, config_dir: Path | str) -> Path:
        """Where `write` puts the transcript: the project folder of the first cwd."""
        first = next((r["cwd"] for r in self.messages() if "cwd" in r), self.cwd)
        return Path(config_dir) / "projects" / slug(first) / f"{self.session_id}.jsonl"

    def write(self, config_dir: Path | str) -> Path:
        """Write transcript, session folder and file history below `config_dir`."""
        path = self.path(config_dir)
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = path.with_suffix("")
        path.write_bytes(self.dump(folder))
        history = Path(config_dir) / "file-history" / self.session_id
        for place, contents in ((folder, self.files), (history, self.backups)):
            for name, content in contents.items():
                target = place / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        return path


def slug(cwd: str) -> str:
    """The project folder's name for a working directory (`cwd` already resolved)."""
    units = memoryview(cwd.encode("utf-16-le", "surrogatepass")).cast("H")
    plain = "".join(chr(u) if chr(u).isascii() and chr(u).isalnum() else "-" for u in units)
    if len(plain) <= 200:
        return plain
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >> 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{plain[:200]}-{digits or '0'}"


def to_json(value: Any) -> bytes:
    """A record as the program writes it: no spaces, no escapes that need not be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
