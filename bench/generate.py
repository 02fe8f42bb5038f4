"""Deterministic Claude Code sessions of any size, shaped like those of real work.

The records, their keys and the order of the keys are those of program version 2.1.197.  Sizes
follow recorded sessions: most records have about a kilobyte, one tool result in fifty has
fifty of them, and the program keeps each tool result twice.  A turn takes about 22 kB.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
from attrs import define

_VERSION = "2.1.197"
_EPOCH_MS = 1_772_442_000_000  # 2026-03-02T09:00:00Z
_SIZES = (80, 300, 900, 2_000, 6_000, 50_000)
_PASSAGES = {80: 200, 300: 300, 900: 300, 2_000: 200, 6_000: 60, 50_000: 16}
_RESULTS = ((0.02, 50_000), (0.10, 6_000), (0.45, 2_000), (0.80, 900), (1.00, 300))
_NOUNS = ("anchor", "basin", "cable", "dial", "ember", "ferry", "gauge", "hinge", "inlet", "jetty")
_VERBS = ("bind", "carry", "divert", "empty", "fold", "gather", "hoist", "join", "load", "measure")

Record = dict[str, Any]


@define(frozen=True)
class Made:
    """A session that was written: its file, and the uuid of each turn's last message."""

    session_id: str
    path: Path
    cwd: str
    turns: int
    bytes: int
    leaves: list[str]

    @property
    def wire_id(self) -> str:
        return f"claude-code:{self.session_id}"


