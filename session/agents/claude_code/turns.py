"""Turns and their items as a client sees them, read from a transcript's lines."""

from __future__ import annotations

from array import array

import orjson

from session.agents.claude_code import records
from session.agents.claude_code.records import (
    ASSISTANT,
    KIND,
    NOTE,
    PROMPT,
    RESULT,
    SYNTHETIC,
    TREE,
    Record,
)
from session.agents.claude_code.transcript import Transcript
from session.model import Item, Turn
from session.values import value


@value
class Place:
    """Where a turn stands: `lines` of the transcript, its number, its branch."""

    lines: array[int]
    number: int
    branch: str
    parent: str | None
    compacted: bool


def active_place(transcript: Transcript, number: int, parent: str | None) -> Place:
    """Turn `number` of the live branch.  It is compacted when all of it that the assistant or a
    tool said stands before the newest compaction."""
    lines = transcript.turn_lines(number)
    after = transcript.compacted_at - transcript.turn_starts[number - 1]
    compacted = after >= 0 and not any(
        transcript.kinds[line] & KIND in (ASSISTANT, RESULT) for line in lines[after:]
    )
    return Place(lines, number, "active", parent, compacted)


def read_place(
    transcript: Transcript, place: Place, kinds: frozenset[int] = TREE
) -> list[tuple[int, Record]]:
    """The records of a turn in the order of the conversation; those of `kinds` are enough."""
    calls = [
        line
        for line in transcript.side_calls(place.lines)
        if transcript.same_message(line, transcript.parents[line])
    ]
    lines = transcript.with_side_results(place.lines, calls)
    wanted = [line for line in lines if transcript.kinds[line] & KIND in kinds]
    return list(transcript.read(wanted, records.parse_said))


def turn_at(
    transcript: Transcript, place: Place, read: list[tuple[int, Record]], *, live: bool
) -> Turn:
    """One turn from its records, of which those that speak are enough; `live` says whether a
    program that may be writing it lives."""
    opening = read[0][1]
    prompt = records.prompt_text(opening) or ""
    response: str | None = None
    ended = started = records.time_of(opening)
    calls = 0
    files: dict[str, None] = {}
    for line, record in read:
        kind = transcript.kinds[line] & KIND
        if kind in (ASSISTANT, SYNTHETIC):
            for block in records.content_blocks(record):
                if block.get("type") == "text" and kind == ASSISTANT:
                    text = block.get("text")
                    response = text if isinstance(text, str) and text.strip() else response
                elif block.get("type") == "tool_use":
                    calls += 1
        elif kind == RESULT and (path := _changed_file(record)):
            files[_relative(path, record.get("cwd") or transcript.cwd)] = None
        if kind in (ASSISTANT, RESULT, PROMPT) and (stamp := records.time_of(record)):
            ended = stamp if ended is None or stamp > ended else ended
    return Turn(
        turn_id=opening["uuid"],
        turn_number=place.number,
        origin_turn_id=None,
        parent_turn_id=place.parent,
        branch=place.branch,
        prompt=records.preview(prompt),
        prompt_bytes=records.measured(prompt)[1],
        response=None if response is None else records.preview(response),
        started_at=started,
        ended_at=ended,
        status=_status(transcript, read, live=live),
        tool_calls=calls,
        files=list(files),
        snapshot=None,
        compacted=place.compacted,
    )


def _status(transcript: Transcript, read: list[tuple[int, Record]], *, live: bool) -> str:
    """A turn is complete when its last word is the assistant's and waits for no tool."""
    unfinished = "in_progress" if live else "interrupted"
    for line, record in reversed(read):
        kind = transcript.kinds[line] & KIND
        if kind == NOTE:
            text = "".join(records.block_text(b) for b in records.content_blocks(record))
            if text.startswith(records.INTERRUPTED):
                return "interrupted"
            continue
        if kind in (PROMPT, RESULT):
            return unfinished
        if kind == ASSISTANT:
            message = record.get("message")
            blocks = records.content_blocks(record)
            if any(block.get("type") == "tool_use" for block in blocks):
                return unfinished
            said_all = isinstance(message, dict) and message.get("stop_reason") is not None
            if live and not said_all:
                return "in_progress"
            if all(block.get("type") in ("thinking", "redacted_thinking") for block in blocks):
                return unfinished
            return "complete"
        if kind == SYNTHETIC:
            return "complete"
    return unfinished


