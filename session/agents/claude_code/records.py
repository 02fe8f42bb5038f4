"""What one record of a transcript is.

Messages (`user`, `assistant`, `attachment`, `system`) form the conversation's tree through
`uuid` and `parentUuid`; other records carry settings, titles and pointers.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from functools import lru_cache
from typing import Any

import orjson

Record = dict[str, Any]

# Kinds of lines, the low half of a byte.
OTHER = 0  # not part of the tree
PROMPT = 1  # opens a turn
RESULT = 2  # a user record that carries tool results
NOTE = 3  # any other user record: injected context, echoes, summaries
ASSISTANT = 4
SYNTHETIC = 5  # an assistant record that the program itself made up
ATTACHMENT = 6
SYSTEM = 7
COMPACT = 8  # a compaction boundary
PASSAGE = 9  # a record with a place in the tree that the program passes through
SNAPSHOT = 10  # file-history-snapshot
TORN = 11  # not JSON
POINTER = 12  # last-prompt
FOREIGN = 13  # belongs to another session, whose program wrote into the wrong file

KIND = 15
# Flags, the high half.
SIDECHAIN = 16
DUPLICATE = 32  # repeats the id of an earlier record, which wins
GAP = 64  # the parent is missing; a neighbour stands in for it
LOCAL = 128  # belongs to this one session or moment: never copied into a fork

SPOKEN = frozenset((PROMPT, RESULT, NOTE, ASSISTANT, SYNTHETIC))
TREE = SPOKEN | {ATTACHMENT, SYSTEM, COMPACT, PASSAGE}

# Records without a place in the tree that say who this session is, what it is being asked
# right now, or which front end it is connected to.
_KIND_BY_TYPE = {
    "file-history-snapshot": SNAPSHOT,
    "last-prompt": POINTER | LOCAL,
    "queue-operation": OTHER | LOCAL,
    "custom-title": OTHER | LOCAL,
    "agent-name": OTHER | LOCAL,
    "bridge-session": OTHER | LOCAL,
    "summary": OTHER | LOCAL,
    "attribution-snapshot": OTHER | LOCAL,
}

# A user record whose text starts with one of these was written by the program: echoes of
# local commands, shell output, notifications, reminders, hook output, editor context.
_INJECTED = re.compile(
    r"\s*(?:<(?:command-name|local-command-[a-z-]+|system-reminder|task-notification|"
    r"user-prompt-submit-hook|session-start-hook|bash-stdout|bash-stderr|"
    r"user-memory-input|teammate-message|cross-session-message|ide_[a-z_]+|new-diagnostics)"
    r"[>\s]|\[Request interrupted by user)"
)
# A custom command's record names its message first; a local command's echo its name.
_COMMAND = re.compile(
    r"\s*<command-message>.*?</command-message>\s*<command-name>(?P<name>.*?)</command-name>"
    r"(?:\s*<command-args>(?P<args>.*?)</command-args>)?",
    re.DOTALL,
)
_SHELL = re.compile(r"\s*<bash-input>(?P<command>.*?)</bash-input>\s*", re.DOTALL)
_INJECTED_ORIGINS = frozenset(
    ("task-notification", "auto-continuation", "stophook", "coordinator", "peer", "channel")
)

_DEEPEST = 32  # levels of blocks in blocks; what is below is shown as JSON

_LONG = 2048
_SAID_AGAIN = b',"toolUseResult":'
_SHOWN = {"message", "uuid", "timestamp"}

INTERRUPTED = "[Request interrupted by user"


def parse(line: bytes | memoryview) -> Record | None:
    """A line as a record, None when it is not one JSON object.

    The program writes lone surrogates as escapes and tools write bytes that are not UTF-8;
    orjson refuses both, the standard library's parser takes them.  Each becomes U+FFFD.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        text = bytes(line).strip(b"\x00 \t\r\n\xef\xbb\xbf").decode("utf-8", "replace")
        try:
            value = _encodable(json.loads(text))
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _encodable(value: Any) -> Any:
    """A parsed value without lone surrogates, which no encoder takes."""
    text = json.dumps(value, ensure_ascii=False)
    return value if clean(text) == text else json.loads(clean(text))


def parse_said(line: bytes) -> Record | None:
    """`parse`, less the `toolUseResult` of a long line unless that names a file.

    It says in other members what the message says: half of the line.
    """
    at = _said_again(line) if len(line) > _LONG else -1
    if at > 0:
        try:
            record: Record = orjson.loads(line[:at] + b"}")
        except orjson.JSONDecodeError:
            return parse(line)
        if record.keys() >= _SHOWN:
            return record
    return parse(line)


def _said_again(line: bytes) -> int:
    """Where a `toolUseResult` without a file's name begins, -1 for nowhere."""
    middle = len(line) // 2
    at = line.find(_SAID_AGAIN, middle - _LONG // 2, middle + _LONG // 2)
    if at < 0:
        at = line.find(_SAID_AGAIN)
    if at < 0 or line.startswith(b'{"stdout":', at + len(_SAID_AGAIN)):
        return at
    return -1 if line.find(b'"filePath":', at) > 0 else at


def is_utf16(line: bytes) -> bool:
    """Whether a line that is no record looks like UTF-16: every other byte of its ASCII is NUL."""
    head = line[:256]
    half = len(head) // 2
    zeros = sorted((head[0::2].count(0), head[1::2].count(0)))
    return half >= 4 and zeros[1] >= 0.6 * half and zeros[0] <= 0.2 * half


def is_whole(line: bytes) -> bool:
    """Whether this is one record and nothing else, as far as a strict parser tells."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and "type" in value


def content_blocks(record: Record) -> list[Record]:
    """A message's content as blocks; a string is one text block, anything odd is left out."""
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return []


_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII)
_SPREAD = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


