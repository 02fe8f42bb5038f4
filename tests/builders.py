"""Builds Claude Code transcripts, record by record, in the shapes claude 2.1.197 writes.

    from tests.builders import Transcript

    t = Transcript(cwd="/home/ada/proj", seed=7)
    t.turn("add a retry", "done")                        # prompt + answer
    t.prompt("list the files")
    t.tool("Bash", {"command": "ls"}, "a.py\\nb.py")     # call + result
    t.answer("two files")
    path = t.write(config_dir)                           # <config_dir>/projects/<slug>/<id>.jsonl

Every method appends records in file order and moves `head`, the record that the next one
descends from; it returns the uuid of the (last) record it wrote.  Uuids, ids and times
follow from `seed` alone, so that two builds are byte for byte the same.  `records` is the
list of lines: dicts, or bytes for lines that are no JSON.  Dicts may be changed in place
before `write`.
"""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import define

Record = dict[str, Any]

_FOLDER = "@@folder-of-the-session@@"
"""Stands for the absolute path of the session's own folder until `write` knows it."""


@define(frozen=True)
class Call:
    """A tool call: its id, the uuid of the assistant record, the uuid of the result record."""

    id: str
    use: str
    result: str | None


class Transcript:
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

    # Ids and time

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

    # Records

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

    # Turns

    def turn(self, prompt: str, answer: str = "done") -> str:
        """A prompt and its answer; returns the uuid of the prompt, which is the turn's id."""
        turn_id = self.prompt(prompt)
        self.answer(answer)
        return turn_id

    def turns(self, count: int, *, first: int = 1) -> list[str]:
        """Turns "question N" / "answer N"; returns their ids."""
        return [self.turn(f"question {n}", f"answer {n}") for n in range(first, first + count)]

    def prompt(
        self, text: str | Sequence[Record], *, parent: str | bool | None = True, **more: Any
    ) -> str:
        """A prompt that a person or program wrote; `text` may be content blocks."""
        self.prompt_id = self.new_uuid()
        body = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": text},
        }
        typed = self.entrypoint == "cli"
        told: Record = {"permissionMode": "default"}
        if typed:
            told["origin"] = {"kind": "human"}
        told["promptSource"] = "typed" if typed else "sdk"
        turn_id = self.message(body, parent=parent, **{**told, **more})
        self.prompts.append(turn_id)
        return turn_id

    def answer(self, text: str = "done", *, end_turn: bool = True, **more: Any) -> str:
        """A text answer of the model in an API message of its own."""
        return self.blocks([{"type": "text", "text": text}], stop=end_turn, **more)

    def thinking(self, thought: str, text: str | None = None, *, signature: str = "c2ln") -> str:
        """Thinking, and in the same API message the text, each block in a record of its own."""
        blocks = [{"type": "thinking", "thinking": thought, "signature": signature}]
        if text is not None:
            blocks.append({"type": "text", "text": text})
        return self.blocks(blocks)

    def blocks(
        self, blocks: Iterable[Record], *, stop: bool = True, model: str | None = None, **more: Any
    ) -> str:
        """One API message: one chained assistant record per content block."""
        message_id, request_id = self.new_id("msg_"), self.new_id("req_")
        last = ""
        for block in blocks:
            last = self._assistant(block, message_id, request_id, stop, model, **more)
        return last

    def _assistant(
        self,
        block: Record,
        message_id: str,
        request_id: str,
        stop: bool,
        model: str | None = None,
        **more: Any,
    ) -> str:
        message = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model or self.model,
            "content": [block],
            "stop_reason": "end_turn" if stop else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 19452, "output_tokens": 13, "service_tier": "standard"},
        }
        return self.message(
            {"message": message, "requestId": request_id, "type": "assistant"}, **more
        )

    # Tools

    def tool(
        self,
        name: str,
        arguments: Record,
        result: str | list[Record] | None = "ok",
        *,
        say: str | None = None,
        structured: Any = None,
        is_error: bool | None = None,
    ) -> Call:
        """A tool call and its result; `result` None leaves the call dangling."""
        message_id, request_id = self.new_id("msg_"), self.new_id("req_")
        if say is not None:
            self._assistant({"type": "text", "text": say}, message_id, request_id, False)
        call_id = self.new_id("toolu_")
        use = self._assistant(_use(call_id, name, arguments), message_id, request_id, False)
        done = None
        if result is not None:
            done = self.result(call_id, use, result, structured=structured, is_error=is_error)
        return Call(call_id, use, done)

    def parallel_tools(
        self, calls: Sequence[tuple[str, Record, str | None]], *, say: str | None = None
    ) -> list[Call]:
        """Calls of one API message: each call descends from the one before, each result from
        its own call, and the conversation goes on below the last result, so that the earlier
        results are off the chain."""
        message_id, request_id = self.new_id("msg_"), self.new_id("req_")
        if say is not None:
            self._assistant({"type": "text", "text": say}, message_id, request_id, False)
        uses = []
        for name, arguments, _ in calls:
            call_id = self.new_id("toolu_")
            block = _use(call_id, name, arguments)
            uses.append((call_id, self._assistant(block, message_id, request_id, False)))
        out = []
        for (call_id, use), (_, _, text) in zip(uses, calls, strict=True):
            done = None if text is None else self.result(call_id, use, text)
            out.append(Call(call_id, use, done))
        return out

    def result(
        self,
        call_id: str,
        use: str,
        content: str | list[Record],
        *,
        structured: Any = None,
        is_error: bool | None = None,
    ) -> str:
        """The result record of a call, a child of the assistant record `use`."""
        block: Record = {"tool_use_id": call_id, "type": "tool_result", "content": content}
        if is_error is not None:
            block["is_error"] = is_error
        if structured is None:
            text = content if isinstance(content, str) else ""
            structured = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        return self.message(
            {
                "promptId": self.prompt_id,
                "type": "user",
                "message": {"role": "user", "content": [block]},
            },
            parent=use,
            toolUseResult=structured,
            sourceToolAssistantUUID=use,
        )

    def write_file(self, path: str, content: str, *, before: str | None = None) -> Call:
        """A Write call (`before` None: a new file) with the file backup it makes.

        `path` is absolute.  `before` becomes a backup under file-history/<session id>/.
        """
        turn_id = self.prompts[-1]
        kind = "create" if before is None else "update"
        call = self.tool(
            "Write",
            {"file_path": path, "content": content},
            f"File written: {path}",
            structured={
                "type": kind,
                "filePath": path,
                "content": content,
                "structuredPatch": [],
                "originalFile": before,
                "userModified": False,
            },
        )
        backup = None if before is None else self.backup(path, before.encode())
        name = path.removeprefix(self.cwd.rstrip("/") + "/")
        self.snapshot(turn_id, {name: backup}, update_of=call.use)
        return call

    def big_tool(
        self, name: str, arguments: Record, output: str, *, file: str | None = None
    ) -> Call:
        """A call whose output was too large: kept in tool-results/, a preview in the record."""
        file = file or self.new_id("b", 8) + ".txt"
        self.files[f"tool-results/{file}"] = output.encode()
        path = f"{_FOLDER}/tool-results/{file}"
        preview = (
            f"<persisted-output>\nOutput too large. Full output saved to: {path}\n\n"
            f"Preview:\n{output[:200]}\n...\n</persisted-output>"
        )
        structured = {
            "stdout": output[:400],
            "stderr": "",
            "interrupted": False,
            "isImage": False,
            "persistedOutputPath": path,
            "persistedOutputSize": len(output.encode()),
        }
        return self.tool(name, arguments, preview, structured=structured)

    def subagent(
        self, task: str, answer: str, *, agent_id: str | None = None, files: bool = True
    ) -> Call:
        """An Agent call with its result, and (`files`) the subagent's own transcript and meta."""
        agent_id = agent_id or self.new_id("a", 16)
        arguments = {
            "description": "look",
            "prompt": task,
            "subagent_type": "general-purpose",
        }
        text = [{"type": "text", "text": answer}]
        structured = {"status": "completed", "prompt": task, "agentId": agent_id, "content": text}
        call = self.tool("Agent", arguments, text, structured=structured)
        if files:
            child = self._of_subagent(agent_id)
            child.sidechain(task, answer)
            meta = {
                "agentType": "general-purpose",
                "description": "look",
                "toolUseId": call.id,
                "spawnDepth": 1,
            }
            self.files[f"subagents/agent-{agent_id}.jsonl"] = child.dump()
            self.files[f"subagents/agent-{agent_id}.meta.json"] = _json(meta)
        return call

    def _of_subagent(self, agent_id: str) -> Transcript:
        child = Transcript(
            self.cwd,
            session_id=self.session_id,
            seed=self._random.getrandbits(64),
            entrypoint=self.entrypoint,
            version=self.version,
        )
        child._clock = self._clock
        child.extra = {"isSidechain": True, "agentId": agent_id}
        return child

    def sidechain(self, prompt: str, answer: str) -> str:
        """Side-chain records in this file; they stay off `head` and `prompts`."""
        head, extra = self.head, self.extra
        self.extra = {**extra, "isSidechain": True}
        body = {"type": "user", "message": {"role": "user", "content": prompt}}
        self.message({"promptId": self.prompt_id, **body}, parent=None)
        last = self.answer(answer)
        self.head, self.extra = head, extra
        return last

    # Context and events in the chain

    def attachment(self, kind: str = "task_reminder", **fields: Any) -> str:
        """Context that the program put in: part of the chain, never a turn."""
        fields = fields or {"content": [], "itemCount": 0}
        return self.message({"attachment": {"type": kind, **fields}, "type": "attachment"})

    def meta(self, text: str) -> str:
        """A user record that no person wrote (`isMeta`)."""
        return self._user(text, isMeta=True)

    def _user(self, content: str | list[Record], **more: Any) -> str:
        return self.message(
            {
                "promptId": self.prompt_id or self.new_uuid(),
                "type": "user",
                "message": {"role": "user", "content": content},
            },
            **more,
        )

    def system(self, subtype: str, **fields: Any) -> str:
        return self.message({"type": "system", "subtype": subtype, "isMeta": False, **fields})

    def turn_duration(self) -> str:
        """The record with which the TUI ends a turn."""
        return self.system("turn_duration", durationMs=158, messageCount=6)

    def queued_prompt(self, text: str) -> str:
        """A prompt typed while a turn was running: an attachment inside that turn."""
        return self.attachment(
            "queued_command", prompt=text, commandMode="prompt", origin={"kind": "human"}
        )

    def interrupt(self, *, in_tool: bool = False) -> str:
        """The marker of a turn that a person broke off."""
        text = "[Request interrupted by user" + (" for tool use]" if in_tool else "]")
        return self._user([{"type": "text", "text": text}])

    def slash_command(self, name: str, output: str) -> str:
        """A local command of the TUI: its echo and its output, no turn."""
        echo = f"<command-name>/{name}</command-name>\n<command-message>{name}</command-message>"
        self.system("local_command", content=echo, level="info")
        out = f"<local-command-stdout>{output}</local-command-stdout>"
        return self.system("local_command", content=out, level="info")

    def compact(
        self,
        trigger: str = "manual",
        *,
        summary: str = "Summary of what was said.",
        preserved: Sequence[str] | None = None,
    ) -> str:
        """A compaction: boundary (a new root) and summary; manual: the command's echo too.

        `preserved`: uuids of records before the boundary that stay in the context verbatim,
        oldest first; None: the record at the head; empty: none, as older versions wrote.
        Returns the uuid of the boundary.
        """
        before = self.head
        kept = list(preserved) if preserved is not None else [before] if before else []
        boundary, anchor = self.new_uuid(), self.new_uuid()
        metadata: Record = {"trigger": trigger, "preTokens": 19531, "durationMs": 60}
        if kept:
            metadata["preservedSegment"] = {
                "headUuid": kept[0],
                "anchorUuid": anchor,
                "tailUuid": kept[-1],
            }
            metadata["preservedMessages"] = {
                "anchorUuid": anchor,
                "uuids": kept,
                "allUuids": kept,
            }
        body = {
            "logicalParentUuid": before,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
            "level": "info",
            "compactMetadata": metadata,
        }
        self.message(body, parent=None, uuid=boundary)
        if trigger == "manual":
            self.prompt_id = self.new_uuid()
        self._user(summary, uuid=anchor, isVisibleInTranscriptOnly=True, isCompactSummary=True)
        if trigger == "manual":
            self.meta("<local-command-caveat>Output of a local command.</local-command-caveat>")
            self._user("<command-name>/compact</command-name>")
            self._user("<local-command-stdout>Compacted</local-command-stdout>")
        return boundary

    # Branches

    def branch_from(self, parent: str | None) -> None:
        """What follows descends from `parent`: how the TUI goes on after its own rewind."""
        self.head = parent

    def rewind_pointer(self, leaf: str | None) -> None:
        """The explicit pointer that makes `leaf` (None: nothing) the end of the conversation."""
        self.append(
            {
                "type": "last-prompt",
                "leafUuid": leaf,
                "explicit": True,
                "rewound": True,
                "sessionId": self.session_id,
            }
        )
        self.head = leaf

    def fork_of(self, source: str) -> None:
        """Mark every chained record so far as the TUI's own branching does (`forkedFrom`)."""
        for record in self.messages():
            record["forkedFrom"] = {"sessionId": source, "messageUuid": record["uuid"]}

    # Records outside the chain

    def last_prompt(self, text: str, leaf: str | None = None) -> None:
        self.append(
            {
                "type": "last-prompt",
                "lastPrompt": text,
                "leafUuid": leaf or self.head,
                "sessionId": self.session_id,
            }
        )

    def queue_operation(self, operation: str = "enqueue", content: str | None = None) -> None:
        record = {"type": "queue-operation", "operation": operation, "timestamp": self.now()}
        record["sessionId"] = self.session_id
        if content is not None:
            record["content"] = content
        self.append(record)

    def mode(self, mode: str = "normal") -> None:
        self.append({"type": "mode", "mode": mode, "sessionId": self.session_id})

    def permission_mode(self, mode: str = "default") -> None:
        record = {"type": "permission-mode", "permissionMode": mode}
        self.append({**record, "sessionId": self.session_id})

    def custom_title(self, title: str) -> None:
        record = {"type": "custom-title", "customTitle": title}
        self.append({**record, "sessionId": self.session_id})

    def ai_title(self, title: str) -> None:
        self.append({"type": "ai-title", "aiTitle": title, "sessionId": self.session_id})

    def summary(self, text: str, leaf: str | None = None) -> None:
        """The title record of older versions."""
        self.append({"type": "summary", "summary": text, "leafUuid": leaf or self.head})

    def relocated(self, cwd: str) -> None:
        """The session moved to `cwd`; records that follow carry it."""
        self.append({"type": "relocated", "relocatedCwd": cwd, "sessionId": self.session_id})
        self.cwd = cwd

    def snapshot(
        self,
        turn_id: str,
        backups: dict[str, str | None] | None = None,
        *,
        update_of: str | None = None,
    ) -> None:
        """A file-history snapshot of the turn.

        `backups`: path (relative to the cwd where inside it) -> name of a backup (see
        `backup`), None for a file that did not exist.  `update_of`: the assistant record
        whose call made the backup.
        """
        when = self.now()
        tracked = {
            path: {
                "backupFileName": name,
                "version": 1 if name is None else int(name.rsplit("@v", 1)[1]),
                "backupTime": when,
            }
            for path, name in (backups or {}).items()
        }
        self.append(
            {
                "type": "file-history-snapshot",
                "messageId": update_of or turn_id,
                "snapshot": {
                    "messageId": turn_id,
                    "trackedFileBackups": tracked,
                    "timestamp": when,
                },
                "isSnapshotUpdate": update_of is not None,
            }
        )

    def backup(self, path: str, content: bytes, version: int = 1) -> str:
        """Keep `content` as backup `version` of the absolute `path`; returns its name."""
        name = f"{hashlib.sha256(path.encode()).hexdigest()[:16]}@v{version}"
        self.backups[name] = content
        return name

    def unknown(self, kind: str = "from-the-future", **fields: Any) -> None:
        """A record of a type that no version known to us writes."""
        self.append({"type": kind, "sessionId": self.session_id, **fields})

    # Order and damage

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

    def drop(self, *record_ids: str) -> None:
        """Leave records out, so that their children's parents are missing."""
        for record_id in record_ids:
            self.records.remove(self.find(record_id))

    # Files

    def dump(self, folder: Path | str = _FOLDER) -> bytes:
        """The file's bytes; `folder` is where the session's own folder will lie."""
        lines = [r if isinstance(r, bytes) else _json(r) for r in self.records]
        data = b"".join(line + b"\n" for line in lines)
        return data.replace(_FOLDER.encode(), _json(str(folder))[1:-1])

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


def live_session(
    config_dir: Path | str, pid: int, session_id: str, cwd: str = "/home/ada/project", **more: Any
) -> Path:
    """Register a running program as claude does in sessions/<pid>.json; returns the path."""
    started = int(datetime(2026, 1, 31, 9, tzinfo=UTC).timestamp() * 1000)
    record = {"pid": pid, "sessionId": session_id, "cwd": cwd, "startedAt": started, **more}
    path = Path(config_dir) / "sessions" / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_json(record))
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


def _use(call_id: str, name: str, arguments: Record) -> Record:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