def _changed_file(record: Record) -> str | None:
    """The path that a Write or Edit result names; a Read names its file one level deeper."""
    result = record.get("toolUseResult")
    if isinstance(result, dict) and isinstance(result.get("filePath"), str):
        path: str = result["filePath"]
        return path
    return None


def _relative(path: str, cwd: object) -> str:
    if isinstance(cwd, str) and path.startswith(cwd.rstrip("/") + "/"):
        return path[len(cwd.rstrip("/")) + 1 :]
    return path


@value
class ItemPlace:
    """Where reading a turn's items goes on: line and block in order, characters of its text."""

    index: int = 0
    block: int = 0
    offset: int = 0


def items_from(
    transcript: Transcript, read: list[tuple[int, Record]], start: ItemPlace, max_bytes: int
) -> tuple[list[Item], ItemPlace | None]:
    """Items of a turn's records from `start`, at most about `max_bytes` of text; and where to
    go on.

    A text that does not fit is cut between characters and goes on in the next page under the
    same item id; `bytes` is the size of the whole text.
    """
    items: list[Item] = []
    room = max_bytes
    for index, (line, record) in enumerate(read[start.index :], start.index):
        kind = transcript.kinds[line] & KIND
        first = start.block if index == start.index else 0
        for block, part in list(enumerate(_parts(kind, record)))[first:]:
            whole, size = records.measured(part.text)
            offset = start.offset if (index, block) == (start.index, start.block) else 0
            text, left = (whole[offset:], -1) if offset else (whole, size)
            if room <= 0 and text and items:
                return items, ItemPlace(index, block, offset)
            shown, taken = _fit(text, left, max(room, 4))
            room -= taken
            items.append(
                Item(
                    item_id=f"{record['uuid']}:{block}" if part.of_many else record["uuid"],
                    kind=part.kind,
                    text=shown,
                    tool=part.tool,
                    call_id=part.call_id,
                    bytes=size,
                    truncated=len(shown) < len(whole),
                )
            )
            if len(shown) < len(text):
                return items, ItemPlace(index, block, offset + len(shown))
    return items, None


@value
class _Part:
    kind: str
    text: str
    tool: str | None = None
    call_id: str | None = None
    of_many: bool = False


def _parts(kind: int, record: Record) -> list[_Part]:
    if kind == PROMPT:
        return [_Part("user", records.prompt_text(record) or "")]
    attachment = record.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") == "queued_command":
        # A prompt typed while the turn ran.
        return [_Part("user", records.block_text({"content": attachment.get("prompt")}))]
    blocks = records.content_blocks(record)
    if not blocks:
        return [_Part("event", _event_text(record))]
    many = len(blocks) > 1
    return [_block_part(kind, block, many) for block in blocks]


def _block_part(kind: int, block: Record, many: bool) -> _Part:
    text = records.block_text(block)
    type_ = block.get("type")
    if type_ in ("tool_use", "server_tool_use"):
        return _Part("tool_call", text, _string(block, "name"), _string(block, "id"), many)
    if isinstance(type_, str) and type_.endswith("tool_result"):
        return _Part("tool_result", text, None, _string(block, "tool_use_id"), many)
    if type_ in ("thinking", "redacted_thinking"):
        return _Part("thinking", text, None, None, many)
    if kind in (ASSISTANT, SYNTHETIC):
        return _Part("assistant", text, None, None, many)
    return _Part("user" if kind == RESULT else "event", text, None, None, many)


def _event_text(record: Record) -> str:
    shown = record.get("attachment") or record.get("content") or record.get("subtype")
    return shown if isinstance(shown, str) else _compact(shown)


def _compact(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return repr(value)


def _string(block: Record, key: str) -> str | None:
    value = block.get(key)
    return value if isinstance(value, str) else None


def _fit(text: str, size: int, room: int) -> tuple[str, int]:
    """As much of `text` (`size` bytes, -1: not known) as has room, and how many bytes that is."""
    if 0 <= size <= room:
        return text, size
    raw = text.encode()
    if len(raw) <= room:
        return text, len(raw)
    shown = raw[:room].decode("utf-8", "ignore")
    return shown, len(shown.encode())
