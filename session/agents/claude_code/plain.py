"""Runs of plain lines, read by the extension `_scan` where it was built.

Most lines of a transcript are ordinary records in their ordinary spelling, whose directory,
version and session are those of the line before.  `native/` knows these, puts them into
columns, and stops at the first line that is anything else, which the ordinary code then reads.
It is never needed: `TURNTREE_PURE=1` does without, and so does an install without a compiler.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

if TYPE_CHECKING:
    from array import array

try:
    from session.agents.claude_code import _scan
except ImportError:
    _scan = None  # type: ignore[assignment]

native: Any = None if os.environ.get("TURNTREE_PURE") == "1" else _scan
"""The extension, None where there is none."""

# Flags: what the table knows already.
_NAMED = 1  # the first prompt
_FORKED = 2  # the session that this one was forked from
_SETTLED = 4  # no explicit pointer is in force
_QUIET = 8  # every call was answered
_UNNAMED = 16  # no record of its own so far, where any session's are taken for that

# What of a call.
CALLED, DELEGATED, ANSWERED = range(3)


class Run(NamedTuple):
    """Plain lines that follow each other.  Columns are bytes, as `array.frombytes` takes them."""

    next: int  # where in the data the line begins that is not plain; the data's end if all are
    lines: int
    offsets: bytes
    ids: bytes
    parents: bytes
    kinds: bytes
    prompts: bytes
    prompt_parents: bytes
    prompt_ids: bytes
    tree_ids: bytes  # of the lines with a place in the tree: their ids and indexes
    tree_lines: bytes
    calls: list[tuple[int, int, str]]  # line, what, id; answered ones may be left out
    last_main: int  # the last line on the main line of the conversation, -1: none
    newest: str | None  # the latest time at which someone spoke
    pointer: int | None  # the id that the last pointer names, None: there was none


class Table(Protocol):
    """What must be known of the lines before; see `LineTable`."""

    ids: array[int]
    parents: array[int]
    kinds: bytearray
    prompts: array[int]
    prompt_ids: array[int]
    own_ids: frozenset[str] | None
    has_own: bool
    awaited: str | None
    first: dict[str, Any]
    created_at: str | None
    first_prompt: str | None
    explicit: bool
    cleared: bool
    open_calls: dict[str, int]
    orphan_results: dict[str, int]
    last_cwd: str | None
    version: str | None
    last_entrypoint: str | None
    last_session: str | None

    @property
    def forked_from(self) -> object: ...


def read(table: Table, position: int, data: bytes | bytearray, start: int, stop: int) -> Run | None:
    """The plain lines at the beginning of `data[start:stop]`, which ends with a newline; `data`
    begins at byte `position` of the file.  None when there are none, or no extension."""
    if native is None or not table.first or table.created_at is None:
        return None
    flags = (
        (table.first_prompt is not None and _NAMED)
        | (table.forked_from is not None and _FORKED)
        | (not (table.explicit or table.cleared) and _SETTLED)
        | (not (table.open_calls or table.orphan_results) and _QUIET)
        | (table.own_ids is None and not table.has_own and _UNNAMED)
    )
    run = Run._make(
        native.scan(
            data,
            start,
            stop,
            position,
            table.ids,
            table.parents,
            table.kinds,
            table.prompts,
            table.prompt_ids,
            _spelt(table.last_cwd),
            _spelt(table.version),
            _spelt(table.last_entrypoint),
            _spelt(None if table.last_session == table.awaited else table.last_session),
            flags,
        )
    )
    return run if run.lines else None


@lru_cache(maxsize=64)
def _spelt(text: str | None) -> bytes | None:
    """A text as the program spells it in JSON, without quotes; None for one that it cannot."""
    if text is None:
        return None
    try:
        return orjson.dumps(text)[1:-1]
    except orjson.JSONEncodeError:
        return None
