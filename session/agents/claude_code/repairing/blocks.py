"""Content blocks of one record's line, changed without touching the bytes around them."""

from __future__ import annotations

from collections.abc import Callable

from session.agents import spans
from session.agents.claude_code import records
from session.agents.claude_code.records import Record


def is_unsigned_thinking(block: Record) -> bool:
    """Thinking that the model's service would refuse: every request with it fails."""
    return block.get("type") == "thinking" and not block.get("signature")


def result_of(block: Record) -> str | None:
    """The id of the call that a result block answers, also of a call the service itself ran."""
    call = block.get("tool_use_id")
    type_ = block.get("type")
    is_result = isinstance(type_, str) and type_.endswith("tool_result")
    return call if is_result and isinstance(call, str) else None


def call_of(block: Record) -> str | None:
    """The id of a call that the agent carries out."""
    call = block.get("id")
    return call if block.get("type") == "tool_use" and isinstance(call, str) else None


def served_call_of(block: Record) -> str | None:
    """The id of a call that the model's service carries out."""
    call, type_ = block.get("id"), block.get("type")
    served = isinstance(type_, str) and type_.endswith("_tool_use")
    return call if served and isinstance(call, str) else None


def without(line: bytes, unwanted: Callable[[Record], bool]) -> bytes:
    """A record's line less the content blocks that are `unwanted`; others keep their bytes."""
    content = spans.find(line, 0, b"message", b"content")
    if content is None or line[content.value : content.value + 1] != b"[":
        return line
    found = list(spans.elements(line, content.value))
    kept = [(start, end) for start, end in found if not _is(line[start:end], unwanted)]
    if len(kept) == len(found):
        return line
    inside = b",".join(line[start:end] for start, end in kept)
    return spans.replace(line, [(content.value, content.end, b"[" + inside + b"]")])


def _is(block: bytes, unwanted: Callable[[Record], bool]) -> bool:
    parsed = records.parse(block)
    return parsed is not None and unwanted(parsed)


def as_context(line: bytes) -> bytes:
    """A user record's line, marked as something that no person wrote."""
    first = next(iter(spans.members(line)), None)
    if first is None or spans.find(line, 0, b"isMeta") is not None:
        return line
    return spans.replace(line, [(first.start, first.start, b'"isMeta":true,')])