@lru_cache(maxsize=1024)
def id_of(uid: str) -> int:
    """The number by which the index knows a record: 64 bits, signed, never 0, always the same.

    Of a uuid in its ordinary spelling both halves, folded; of any other text a digest.  Two
    records whose numbers meet by chance, or because somebody wrote their uuids so, are taken
    for one: the later is a duplicate, which `check_session` tells.
    """
    if _UUID.fullmatch(uid):
        number = int(uid.replace("-", ""), 16)
        folded = ((number >> 64) * _SPREAD ^ number) & _WORD
    else:
        digest = hashlib.blake2b(uid.encode("utf-8", "surrogatepass"), digest_size=8)
        folded = int.from_bytes(digest.digest(), "little")
    return (folded - (1 << 64) if folded >> 63 else folded) or 1


def kind_of(record: Record) -> int:
    """Kind and flags of a record."""
    type_ = record.get("type")
    uid = record.get("uuid")
    if not (isinstance(uid, str) and uid):
        return _KIND_BY_TYPE.get(type_, OTHER) if isinstance(type_, str) else OTHER
    side = SIDECHAIN if record.get("isSidechain") is True else 0
    if type_ == "user":
        return _user_kind(record) | side
    if type_ == "assistant":
        message = record.get("message")
        model = message.get("model") if isinstance(message, dict) else None
        return (SYNTHETIC if model == "<synthetic>" else ASSISTANT) | side
    if type_ == "attachment":
        return ATTACHMENT | side
    if type_ == "system":
        return (COMPACT if record.get("subtype") == "compact_boundary" else SYSTEM) | side
    return PASSAGE | side


def _user_kind(record: Record) -> int:
    blocks = content_blocks(record)
    if any(block.get("type") == "tool_result" for block in blocks):
        return RESULT
    return PROMPT if opening_text(record) is not None else NOTE


def opening_text(record: Record) -> str | None:
    """What a person wrote in a user record without results that opens a turn; None for others."""
    if record.get("isMeta") or record.get("isCompactSummary"):
        return None
    origin = record.get("origin")
    made_by = origin.get("kind") if isinstance(origin, dict) else None
    if isinstance(made_by, str) and made_by in _INJECTED_ORIGINS:
        return None
    return prompt_text(record)


def prompt_text(record: Record) -> str | None:
    """What a person wrote in a user record; None when the program wrote all of it."""
    parts: list[str] = []
    for block in content_blocks(record):
        if block.get("type") == "text":
            text = block.get("text")
            if isinstance(text, str) and not _INJECTED.match(text):
                parts.append(_as_typed(text))
        elif block.get("type") in ("image", "document"):
            parts.append(f"[{block['type']}]")
    return "\n".join(parts) if parts else None


def _as_typed(text: str) -> str:
    """A prompt as the person typed it: `/name arguments` and `!command` are kept in tags."""
    if shell := _SHELL.fullmatch(text):
        return f"!{shell['command']}"
    command = _COMMAND.match(text)
    if command is None:
        return text
    name, arguments = command["name"].strip(), (command["args"] or "").strip()
    return f"/{name.lstrip('/')} {arguments}".rstrip()


def block_text(block: Record, depth: int = 0) -> str:
    """The text of a content block of any type, as a person would read it; see `measured`."""
    type_ = block.get("type")
    if type_ == "thinking":
        return _text(block.get("thinking"))
    if type_ in ("tool_use", "server_tool_use"):
        return _json(block.get("input"))
    if type_ in ("image", "document"):
        return f"[{type_}]"
    if "text" in block:
        return _text(block["text"])
    if "content" in block:
        content = block["content"]
        if isinstance(content, list) and depth < _DEEPEST:
            parts = (part for part in content if isinstance(part, dict))
            return "\n".join(block_text(part, depth + 1) for part in parts)
        return _text(content)
    return _json({k: v for k, v in block.items() if k != "type"})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, ensure_ascii=False, default=str)


def measured(text: str) -> tuple[str, int]:
    """Text that any JSON encoder takes (lone surrogates become U+FFFD), and its size in bytes."""
    if text.isascii():
        return text, len(text)
    try:
        # Unlike `encode`, it leaves the UTF-8 form with the string, where orjson finds it.
        return text, codecs.readbuffer_encode(text)[1]
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text, len(text.encode())


def clean(text: str) -> str:
    return measured(text)[0]


def preview(text: str, limit: int = 200) -> str:
    """At most `limit` characters on one line."""
    # Mostly what is not far from the start suffices; a text may begin with much white space.
    for enough in (limit * 2, limit * 20):
        line = " ".join(clean(text[:enough]).split())
        if len(line) > limit:
            return line[: limit - 1] + "…"
        if len(text) <= enough:
            break
    return line


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")


def time_of(record: Record) -> str | None:
    """A record's timestamp with milliseconds; None when it has none that can be read."""
    stamp = record.get("timestamp")
    if not isinstance(stamp, str):
        return None
    match = _TIME.fullmatch(stamp)
    if match and len(stamp) == 24:
        return stamp
    return f"{match[1]}{(match[2] or '.000')[:4].ljust(4, '0')}Z" if match else None
