"""Images and long tool outputs taken out of a record's line, whose structure stays.

The agent keeps most of this twice: as the model was shown it, and as its own screens show it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from session.agents import spans
from session.agents.claude_code.splice import encoded
from session.agents.spans import Member

_KEPT = 1024
_CUT = "; the rest was left out by a repair]"
# Members of a `toolUseResult` that a person or the model wrote, or that hold no text.
_NOT_OUTPUT = frozenset(
    (
        b"base64",
        b"originalFile",
        b"oldString",
        b"newString",
        b"filePath",
        b"prompt",
        b"data",
    )
)
_WRITES = (b'"create"', b'"update"')

Edit = tuple[int, int, bytes]


def strip_images(line: bytes) -> tuple[bytes, int, int]:
    """The line with a text in the place of each image and document that it holds; how many
    there were, and the bytes saved."""
    edits: list[Edit] = []
    for member in spans.members(line):
        if member.key in (b"message", b"toolUseResult"):
            edits += _images(line, member.value, member.end)
        elif member.key == b"attachment":
            edits += _attached(line, member)
    return _done(line, edits)


def _attached(line: bytes, attachment: Member) -> Iterator[Edit]:
    """A file that came with a prompt: shown to the model, so that it becomes a file of text."""
    content = _member(line, attachment, b"content")
    file = None if content is None else _member(line, content, b"file")
    if content is None or file is None or (data := _member(line, file, b"base64")) is None:
        yield from _images(line, attachment.value, attachment.end)
        return
    kind = _text(line, _member(line, content, b"type")) or "file"
    name = _text(line, _member(line, attachment, b"filename")) or ""
    text = {
        "filePath": name,
        "content": _stub(kind, _text(line, _member(line, file, b"type")), data),
        "numLines": 1,
        "startLine": 1,
        "totalLines": 1,
    }
    yield content.value, content.end, json.dumps({"type": "text", "file": text}).encode()


def _images(line: bytes, start: int, end: int) -> Iterator[Edit]:
    first = line[start : start + 1]
    if first == b"[":
        for begin, stop in spans.elements(line, start):
            yield from _images(line, begin, stop)
    if first != b"{":
        return
    found = {member.key: member for member in spans.members(line, start)}
    kind = _text(line, found.get(b"type"))
    source = found.get(b"source")
    if kind in ("image", "document") and source is not None and _is_base64(line, source):
        media = spans.find(line, source.value, b"media_type")
        data = spans.find(line, source.value, b"data")
        stub = _stub(kind, _text(line, media), data)
        yield start, end, b'{"type":"text","text":' + encoded(stub) + b"}"
        return
    file = found.get(b"file")
    if file is not None and (data := _member(line, file, b"base64")) is not None:
        # How the agent's own screens have a file that was read; they show its type and size.
        yield data.value, data.end, b'""'
        return
    for member in found.values():
        yield from _images(line, member.value, member.end)


def _is_base64(line: bytes, source: Member) -> bool:
    return _text(line, _member(line, source, b"type")) == "base64"


def _member(line: bytes, of: Member, key: bytes) -> Member | None:
    if line[of.value : of.value + 1] != b"{":
        return None
    return next((m for m in spans.members(line, of.value) if m.key == key), None)


def _stub(kind: str, media: str | None, data: Member | None) -> str:
    size = 0 if data is None else (data.end - data.value - 2) * 3 // 4
    return f"[{kind} left out by a repair: {media or 'type unknown'}, {size:,} bytes]"


def strip_outputs(line: bytes, over: int) -> tuple[bytes, int, int]:
    """The line with each tool output of more than `over` bytes cut to its beginning and a note
    of its size, where that is shorter; how many there were, and the bytes saved."""
    edits: list[Edit] = []
    for member in spans.members(line):
        if member.key == b"message":
            edits += _results(line, over)
        elif member.key == b"toolUseResult":
            kind = spans.find(line, member.value, b"type") if _is_object(line, member) else None
            spared = b""
            if kind is not None and line[kind.value : kind.end] in _WRITES:
                spared = b"content"  # what was written, not what came of it
            edits += _long_texts(line, member.value, member.end, over, spared)
    return _done(line, edits)


def _is_object(line: bytes, member: Member) -> bool:
    return line[member.value : member.value + 1] == b"{"


def _results(line: bytes, over: int) -> Iterator[Edit]:
    content = spans.find(line, 0, b"message", b"content")
    if content is None or line[content.value : content.value + 1] != b"[":
        return
    for start, _ in spans.elements(line, content.value):
        if line[start : start + 1] != b"{":
            continue
        found = {member.key: member for member in spans.members(line, start)}
        kind = _text(line, found.get(b"type")) or ""
        inside = found.get(b"content")
        if not kind.endswith("tool_result") or inside is None:
            continue
        if line[inside.value : inside.value + 1] != b"[":
            yield from _long_texts(line, inside.value, inside.end, over)
            continue
        for begin, _ in spans.elements(line, inside.value):
            if line[begin : begin + 1] != b"{":
                continue
            text = next((m for m in spans.members(line, begin) if m.key == b"text"), None)
            if text is not None:
                yield from _long_texts(line, text.value, text.end, over)


def _long_texts(
    line: bytes, start: int, end: int, over: int, spared: bytes = b""
) -> Iterator[Edit]:
    first = line[start : start + 1]
    if end - start <= over:
        return
    if first == b'"':
        text = json.loads(line[start:end].decode("utf-8", "replace"))
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) > over and not text.endswith(_CUT):
            shown = raw[: min(_KEPT, over)].decode("utf-8", "ignore")
            new = encoded(f"{shown}\n[{len(raw):,} bytes of output{_CUT}")
            if len(new) < end - start:
                yield start, end, new
    elif first == b"[":
        for begin, stop in spans.elements(line, start):
            yield from _long_texts(line, begin, stop, over)
    elif first == b"{":
        for member in spans.members(line, start):
            if member.key not in _NOT_OUTPUT and member.key != spared:
                yield from _long_texts(line, member.value, member.end, over)


def _text(line: bytes, member: Member | None) -> str | None:
    if member is None or line[member.value : member.value + 1] != b'"':
        return None
    text = json.loads(line[member.value : member.end].decode("utf-8", "replace"))
    return str(text)


def _done(line: bytes, edits: list[Edit]) -> tuple[bytes, int, int]:
    if not edits:
        return line, 0, 0
    new = spans.replace(line, edits)
    return new, len(edits), len(line) - len(new)
