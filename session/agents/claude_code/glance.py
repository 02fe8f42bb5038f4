"""What a listing shows of a file that was never indexed, learnt from its two ends.

Sixteen kilobytes at each end hold it for nearly every session: where it was, how it began, who
spoke last and when.  Only the records that say so are parsed.  What the ends do not tell, or
tell wrongly (a title in the middle, a first prompt that was rewound), the index puts right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from session import osfile
from session.agents.base import Summary
from session.agents.claude_code import records
from session.agents.claude_code.records import Record

_END = 1 << 14
_FURTHEST = 1 << 21
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""Records that hold a title, the strongest first, and the member that is it."""
_TITLE = re.compile(rb'"(?:custom-title|ai-title|summary)"')
_TITLE_WITHIN = 256
_MESSAGE = b'{"parentUuid":'
_MAIN_LINE = b'"isSidechain":false'


class Allowance:
    """How many bytes beyond the ends one listing may read; what is left after that is indexed
    behind it."""

    def __init__(self, size: int) -> None:
        self._left = size

    def grants(self, size: int) -> bool:
        self._left -= size
        return self._left >= 0


def glance(path: str, native_id: str, size: int, allowance: Allowance) -> Summary | None:
    """A summary without counts; None for a file that was read whole and holds no message.

    Raises OSError when it cannot be read.
    """
    # A subagent's records name its parent.
    own = None if native_id.startswith("agent-") else native_id
    head, tail = _Head(own), _Tail(own)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        span = _read_widening(fd, size, allowance, head.read, from_end=False)
        if span < size:
            span += _read_widening(fd, size, allowance, tail.read, from_end=True)
        else:
            tail.read(head.data, True)
        changed = os.fstat(fd).st_mtime if tail.updated is None else 0.0
    finally:
        os.close(fd)
    if span >= size and not (head.spoke or tail.spoke or tail.made_of or head.made_of):
        return None
    return _summary(path, native_id, head, tail, changed)


class _End:
    """What the records at both ends say: titles, and of which session this is a fork."""

    def __init__(self, own: str | None) -> None:
        self.own = own
        self.data = b""
        self.forget()

    def forget(self) -> None:
        self.spoke = False
        self.titles: dict[str, str] = {}
        self.made_of: Record | None = None  # as Turntree says it
        self.origin: Record | None = None  # as each record of the agent's own fork says it

    def is_own(self, record: Record) -> bool:
        """Whether a record says no other session's id."""
        return self.own is None or (_string(record, "sessionId") or self.own) == self.own

    def note_title(self, record: Record) -> None:
        type_ = record.get("type")
        title = _string(record, _TITLES[type_]) if type_ in _TITLES else None
        if title is not None and self.is_own(record):
            self.titles[str(type_)] = title
            if type_ == "custom-title" and isinstance(record.get("forkedFrom"), dict):
                self.made_of = record["forkedFrom"]


def _may_hold_title(data: bytes, start: int, end: int) -> bool:
    """Of a line that is no message, of which there are few: what holds a title says so soon."""
    return _TITLE.search(data, start, min(end, start + _TITLE_WITHIN)) is not None


class _Head(_End):
    """What the first records say; `first` is the first one with a place in the tree."""

    def forget(self) -> None:
        super().forget()
        self.first: Record | None = None
        self.cwd: str | None = None
        self.created: str | None = None
        self.entrypoint: str | None = None
        self.prompt: str | None = None

    def read(self, data: bytes, whole: bool) -> bool:
        """Whether `data`, the file from its start, says what the session is about and where."""
        self.data = data
        enough = self._read(data, whole)
        if self.first is None and self.own is not None:
            # Another session's records count where there are none of its own (an old fork).
            own, self.own = self.own, None
            enough = self._read(data, whole)
            self.own = own
        return enough

    def _read(self, data: bytes, whole: bool) -> bool:
        self.forget()
        at, stop = 0, len(data) if whole else data.rfind(b"\n")
        enough = False
        while at < stop:
            end = data.find(b"\n", at)
            if end < 0:
                end = stop
            if not enough or (not data.startswith(_MESSAGE, at) and _may_hold_title(data, at, end)):
                record = records.parse(data[at:end])
                if record is not None and not self._note(record):
                    self.note_title(record)
                enough = self.prompt is not None and self.cwd is not None
            at = end + 1
        return enough

    def _note(self, record: Record) -> bool:
        """Whether the record has a place in the tree."""
        if not isinstance(record.get("uuid"), str):
            return False
        if not self.is_own(record):
            return True
        if self.first is None:
            self.first = record
        self.cwd = self.cwd or _string(record, "cwd")
        self.created = self.created or records.time_of(record)
        self.entrypoint = self.entrypoint or _string(record, "entrypoint")
        type_ = record.get("type")
        self.spoke = self.spoke or type_ in ("user", "assistant")
        if type_ == "user" and self.prompt is None and record.get("isSidechain") is not True:
            self.prompt = None if _is_result(record) else records.opening_text(record)
        if self.origin is None and isinstance(record.get("forkedFrom"), dict):
            self.origin = record["forkedFrom"]
        return True


