"""The table of a transcript's lines, filled in one pass over the file.

Columns are arrays, 21 bytes a line: where the line starts, which record it is, which line is
its parent, what kind it is.  Most lines have one of three shapes, whose few members that matter
stand at places known from the line's two ends; those are read without parsing.  The proof that
this says what a parser would say: an unescaped quote cannot stand inside a JSON string, so a
match of `"key":"` is a member; and a line that ends with flat members and the closing brace has
them in its outermost object.  Whatever does not fit exactly is parsed.
"""

from __future__ import annotations

import re
from array import array

from attrs import define

from session.agents.claude_code import records
from session.agents.claude_code.records import (
    ASSISTANT,
    ATTACHMENT,
    COMPACT,
    DUPLICATE,
    GAP,
    KIND,
    LOCAL,
    NOTE,
    POINTER,
    PROMPT,
    RESULT,
    SIDECHAIN,
    SNAPSHOT,
    SPOKEN,
    TORN,
    TREE,
    Record,
)

_RECENT = 8192
_FAR = 256
_SLOW_LOOKUPS = 64
# Snapshot ids are prompts' ids; a salt keeps them apart in the column of ids.
SNAPSHOT_SALT = 0x5EED5EED5EED

# The shapes.  A record's two ends: `{"parentUuid":"<36>","isSidechain":false,"…` and
# `…"uuid":"<36>","timestamp":"<24>"` before the flat members that most lines share.
_HEAD = b'{"parentUuid":"'
_MAIN = b'","isSidechain":false,"'
_STAMP = b'","timestamp":"'
_ASSISTANT = b'","type":"assistant","uuid":"'
_ATTACHMENT = b'"type":"attachment","uuid":"'
_USER = b'","type":"user","message":{"role":"user","content":[{"tool_use_id":"'
_RESULT = b'","type":"tool_result",'
_CALL = b'"content":[{"type":"tool_use","id":"'
_MODEL = re.compile(rb'"model":"([^"\\<]+)"')
_FLAT = re.compile(
    rb'(?:,"(?:userType|entrypoint|cwd|sessionId|version|gitBranch|slug)":"[^"\\]*")+\}'
)


@define(frozen=True)
class Missing:
    """A line whose parent is in no record; `line` is its index in the table."""

    line: int
    missing: str


@define(frozen=True)
class Origin:
    """The session this one was forked from, and the last turn it took over."""

    session: str
    turn_id: str | None
    turn_number: int | None


@define
class Compaction:
    line: int
    preserved: list[int] | None  # ids (hashed) of records that stay; None: nothing said