class Writer:
    """Makes sessions under one config directory; the same seed makes the same bytes."""

    def __init__(self, config: Path, seed: int = 1) -> None:
        self._config = config
        self._random = Random(seed)
        self._passages = {
            size: [self._passage(size * self._random.randint(60, 140) // 100) for _ in range(count)]
            for size, count in _PASSAGES.items()
        }

    def session(self, turns: int, cwd: str, *, started_ms: int = _EPOCH_MS) -> Made:
        """One session of `turns` turns in directory `cwd`."""
        session_id = self._uuid()
        folder = self._config / "projects" / re.sub(r"[^A-Za-z0-9]", "-", cwd)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{session_id}.jsonl"
        script = _Script(self, session_id, cwd, started_ms)
        leaves = []
        with path.open("wb", buffering=1 << 20) as file:
            for number in range(1, turns + 1):
                for record in script.turn(number):
                    file.write(orjson.dumps(record))
                    file.write(b"\n")
                leaves.append(script.parent or "")
        seconds = script.now_ms / 1000
        os.utime(path, (seconds, seconds))
        return Made(session_id, path, cwd, turns, path.stat().st_size, leaves)

    def store(self, sessions: int, folders: Sequence[str], *, most_turns: int) -> list[Made]:
        """Small sessions of 1 to `most_turns` turns, spread over the directories `folders`."""
        return [
            self.session(
                self._random.randint(1, most_turns),
                folders[number % len(folders)],
                started_ms=_EPOCH_MS + number * 3_600_000,
            )
            for number in range(sessions)
        ]

    def heavy_turn(self, cwd: str, megabytes: int = 1) -> Made:
        """A session whose one turn holds a little over `megabytes` MiB of tool output."""
        session_id = self._uuid()
        folder = self._config / "projects" / re.sub(r"[^A-Za-z0-9]", "-", cwd)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{session_id}.jsonl"
        script = _Script(self, session_id, cwd, _EPOCH_MS)
        records = [script.prompt("read everything there is")]
        read = 0
        while read < megabytes << 20:
            output = self.text(50_000)
            records += script.tool_round(1, output)
            read += len(output)
        records.append(script.answer(self.text(900)))
        path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
        return Made(session_id, path, cwd, 1, path.stat().st_size, [script.parent or ""])

    def text(self, size: int) -> str:
        """A passage of about `size` characters."""
        return self._random.choice(self._passages[size])

    def result(self) -> str:
        """What a tool printed."""
        drawn = self._random.random()
        return self.text(next(size for bound, size in _RESULTS if drawn < bound))

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def choice(self, *values: int) -> int:
        return self._random.choice(values)

    def hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"

    def uuid(self) -> str:
        return self._uuid()

    def _uuid(self) -> str:
        h = f"{self._random.getrandbits(128):032x}"
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"

    def _passage(self, size: int) -> str:
        lines: list[str] = []
        length = 0
        while length < size:
            line = self._line()
            lines.append(line)
            length += len(line) + 1
        return "\n".join(lines)[:size]

    def _line(self) -> str:
        pick = self._random.choice
        noun, other, verb = pick(_NOUNS), pick(_NOUNS), pick(_VERBS)
        kind = self._random.random()
        if kind < 0.3:
            return f'    {noun}.{verb}("{other}", limit={self._random.randint(1, 900)})'
        if kind < 0.4:
            return f"{self._random.randint(1, 2000):6}\t{verb}_{noun} = {other}"
        if kind < 0.45:
            return f"{verb} the {noun} — “{other}” … naïve, 東京"
        return f"{verb} the {noun} before the {other} can {pick(_VERBS)}"


class _Script:
    """One session while it is written: its clock and the record that comes next hangs off."""

    def __init__(self, writer: Writer, session_id: str, cwd: str, started_ms: int) -> None:
        self._writer = writer
        self._session_id = session_id
        self._cwd = cwd
        self._prompt_id = ""
        self._second = -1
        self._second_text = ""
        self._tokens = 18_000
        self.now_ms = started_ms
        self.parent: str | None = None

    def turn(self, number: int) -> Iterator[Record]:
        writer = self._writer
        if number % 3 == 0:
            yield {"type": "mode", "mode": "normal", "sessionId": self._session_id}
        text = f"step {number}: {writer.text(300 if writer.chance(0.8) else 2_000)}"
        yield self.prompt(text)
        assert self.parent is not None
        opening = self.parent
        yield self._snapshot(opening, opening, number, update=False)
        if number % 40 == 1:
            yield self._attachment(writer.text(6_000))
        for at in range(writer.choice(1, 2, 2, 3)):
            if at == 0:
                thought = {
                    "type": "thinking",
                    "thinking": writer.text(900),
                    "signature": writer.hex(400),
                }
                yield self._assistant(thought, "tool_use")
            if writer.chance(0.5):
                yield self._assistant({"type": "text", "text": writer.text(300)}, "tool_use")
            yield from self.tool_round(number, writer.result(), opening)
        yield self.answer(writer.text(900 if writer.chance(0.7) else 2_000))
        yield {
            "type": "last-prompt",
            "lastPrompt": " ".join(text.split())[:150],
            "leafUuid": self.parent,
            "sessionId": self._session_id,
        }

    def prompt(self, text: str) -> Record:
        self.now_ms += 9_000
        self._prompt_id = self._writer.uuid()
        return self._record(
            {
                "promptId": self._prompt_id,
                "type": "user",
                "message": {"role": "user", "content": text},
            },
            {"permissionMode": "default", "promptSource": "typed"},
        )

    def answer(self, text: str) -> Record:
        return self._assistant({"type": "text", "text": text}, "end_turn")

    def tool_round(self, number: int, output: str, opening: str | None = None) -> Iterator[Record]:
        """A tool call, its result, and for an edit the snapshot that precedes it."""
        writer = self._writer
        drawn = writer.choice(0, 0, 0, 0, 1, 1, 1, 2, 2, 2) if opening else 0
        path = f"{self._cwd}/src/part{number % 6}.py"
        call = f"toolu_{writer.hex(24)}"
        asked: Record
        result: Record
        if drawn == 0:
            name, asked = "Bash", {"command": f"make part{number % 6}", "description": "Build"}
            result = {
                "stdout": output,
                "stderr": "",
                "interrupted": False,
                "isImage": False,
                "noOutputExpected": False,
            }
        elif drawn == 1:
            name, asked = "Read", {"file_path": path}
            file = {"filePath": path, "content": output, "numLines": 40, "startLine": 1}
            result = {"type": "text", "file": {**file, "totalLines": 40}}
        else:
            old, new = writer.text(300), writer.text(300)
            name = "Edit"
            asked = {"replace_all": False, "file_path": path, "old_string": old, "new_string": new}
            output = f"The file {path} was changed."
            result = {
                "filePath": path,
                "oldString": old,
                "newString": new,
                "originalFile": writer.text(2_000),
                "structuredPatch": [],
                "userModified": False,
                "replaceAll": False,
            }
        yield self._assistant(
            {"type": "tool_use", "id": call, "name": name, "input": asked}, "tool_use"
        )
        caller = self.parent
        if drawn == 2 and caller is not None and opening is not None:
            yield self._snapshot(caller, opening, number, update=True)
        block = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
        yield self._record(
            {
                "promptId": self._prompt_id,
                "type": "user",
                "message": {"role": "user", "content": [block]},
            },
            {"toolUseResult": result, "sourceToolAssistantUUID": caller},
        )

    def _assistant(self, block: Record, stop: str) -> Record:
        self._tokens += 11
        usage = {
            "input_tokens": self._tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 120,
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
            "inference_geo": "",
            "iterations": [],
            "speed": "standard",
        }
        message = {
            "id": f"msg_{self._writer.hex(24)}",
            "type": "message",
            "role": "assistant",
            "model": "scripted-model",
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
            "stop_details": None,
        }
        request = f"req_{self._writer.hex(24)}"
        return self._record({"message": message, "requestId": request, "type": "assistant"}, {})

    def _attachment(self, content: str) -> Record:
        attachment = {"type": "skill_listing", "content": content}
        return self._record({"attachment": attachment, "type": "attachment"}, {})

    def _snapshot(self, message: str, of: str, number: int, *, update: bool) -> Record:
        now = self._stamp()
        files = [number % 6] if update else range(min(number, 6))
        backups = {
            f"src/part{file}.py": {
                "backupFileName": None if update else f"8c1d77e0{file:08x}@v{number}",
                "version": 1 if update else number,
                "backupTime": now,
            }
            for file in files
        }
        return {
            "type": "file-history-snapshot",
            "messageId": message,
            "snapshot": {"messageId": of, "trackedFileBackups": backups, "timestamp": now},
            "isSnapshotUpdate": update,
        }

    def _record(self, middle: Record, later: Record) -> Record:
        uuid = self._writer.uuid()
        parent, self.parent = self.parent, uuid
        return {
            "parentUuid": parent,
            "isSidechain": False,
            **middle,
            "uuid": uuid,
            "timestamp": self._stamp(),
            **later,
            "userType": "external",
            "entrypoint": "cli",
            "cwd": self._cwd,
            "sessionId": self._session_id,
            "version": _VERSION,
            "gitBranch": "main",
        }

    def _stamp(self) -> str:
        self.now_ms += 40
        second, millis = divmod(self.now_ms, 1000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{millis:03}Z"