class _Tail(_End):
    """What the last records say."""

    def forget(self) -> None:
        super().forget()
        self.updated: str | None = None
        self._of_others: str | None = None
        self.last_cwd: str | None = None

    def read(self, data: bytes, whole: bool) -> bool:
        """Whether `data`, the file up to its end, says when it was spoken last, and where."""
        self.data = data
        self.forget()
        end, stop = len(data), -1 if whole else data.find(b"\n")
        found: list[Record] = []
        enough = False
        while end > stop:
            start = data.rfind(b"\n", 0, end) + 1
            if start < end and (
                not enough
                or (not data.startswith(_MESSAGE, start) and _may_hold_title(data, start, end))
            ):
                record = records.parse(data[start:end])
                if record is not None and not self._note(record):
                    found.append(record)
                enough = self.updated is not None and self.last_cwd is not None
            end = start - 1
        for record in reversed(found):
            self.note_title(record)
        # As in the head.
        self.updated = self.updated or self._of_others
        return self.updated is not None

    def _note(self, record: Record) -> bool:
        if not isinstance(record.get("uuid"), str):
            if self.last_cwd is None and record.get("type") == "relocated":
                self.last_cwd = _string(record, "relocatedCwd")
            return False
        self.last_cwd = self.last_cwd or _string(record, "cwd")
        if record.get("type") in ("user", "assistant"):
            self.spoke = True
            stamp = records.time_of(record)
            if self.is_own(record):
                self.updated = self.updated or stamp
            self._of_others = self._of_others or stamp
            if self.origin is None and isinstance(record.get("forkedFrom"), dict):
                self.origin = record["forkedFrom"]
        return True


def _summary(path: str, native_id: str, head: _Head, tail: _Tail, changed: float) -> Summary:
    kind = "main"
    if native_id.startswith("agent-") or _only_aside(head, tail):
        kind = "subagent"
    elif head.entrypoint in ("sdk-py", "sdk-ts"):
        kind = "sdk"
    titles = head.titles | tail.titles
    title = next((titles[type_] for type_ in _TITLES if type_ in titles), None)
    prompt = None if head.prompt is None else records.preview(head.prompt)
    origin = tail.made_of or head.made_of or tail.origin or head.origin
    return Summary(
        native_id=native_id,
        path=path,
        kind=kind,
        title=prompt if title is None else records.preview(title),
        cwd=head.cwd or tail.last_cwd,
        last_cwd=tail.last_cwd or head.cwd,
        created_at=head.created,
        updated_at=tail.updated or osfile.utc(changed),
        first_prompt=prompt,
        forked_from=_string(origin, "sessionId"),
        forked_at=_string(origin, "messageUuid"),
        parent_id=_string(head.first, "sessionId") if kind == "subagent" else None,
    )


def _read_widening(
    fd: int,
    size: int,
    allowance: Allowance,
    enough: Callable[[bytes, bool], bool],
    *,
    from_end: bool,
) -> int:
    """Read more and more of one end until it is `enough`; how many bytes that were."""
    span = _END
    while True:
        # A small rest is not worth a second look.
        taken = size if size <= span + _END else span
        data = osfile.pread(fd, taken, size - taken if from_end else 0)
        if enough(data, taken == size) or taken == size:
            return taken
        span *= 4
        if span > _FURTHEST or not allowance.grants(span):
            return taken


def _is_result(record: Record) -> bool:
    return any(block.get("type") == "tool_result" for block in records.content_blocks(record))


def _only_aside(head: _Head, tail: _Tail) -> bool:
    """Whether nothing that was seen is off a side chain."""
    return (
        head.first is not None
        and head.first.get("isSidechain") is True
        and _MAIN_LINE not in head.data
        and _MAIN_LINE not in tail.data
    )


def _string(record: Record | None, member: str) -> str | None:
    value = record.get(member) if record is not None else None
    return value if isinstance(value, str) else None
