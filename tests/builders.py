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
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import define

from tests.chain import FOLDER, Chain, Record, slug, to_json

__all__ = ["Call", "Transcript", "live_session", "slug"]


@define(frozen=True)
class Call:
    """A tool call: its id, the uuid of the assistant record, the uuid of the result record."""

    id: str
    use: str
    result: str | None


class Transcript(Chain):
    """One session file and what is said in it."""

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
        path = f"{FOLDER}/tool-results/{file}"
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
            self.files[f"subagents/agent-{agent_id}.meta.json"] = to_json(meta)
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
            "queued_command",
            prompt=text,
            commandMode="prompt",
            origin={"kind": "human"},
            timestamp=self.now(),
        )

    def custom_command(self, name: str, arguments: str = "", *, expansion: str = "Do it.") -> str:
        """A command of the project (`/name arguments`): an echo, and what it expands to.

        The model is asked, so this opens a turn; returns the uuid of the echo.
        """
        self.prompt_id = self.new_uuid()
        turn_id = self._user(
            f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
            f"<command-args>{arguments}</command-args>"
        )
        self.prompts.append(turn_id)
        self._user([{"type": "text", "text": expansion}], isMeta=True)
        self.attachment("command_permissions", allowedTools=[])
        return turn_id

    def bash_mode(self, command: str, output: str = "") -> str:
        """`!command` in the TUI: input and output of one prompt id; returns the input's uuid."""
        self.prompt_id = self.new_uuid()
        echo = self._user(f"<bash-input>{command}</bash-input>")
        self._user(f"<bash-stdout>{output}</bash-stdout><bash-stderr></bash-stderr>")
        return echo

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

        With `trigger` "auto" it falls into the open turn, as the program does it: the
        prompt, and what was answered so far, stay before the boundary, and what follows
        descends from the summary.

        `preserved`: uuids of records before the boundary that stay in the context verbatim,
        oldest first; None: those from the last API message to the head, as 2.1.197 keeps
        them; empty: none, as older versions wrote.  Returns the uuid of the boundary.
        """
        before = self.head
        kept = self._last_exchange() if preserved is None else list(preserved)
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
        metadata.update(postTokens=585, cumulativeDroppedTokens=18946)
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
        self.attachment()
        return boundary

    def _last_exchange(self) -> list[str]:
        """The uuids from the first record of the last API message to the head, on the chain."""
        by_id = {r["uuid"]: r for r in self.messages()}
        kept: list[str] = []
        message_id = None
        record = by_id.get(self.head or "")
        while record is not None:
            own = record["message"]["id"] if record["type"] == "assistant" else None
            if message_id is not None and own != message_id:
                break
            message_id = own
            kept.insert(0, record["uuid"])
            record = by_id.get(record["parentUuid"] or "")
        return kept

    def compact_in_turn_as_the_tui(self, *, answer: str = "done") -> str:
        """An automatic compaction after a tool result, in the order in which the TUI writes it.

        The answer that follows descends from the tool result before the boundary and comes
        before the summary in the file; the tool result is written a second time, and a side
        leaf hangs off it.  Returns the uuid of the boundary.
        """
        result = self.head
        assert result is not None
        boundary = self.compact("auto")
        summary = self.find_summary(boundary)
        self.drop(self.messages()[-1]["uuid"])
        self.head = result
        last = self.answer(answer)
        self.move_before(last, summary)
        end = self.turn_duration()
        self.repeat(result)
        self.head = result
        self.attachment()
        self.head = end
        return boundary

    def find_summary(self, boundary: str) -> str:
        """The uuid of the summary that follows a boundary."""
        return str(next(r["uuid"] for r in self.messages() if r["parentUuid"] == boundary))

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


def live_session(
    config_dir: Path | str, pid: int, session_id: str, cwd: str = "/home/ada/project", **more: Any
) -> Path:
    """Register a running program as claude does in sessions/<pid>.json; returns the path."""
    started = int(datetime(2026, 1, 31, 9, tzinfo=UTC).timestamp() * 1000)
    record = {"pid": pid, "sessionId": session_id, "cwd": cwd, "startedAt": started, **more}
    path = Path(config_dir) / "sessions" / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_json(record))
    return path


def _use(call_id: str, name: str, arguments: Record) -> Record:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
