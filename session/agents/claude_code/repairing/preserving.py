"""The records that a compaction names as preserved, after some left and others came.

The agent heeds such a list only when it finds every record on it, and then forgets all that
stands before the compaction and is not on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from session.agents import spans
from session.agents.claude_code import records


def renamed(line: bytes, still_there: Callable[[list[Any]], list[str]]) -> bytes:
    """The line of a compaction with each list of names as `still_there` makes it anew."""
    member = spans.find(line, 0, b"compactMetadata")
    metadata = records.parse(line[member.value : member.end]) if member is not None else None
    if member is None or metadata is None:
        return line
    messages = metadata.get("preservedMessages")
    names: list[str] = []
    if isinstance(messages, dict):
        for key in ("uuids", "allUuids"):
            if isinstance(messages.get(key), list):
                messages[key] = still_there(messages[key])
                names = names or messages[key]
    segment = metadata.get("preservedSegment")
    if isinstance(segment, dict) and not names:
        names = still_there([segment.get("headUuid"), segment.get("tailUuid")])
    if isinstance(segment, dict) and names:
        segment.update(headUuid=names[0], tailUuid=names[-1])
    return spans.replace(line, [(member.value, member.end, orjson.dumps(metadata))])
