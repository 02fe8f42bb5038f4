"""The result that stands in for one that was lost: a record in the agent's own form."""

from __future__ import annotations

import json
import uuid
from array import array

import orjson

from session.agents.claude_code import records
from session.agents.claude_code.records import (
    ASSISTANT,
    ATTACHMENT,
    KIND,
    PASSAGE,
    RESULT,
    SYSTEM,
    Record,
)
from session.agents.claude_code.repairing import blocks
from session.agents.claude_code.transcript import Transcript

_TEXT = (
    "The result of this call was lost: the program ended before it was recorded. "
    "Whether the call was carried out is not known."
)
_NAMES = uuid.UUID("6f1d7f0e-5d0f-4b8e-9a54-3c1b6a0f7a51")
_OF_THE_CALL = ("userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug")
_PASSED = frozenset((ATTACHMENT, SYSTEM, PASSAGE))


def uuid_for(native_id: str, call: str) -> str:
    """The id of the stand-in: the same for the same call, so that a repair can be repeated."""
    return str(uuid.uuid5(_NAMES, f"{native_id}/{call}"))


def stand_in(
    call_record: Record, call: str, *, uid: str, parent: str, prompt_id: str | None, at: str | None
) -> bytes:
    """The line of a stand-in for the result of `call`, below the record `parent`.

    What a result says of its session is taken from the record that calls, its time from the
    record before it.
    """
    block = {"type": "tool_result", "content": _TEXT, "is_error": True, "tool_use_id": call}
    record: Record = {
        "parentUuid": parent,
        "isSidechain": False,
        **({"promptId": prompt_id} if prompt_id else {}),
        "type": "user",
        "message": {"role": "user", "content": [block]},
        "uuid": uid,
        "timestamp": at or call_record.get("timestamp"),
        "toolUseResult": f"Error: {_TEXT}",
        "sourceToolAssistantUUID": call_record["uuid"],
        **{key: call_record[key] for key in _OF_THE_CALL if key in call_record},
    }
    try:
        return orjson.dumps(record) + b"\n"
    except orjson.JSONEncodeError:  # half a character in a path
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def place_after(transcript: Transcript, chain: array[int], at: int) -> int:
    """Where on a chain the results of a message end, of which a record is at position `at`:
    the position of its last record, or of the last result of its calls right behind it."""
    kinds = transcript.kinds
    calls = set(_calls(transcript, chain[at]))
    end = at
    for position in range(at + 1, len(chain)):
        line = chain[position]
        kind = kinds[line] & KIND
        if kind in _PASSED:
            continue
        if kind == ASSISTANT and transcript.same_message(line, chain[at]):
            calls.update(_calls(transcript, line))
        elif kind != RESULT or not calls.intersection(_results(transcript, line)):
            break
        end = position
    return end


def _calls(transcript: Transcript, line: int) -> list[str]:
    found = (blocks.call_of(block) for block in _blocks(transcript, line))
    return [call for call in found if call is not None]


def _results(transcript: Transcript, line: int) -> list[str]:
    found = (blocks.result_of(block) for block in _blocks(transcript, line))
    return [call for call in found if call is not None]


def _blocks(transcript: Transcript, line: int) -> list[Record]:
    return [b for _, r in transcript.read([line]) for b in records.content_blocks(r)]
