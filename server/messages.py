"""The parameters of every method, as they stand on the wire.

One frozen class a method with the protocol's field names.  `read` makes one of a request's
`params`; what does not fit is `InvalidParams` with the field's path in plain words.  `sent`
gives back the fields that the client sent, as keyword arguments for the engine, which alone
knows the defaults.
"""

from __future__ import annotations

from typing import Any, Literal, NewType, TypeVar

import attrs
from attrs import define

from session import model

Agent = Literal["claude-code", "codex", "opencode", "gemini", "pi", "journal"]
Kind = Literal["main", "subagent", "sdk"]

Limit = NewType("Limit", int)
"""Entries of a page, 1 to 500."""

WaitMs = NewType("WaitMs", int)
"""Milliseconds to wait for a lock, 0 or more."""

MaxBytes = NewType("MaxBytes", int)
"""Bytes, 1 or more."""

CallerId = NewType("CallerId", str)
"""An id that the caller made: `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}`."""

ForkPoint = NewType("ForkPoint", model.Boundary)
"""A boundary without `by`."""

RewindPoint = NewType("RewindPoint", model.Boundary)
"""A boundary, `by` included."""


@define(frozen=True)
class ListSessions:
    cwd: str | None = None
    agents: list[Agent] | None = None
    query: str | None = None
    kinds: list[Kind] | None = None
    forked_from: str | None = None
    include_staged: bool | None = None
    include_archived: bool | None = None
    limit: Limit | None = None
    cursor: str | None = None


@define(frozen=True)
class GetSession:
    session_id: str


@define(frozen=True)
class ListTurns:
    session_id: str
    order: Literal["oldest", "newest"] | None = None
    branch: str | None = None
    limit: Limit | None = None
    cursor: str | None = None


@define(frozen=True)
class ListBranches:
    session_id: str


@define(frozen=True)
class ReadTurn:
    session_id: str
    turn_id: str
    max_bytes: MaxBytes | None = None
    cursor: str | None = None


@define(frozen=True)
class CheckSession:
    session_id: str
    include_siblings: bool | None = None


@define(frozen=True)
class SearchTurns:
    query: str
    cwd: str | None = None
    agents: list[Agent] | None = None
    session_id: str | None = None
    limit: Limit | None = None
    cursor: str | None = None


@define(frozen=True)
class AllocateSessionId:
    agent: Agent


@define(frozen=True)
class Workspace:
    mode: Literal["none", "worktree", "copy"] | None = None
    path: str | None = None
    at: Literal["boundary", "now"] | None = None
    include_ignored: bool | None = None


@define(frozen=True)
class ForkSession:
    session_id: str
    new_session_id: str
    at: ForkPoint | None = None
    title: str | None = None
    cwd: str | None = None
    workspace: Workspace | None = None
    stage: bool | None = None
    bridge_gaps: bool | None = None
    unsaved: list[str] | None = None
    dry_run: bool | None = None
    expect_revision: str | None = None
    wait_ms: WaitMs | None = None


@define(frozen=True)
class RepairSession:
    session_id: str
    new_session_id: str
    repairs: list[model.Repair] | None = None
    strip_outputs_over: MaxBytes | None = None
    title: str | None = None
    cwd: str | None = None
    stage: bool | None = None
    dry_run: bool | None = None
    expect_revision: str | None = None
    wait_ms: WaitMs | None = None


@define(frozen=True)
class PromoteSession:
    session_id: str
    wait_ms: WaitMs | None = None


@define(frozen=True)
class DiscardSession:
    session_id: str
    wait_ms: WaitMs | None = None


@define(frozen=True)
class Rewind:
    session_id: str
    to: RewindPoint
    mode: Literal["conversation", "files", "both"] | None = None
    dry_run: bool | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    unsaved: list[str] | None = None
    operation_id: CallerId | None = None
    expect_revision: str | None = None
    wait_ms: WaitMs | None = None


@define(frozen=True)
class Undo:
    """Also the parameters of `redo`.  One of `session_id` and `operation_id` is needed."""

    session_id: str | None = None
    operation_id: CallerId | None = None
    request_id: CallerId | None = None
    on_conflict: Literal["refuse", "keep", "overwrite"] | None = None
    unsaved: list[str] | None = None
    expect_revision: str | None = None
    dry_run: bool | None = None
    wait_ms: WaitMs | None = None


@define(frozen=True)
class ListOperations:
    session_id: str | None = None
    limit: Limit | None = None
    cursor: str | None = None


_NAMES: dict[type, tuple[str, ...]] = {}

P = TypeVar("P", bound=attrs.AttrsInstance)


def sent(params: attrs.AttrsInstance) -> dict[str, Any]:
    """The fields of `params` that the client sent."""
    kind = type(params)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(a.name for a in attrs.fields(kind))
    out = {name: value for name in names if (value := getattr(params, name)) is not None}
    if isinstance(out.get("workspace"), Workspace):
        out["workspace"] = sent(out["workspace"])
    return out