class LineTable:
    """The lines of one file and what they say about the session as a whole."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.ids = array("q")
        self.parents = array("i")
        self.kinds = bytearray()
        # Facts about the whole.
        self.first: Record = {}
        self.cwd: str | None = None
        self.last_cwd: str | None = None
        self.version: str | None = None
        self.entrypoint: str | None = None
        self.entrypoints: set[str] = set()
        self.created_at: str | None = None
        self.updated_at: str | None = None
        self.custom_title: str | None = None
        self.ai_title: str | None = None
        self.summary: str | None = None
        self.forked_from: Origin | None = None
        self.first_prompt: str | None = None
        self.torn_lines = 0
        self.open_calls: dict[str, int] = {}
        self.orphan_results: dict[str, int] = {}
        self.agent_calls: dict[str, int] = {}
        self.gaps: dict[int, Missing] = {}
        self.compactions: list[Compaction] = []
        # What the agent's choice of a branch depends on.
        self.newest = -1
        self.pointer: int | None = None
        self.explicit = False
        self.cleared = False
        # Scanning state.
        self.settled_late = False
        self._ending = b"\n"
        self._recent: dict[int, int] = {}
        self._known: dict[int, int] | None = None
        self._slow_lookups = 0
        self._pending: dict[int, list[Missing]] = {}
        self._last_main = -1
        self._last_prompt_id: str | None = None

    def add_lines(self, position: int, lines: list[bytes]) -> int:
        """Add whole lines, of which the first starts at byte `position`; returns where the next
        one will.  The loop is the reader's hot path: it calls nothing for a line of a common
        shape but what puts it into the tree."""
        ending = self._ending
        tail = len(ending) + 25
        for line in lines:
            size = len(line)
            # A second head would be a record glued to the stub of another.
            if line.endswith(ending) and line[51:74] == _MAIN and line.rfind(_HEAD) == 0:
                sort = line[74:82]
                uuid = size - tail - 51
                kind = call = None
                if sort == b'message"':
                    if line[uuid - 29 : uuid] == _ASSISTANT:
                        kind, call = ASSISTANT, self._call_in(line)
                elif sort == b"promptId":
                    uuid = line.find(b'"uuid":"', 190) + 8
                    kind, call = RESULT, self._answer_in(line, uuid - 8)
                elif sort == b"attachme" and line[uuid - 28 : uuid] == _ATTACHMENT:
                    kind, call = ATTACHMENT, b""
                if kind and call is not None and line[uuid + 36 : uuid + 51] == _STAMP:
                    self._add_shaped(position, line, kind, uuid, call)
                    position += size + 1
                    continue
            self._add_parsed(position, line)
            ending = self._ending
            tail = len(ending) + 25
            position += size + 1
        return position

    def _call_in(self, line: bytes) -> bytes | None:
        """The tool call that an assistant's line makes: `id name`, empty for none; None when
        only a parser can tell, or the program made the record up."""
        model = _MODEL.search(line, 74, 400)
        if model is None:
            return None
        at = line.find(b'"type":"tool_use"')
        if at < 0:
            return b""
        start = at - 12
        if not line.startswith(_CALL, start) or line.find(b'"type":"tool_use"', at + 17) >= 0:
            return None
        begin = at + 24
        close = line.find(b'"', begin)
        if not line.startswith(b',"name":"', close + 1):
            return None
        return line[begin:close] + b" " + line[close + 10 : line.find(b'"', close + 10)]

    def _answer_in(self, line: bytes, end: int) -> bytes | None:
        """The call that a result's line answers; `end` is where the member `uuid` starts."""
        if line[121 : 121 + len(_USER)] != _USER or line[end - 4 : end] != b"}]},":
            return None
        begin = 121 + len(_USER)
        close = line.find(b'"', begin)
        if not line.startswith(_RESULT, close) or line.rfind(b'"uuid":"') != end:
            return None
        if line.find(b'"tool_use_id":"', close, end) >= 0 or line[end + 83 : end + 84] != b'"':
            return None
        return line[begin:close]

    def _add_shaped(
        self, position: int, line: bytes, kind: int, uuid: int, call: bytes | None
    ) -> None:
        at = self._place(
            position, kind, line[uuid : uuid + 36].decode("ascii", "replace"), line[15:51].decode()
        )
        if at < 0:
            return
        self._last_main = self.newest = at
        self.explicit = self.cleared = False
        if kind == ATTACHMENT:
            return
        stamp = line[uuid + 51 : uuid + 75].decode("ascii", "replace")
        if (self.updated_at is None or stamp > self.updated_at) and stamp[-1:] == "Z":
            self.updated_at = stamp
        if call:
            if kind == RESULT:
                self._note_result(at, call.decode("utf-8", "replace"))
            else:
                id_, _, name = call.decode("utf-8", "replace").partition(" ")
                self._note_call(at, id_, name)

    def _learn_ending(self, line: bytes, record: Record) -> None:
        stamp = record.get("timestamp")
        if not isinstance(stamp, str) or len(stamp) != 24 or record.get("type") != "assistant":
            return
        at = line.rfind(b'"timestamp":"' + stamp.encode() + b'"')
        if at >= 0 and _FLAT.fullmatch(line, at + 38):
            self._ending = line[at + 38 :]

    def _add_parsed(self, offset: int, line: bytes) -> None:
        record = records.parse(line)
        if record is not None:
            self.add_record(offset, record)
            self._learn_ending(line, record)
            return
        if not line.strip(b"\x00 \t\r"):
            return
        self._append(offset, TORN | LOCAL)
        self.torn_lines += 1
        # A record glued to the stub of one that was never finished (a kill in mid-write).
        at = line.find(b'{"', 1)
        while at > 0:
            record = records.parse(line[at:])
            if record is not None and "type" in record:
                self.add_record(offset + at, record)
                return
            at = line.find(b'{"', at + 1)

    def _append(self, offset: int, kind: int, id_: int = 0, parent: int = -1) -> int:
        self.offsets.append(offset)
        self.kinds.append(kind)
        self.ids.append(id_)
        self.parents.append(parent)
        return len(self.kinds) - 1

    def add_record(self, offset: int, record: Record) -> None:
        flagged = records.kind_of(record)
        kind = flagged & KIND
        if kind not in TREE:
            self._add_other(offset, record, flagged)
            return
        if kind == PROMPT:
            # A prompt typed while a turn runs carries that turn's promptId.
            prompt_id = record.get("promptId")
            if not flagged & SIDECHAIN:
                if isinstance(prompt_id, str) and prompt_id == self._last_prompt_id:
                    kind, flagged = NOTE, flagged & ~KIND | NOTE
                self._last_prompt_id = prompt_id if isinstance(prompt_id, str) else None
        parent_uid = record.get("parentUuid")
        if parent_uid is None and kind == COMPACT:
            parent_uid = record.get("logicalParentUuid")
        line = self._place(
            offset, flagged, record["uuid"], parent_uid if isinstance(parent_uid, str) else None
        )
        if line >= 0:
            self._note_facts(line, kind, flagged, record)

    def _place(self, offset: int, flagged: int, uid: str, parent_uid: str | None) -> int:
        """Put a record into the tree; -1 when its id was there before, and the first one wins."""
        id_ = hash(uid)
        first = self._recent.get(id_)
        if first is None and self._pending:
            self._settle(id_, len(self.kinds))
        parent = self._find_parent(parent_uid)
        line = len(self.kinds)
        if first is None and self._last_main >= 0 and (parent < 0 or line - parent > _FAR):
            first = self._find(id_)
        if first is not None:
            self._append(offset, flagged | DUPLICATE, id_)
            self._recent[id_] = first
            if not flagged & SIDECHAIN:
                self.newest = first
                self.explicit = self.cleared = False
            return -1
        self._append(offset, flagged, id_, parent)
        self._remember(id_, line)
        if parent_uid is not None and not flagged & SIDECHAIN:
            if parent < 0:
                self._pending.setdefault(hash(parent_uid), []).append(Missing(line, parent_uid))
            elif self.kinds[parent] & SIDECHAIN:
                self._bridge(Missing(line, parent_uid), self._last_main)
        return line

    def _note_facts(self, line: int, kind: int, flagged: int, record: Record) -> None:
        stamp = records.time_of(record)
        if self.created_at is None and stamp:
            self.created_at = stamp
        if stamp and kind in SPOKEN and (self.updated_at is None or stamp > self.updated_at):
            self.updated_at = stamp
        cwd = record.get("cwd")
        if isinstance(cwd, str):
            self.cwd = self.cwd or cwd
            self.last_cwd = cwd
        if not self.first:
            self.first = {k: record.get(k) for k in ("entrypoint", "sessionId", "agentId")}
            self.first["isSidechain"] = bool(flagged & SIDECHAIN)
        origin = record.get("forkedFrom")
        if isinstance(origin, dict) and (kind == PROMPT or self.forked_from is None):
            # The agent's own forks say of each record where it came from.
            number = self.forked_from.turn_number if self.forked_from else None
            self._note_fork(origin, (number or 0) + (kind == PROMPT))
        entrypoint = record.get("entrypoint")
        if isinstance(entrypoint, str):
            self.entrypoint = self.entrypoint or entrypoint
            self.entrypoints.add(entrypoint)
        if isinstance(record.get("version"), str):
            self.version = record["version"]
        if flagged & SIDECHAIN:
            return
        self._last_main = self.newest = line
        self.explicit = self.cleared = False
        if kind == ASSISTANT:
            self._note_calls(line, record)
        elif kind == RESULT:
            self._note_results(line, record)
        elif kind == PROMPT and self.first_prompt is None:
            self.first_prompt = records.preview(records.prompt_text(record) or "")
        elif kind == COMPACT:
            self.pointer = None
            self.compactions.append(Compaction(line, _preserved(record)))

    def _note_fork(self, origin: Record, number: object) -> None:
        source, turn = origin.get("sessionId"), origin.get("messageUuid")
        if isinstance(source, str):
            self.forked_from = Origin(
                source,
                turn if isinstance(turn, str) else None,
                number if isinstance(number, int) else None,
            )

    def _note_calls(self, line: int, record: Record) -> None:
        for block in records.content_blocks(record):
            if block.get("type") != "tool_use" or not isinstance(block.get("id"), str):
                continue
            self._note_call(line, block["id"], block.get("name"))

    def _note_call(self, line: int, call: str, tool: object) -> None:
        if self.orphan_results.pop(call, None) is None:
            self.open_calls[call] = line
        if tool in ("Agent", "Task"):
            self.agent_calls[call] = line

    def _note_results(self, line: int, record: Record) -> None:
        for block in records.content_blocks(record):
            call = block.get("tool_use_id")
            if block.get("type") == "tool_result" and isinstance(call, str):
                self._note_result(line, call)

    def _note_result(self, line: int, call: str) -> None:
        if self.open_calls.pop(call, None) is None:
            self.orphan_results[call] = line

    def _add_other(self, offset: int, record: Record, flagged: int) -> None:
        kind = flagged & KIND
        id_ = 0
        if kind == SNAPSHOT:
            snapshot = record.get("snapshot")
            of = snapshot.get("messageId") if isinstance(snapshot, dict) else None
            id_ = hash(of) ^ SNAPSHOT_SALT if isinstance(of, str) else 0
        elif kind == POINTER:
            self._follow(record)
        type_ = record.get("type")
        if type_ == "custom-title" and isinstance(record.get("customTitle"), str):
            self.custom_title = record["customTitle"]
            origin = record.get("forkedFrom")
            if isinstance(origin, dict):
                self._note_fork(origin, origin.get("turnNumber"))
        elif type_ == "ai-title" and isinstance(record.get("aiTitle"), str):
            self.ai_title = record["aiTitle"]
        elif type_ == "summary" and isinstance(record.get("summary"), str):
            self.summary = record["summary"]
        elif type_ == "relocated" and isinstance(record.get("relocatedCwd"), str):
            self.last_cwd = record["relocatedCwd"]
        self._append(offset, flagged, id_)

    def _follow(self, record: Record) -> None:
        """Note a pointer as the agent does."""
        leaf, explicit = record.get("leafUuid"), record.get("explicit") is True
        if isinstance(leaf, str) and leaf:
            id_ = hash(leaf)
            self.explicit = explicit or (self.explicit and id_ == self.pointer)
            self.pointer, self.cleared = id_, False
        elif leaf is None and explicit:
            self.cleared, self.pointer, self.explicit = True, None, False

    # Finding lines by id

    def _remember(self, id_: int, line: int) -> None:
        recent = self._recent
        recent[id_] = line
        if self._known is not None:
            self._known.setdefault(id_, line)
        if len(recent) > _RECENT:
            keep = line - _RECENT // 2
            self._recent = {k: v for k, v in recent.items() if v >= keep}

    def _find_parent(self, uid: str | None) -> int:
        if uid is None:
            return -1
        id_ = hash(uid)
        line = self._recent.get(id_)
        if line is None and id_ not in self._pending:
            line = self._find(id_)
        return -1 if line is None else line

    def _find(self, id_: int) -> int | None:
        """The first line with this id.  Rare in most files; a file of many branches gets a map."""
        if self._known is not None:
            return self._known.get(id_)
        self._slow_lookups += 1
        if self._slow_lookups > _SLOW_LOOKUPS:
            self._known = {}
            for line, (known, kind) in enumerate(zip(self.ids, self.kinds, strict=True)):
                if kind & KIND in TREE and not kind & DUPLICATE:
                    self._known.setdefault(known, line)
            return self._known.get(id_)
        try:
            return self.ids.index(id_)
        except ValueError:
            return None

    def find(self, uid: str) -> int | None:
        """The line of the record with this uuid, None when there is none."""
        id_ = hash(uid)
        line = self._recent.get(id_)
        line = line if line is not None else self._find(id_)
        return line if line is not None and line < len(self.kinds) else None

    def _settle(self, id_: int, line: int) -> None:
        """A record that others already named as their parent has come."""
        for waiting in self._pending.pop(id_, ()):
            self.parents[waiting.line] = line
            if self.gaps.pop(waiting.line, None) is not None:
                self.kinds[waiting.line] &= ~GAP
                self.settled_late = True

    def _bridge(self, missing: Missing, neighbour: int) -> None:
        self.parents[missing.line] = neighbour
        self.kinds[missing.line] |= GAP
        self.gaps[missing.line] = missing

    def bridge_gaps(self) -> None:
        """Let a neighbour stand in for each parent that no line has."""
        for waiting in self._pending.values():
            for missing in waiting:
                self._bridge(missing, self._main_before(missing.line))

    def _main_before(self, line: int) -> int:
        kinds = self.kinds
        for at in range(line - 1, -1, -1):
            kind = kinds[at]
            if kind & KIND in TREE and not kind & (SIDECHAIN | DUPLICATE):
                return at
        return -1


def _preserved(record: Record) -> list[int] | None:
    """Hashed ids that a compaction preserves, None when it says nothing about that."""
    metadata = record.get("compactMetadata")
    if not isinstance(metadata, dict):
        return None
    messages = metadata.get("preservedMessages")
    if isinstance(messages, dict):
        uuids = messages.get("uuids") or messages.get("allUuids") or []
        return [hash(uid) for uid in uuids if isinstance(uid, str)]
    segment = metadata.get("preservedSegment")
    return [] if isinstance(segment, dict) else None
