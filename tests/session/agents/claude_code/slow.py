"""What a transcript holds, read the slow and obvious way: an oracle for the engine's index."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import define

from tests.session.agents.claude_code.stories import MARK, Story
from tests.session.agents.spelling import members

Record = dict[str, Any]


def parsed(line: bytes) -> Record | None:
    try:
        value = json.loads(line.decode("utf-8", "surrogatepass"), strict=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@define(frozen=True)
class Line:
    raw: bytes
    record: Record

    @property
    def marks(self) -> set[bytes]:
        return set(MARK.findall(self.raw))

    @property
    def results(self) -> set[str]:
        return {b["tool_use_id"] for b in self._blocks() if b.get("type") == "tool_result"}

    @property
    def calls(self) -> set[str]:
        return {b["id"] for b in self._blocks() if b.get("type") == "tool_use"}

    def _blocks(self) -> list[Record]:
        message = self.record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def lines_of(data: bytes) -> list[Line]:
    lines = ((raw, parsed(raw)) for raw in data.split(b"\n"))
    return [Line(raw, record) for raw, record in lines if record is not None]


class Conversation:
    """The branch that ends at the leaf of a story, oldest record first, and its turns."""

    def __init__(self, story: Story) -> None:
        self.lines = lines_of(story.data)
        self.by_id: dict[str, Line] = {}
        for line in self.lines:
            if "uuid" in line.record:
                self.by_id.setdefault(line.record["uuid"], line)
        self.opening = story.opening
        self.compactions = story.compactions
        self.chain = self.path(story.leaf)
        self.starts = [i for i, r in enumerate(self.chain) if r in story.opening]
        self.turn_ids = [self.chain[i] for i in self.starts]

    @property
    def last_spoken(self) -> str | None:
        spoken = [u for u in self.chain if self.by_id[u].record["type"] in ("user", "assistant")]
        return spoken[-1] if spoken else None

    def path(self, leaf: str | None) -> list[str]:
        path: list[str] = []
        while leaf is not None:
            path.insert(0, leaf)
            record = self.by_id[leaf].record
            leaf = record["parentUuid"] or record.get("logicalParentUuid")
        return path

    def kept(self, count: int) -> set[str]:
        """Records that a fork of `count` turns has for certain: what was said in them."""
        chain = self.chain[: self._end(count)]
        for at, uid in enumerate(chain):
            # A compaction by hand after the last kept turn lies between two turns.
            by_hand = self.compactions.get(uid) == "manual" and count < len(self.turn_ids)
            if by_hand and not any(self._goes_on(later) for later in chain[at:]):
                chain = chain[:at]
                break
        spoken = {u for u in chain if self.by_id[u].record["type"] in ("user", "assistant")}
        return spoken | self._side_results(set(chain))

    def allowed(self, count: int) -> set[bytes]:
        """Marks that a fork of `count` turns may hold."""
        chain = set(self.chain[: self._end(count)])
        around = {u for b in self._compactions_around(chain) for u in (b, self._summary_of(b))}
        uids = chain | self._side_results(chain) | around
        marks = {m for u in uids for m in self.by_id[u].marks}
        for boundary, how in self.compactions.items():
            if how == "manual" and not self._is_behind(boundary, count):
                marks -= self.by_id[self._summary_of(boundary)].marks
        return marks | self._settings_marks(uids)

    def _end(self, count: int) -> int:
        if not count:
            return 0
        return self.starts[count] if count < len(self.starts) else len(self.chain)

    def _is_behind(self, boundary: str, count: int) -> bool:
        if count == len(self.turn_ids):
            return True
        if boundary not in self.chain:
            return False
        at, end = self.chain.index(boundary), self._end(count)
        return any(self._goes_on(uid) for uid in self.chain[at:end])

    def _goes_on(self, uid: str) -> bool:
        return uid in self.opening or self.by_id[uid].record["type"] == "assistant"

    def _compactions_around(self, chain: set[str]) -> Iterable[str]:
        """Compactions in the middle of a turn, which the parent links go around."""
        for boundary, how in self.compactions.items():
            if how == "tui" and self.by_id[boundary].record["logicalParentUuid"] in chain:
                yield boundary

    def _summary_of(self, boundary: str) -> str:
        return next(
            u
            for u, line in self.by_id.items()
            if line.record.get("parentUuid") == boundary and line.record.get("isCompactSummary")
        )

    def _side_results(self, chain: set[str]) -> set[str]:
        """Off the chain but of a message on it: parallel calls and their results."""
        found: set[str] = set()
        while True:
            inside = chain | found
            more = {
                uid
                for uid, line in self.by_id.items()
                if uid not in inside
                and line.record["parentUuid"] in inside
                and (line.results or self._same_message(uid, line.record["parentUuid"]))
            }
            if not more:
                return found
            found |= more

    def _same_message(self, uid: str, parent: str) -> bool:
        pair = (self.by_id[uid].record, self.by_id[parent].record)
        if any(record["type"] != "assistant" for record in pair):
            return False
        return pair[0]["message"]["id"] == pair[1]["message"]["id"]

    def _settings_marks(self, uids: set[str]) -> set[bytes]:
        """Marks of records that are no messages and stand right after a kept message."""
        marks: set[bytes] = set()
        inside = bool(uids)
        for line in self.lines:
            uid = line.record.get("uuid")
            if line.record.get("isSidechain"):
                continue
            if isinstance(uid, str):
                inside = uid in uids
            elif line.record["type"] not in ("last-prompt", "queue-operation") and inside:
                marks |= line.marks
        return marks


def edited(line: bytes, **values: str) -> bytes:
    """The line with other values for these of its top-level members, where they are strings."""
    for member in reversed(members(line)):
        new = values.get(member.key)
        if new is not None and isinstance(member.value, str) and member.value != new:
            text = json.dumps(new, ensure_ascii=False).encode()
            line = line[: member.start] + text + line[member.end :]
    return line
