"""What the engine returns: frozen values in the words and field names of the protocol.

Times are RFC 3339 UTC strings with milliseconds.  Sizes are bytes.  `None` is the
protocol's null.  The classes are converted to JSON field by field (`fields_of`).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from session.values import fields, value


@value
class ForkedFrom:
    session_id: str
    turn_id: str | None
    turn_number: int | None
    snapshot: str | None = None


@value
class Live:
    pid: int
    since: str | None


@value
class Holder:
    pid: int
    host: str
    since: str
    program: str


@value
class Resume:
    """What a person runs to go on: `command` in `cwd` with `env` added."""

    command: list[str]
    cwd: str | None
    env: dict[str, str]
    resumable: bool
    reason: str | None


@value
class Session:
    session_id: str
    agent: str
    title: str | None
    cwd: str | None
    last_cwd: str | None
    created_at: str | None
    updated_at: str | None
    turn_count: int | None
    branch_count: int | None
    revision: str | None
    state: str
    kind: str
    forked_from: ForkedFrom | None
    live: Live | None
    resume: Resume
    workspace: dict[str, Any] | None = None
    finding_count: int | None = None
    archived: bool = False
    metadata: dict[str, Any] | None = None


@value
class Turn:
    """`tool_calls` counts them; `files` are changed paths, relative to `cwd` where inside it."""

    turn_id: str
    turn_number: int
    origin_turn_id: str | None
    parent_turn_id: str | None
    branch: str
    prompt: str
    prompt_bytes: int
    response: str | None
    started_at: str | None
    ended_at: str | None
    status: str
    tool_calls: int
    files: list[str]
    snapshot: str | None = None
    compacted: bool = False


@value
class Item:
    item_id: str
    kind: str
    text: str
    tool: str | None
    call_id: str | None
    bytes: int
    truncated: bool


@value
class Branch:
    leaf_id: str
    active: bool
    turn_count: int
    last_prompt: str | None
    updated_at: str | None
    forked_at_turn_id: str | None


@value
class Gap:
    """A record that `before_turn_id` descends from is `missing` (its id); `line` is 1-based."""

    before_turn_id: str | None
    missing: str
    line: int


@value
class Finding:
    """`severity`: error, warning or info.  `line` is 1-based and `byte_offset` where it starts;
    None where no line of the session's file is meant.  `repair` is the name of the repair that
    deals with it."""

    code: str
    severity: str
    line: int | None
    byte_offset: int | None
    turn_id: str | None
    message: str
    repair: str | None


@value
class Skipped:
    path: str
    reason: str


@value
class Searched:
    agent: str
    store: str
    exists: bool


@value
class Warn:
    code: str
    message: str


@value
class Boundary:
    """Exactly one field is set; `by` is for rewind only."""

    latest: bool | None = None
    through_turn: str | None = None
    before_turn: str | None = None
    turn_number: int | None = None
    by: int | None = None


@value
class FileChange:
    path: str
    action: str
    conflict: str | None = None


@value
class Indexing:
    """How many of the sessions' files are indexed, while some are not."""

    done: int
    total: int


@value
class SessionPage:
    sessions: list[Session]
    next_cursor: str | None
    skipped: list[Skipped]
    searched: list[Searched] | None = None
    indexing: Indexing | None = None


HIT, HIT_END = "\u2068", "\u2069"
"""What stands around a hit in a snippet: the signs that isolate a piece of text.  A terminal or
an editor that knows nothing of them shows nothing of them, and no snippet holds others."""


@value
class Match:
    """A turn that a search found, with its session's title and time of the last message;
    `turn_number` is None on an abandoned branch."""

    session_id: str
    turn_id: str
    turn_number: int | None
    snippet: str
    title: str | None = None
    updated_at: str | None = None


@value
class MatchPage:
    matches: list[Match]
    next_cursor: str | None
    searched: list[Searched] | None = None
    indexing: Indexing | None = None


@value
class TurnPage:
    session: Session
    turns: list[Turn]
    next_cursor: str | None
    total_turns: int
    gaps: list[Gap]


@value
class TurnItems:
    turn: Turn
    items: list[Item]
    next_cursor: str | None


@value
class ForkTurns:
    kept: int
    source_total: int


@value
class ForkResult:
    status: str
    operation_id: str | None
    session: Session | None
    turns: ForkTurns
    records_copied: int
    bytes_copied: int
    method: str
    dropped_prompt: str | None
    resume: Resume
    workspace: dict[str, Any] | None
    warnings: list[Warn]


Repair = Literal[
    "recover_lines",
    "collect_strays",
    "bridge_gaps",
    "cut_gaps",
    "close_calls",
    "drop_calls",
    "drop_thinking",
    "strip_images",
    "strip_outputs",
]
REPAIRS: tuple[str, ...] = get_args(Repair)
"""What can be repaired.  Of `bridge_gaps` and `cut_gaps`, and of `close_calls` and
`drop_calls`, one is chosen."""

USUAL_REPAIRS = ("recover_lines", "collect_strays", "bridge_gaps", "close_calls", "drop_thinking")
"""Those that are made when none are named: they take nothing away that could be used."""

OUTPUTS_OVER = 16384
"""Bytes of tool output from which `strip_outputs` cuts it, unless another number is given."""


@value
class Repairs:
    """The repairs of one request; outputs of more than `outputs_over` bytes are long."""

    names: tuple[str, ...] = USUAL_REPAIRS
    outputs_over: int = OUTPUTS_OVER

    def has(self, name: str) -> bool:
        return name in self.names


@value
class Repaired:
    """One repair that has something to do: how often, and in words."""

    repair: str
    count: int
    message: str


@value
class RepairResult:
    """As `ForkResult`, with what was (or would be) repaired."""

    status: str
    operation_id: str | None
    session: Session | None
    turns: ForkTurns
    records_copied: int
    bytes_copied: int
    method: str
    dropped_prompt: str | None
    resume: Resume
    workspace: dict[str, Any] | None
    warnings: list[Warn]
    repairs: list[Repaired]


@value
class RewindTurns:
    kept: int
    removed: int


@value
class RewindResult:
    status: str
    operation_id: str | None
    session: Session
    turns: RewindTurns
    dropped: list[Turn]
    dropped_prompt: str | None
    files: list[FileChange]
    warnings: list[Warn]


@value
class UndoResult:
    operation_id: str
    session: Session | None
    files: list[FileChange]
    status: str


@value
class Operation:
    operation_id: str
    kind: str
    session_id: str
    new_session_id: str | None
    state: str
    at: str
    summary: str
    undoable: bool


@value
class OperationPage:
    operations: list[Operation]
    next_cursor: str | None


@value
class BranchList:
    branches: list[Branch]


@value
class FindingList:
    findings: list[Finding]


@value
class OneSession:
    session: Session


@value
class Discarded:
    session_id: str
    status: str = "discarded"


@value
class Allocated:
    session_id: str


@value
class AgentInfo:
    """One agent as `initialize` advertises it.

    `capabilities`: fork, rewind, undo, append, restore_files.
    """

    agent: str
    available: bool
    store: str
    capabilities: dict[str, bool]


@value
class Change:
    """One `turntree/didChangeSessions` notification."""

    session_ids: list[str]
    reason: str
    forked_from: str | None = None


def fields_of(value: Any) -> dict[str, Any]:
    """One level of a model value as a dict, for `orjson.dumps(..., default=fields_of)`.

    A field whose absence is the message (`searched`, `indexing`, `forked_from` of a change) is
    left out when it is None.
    """
    if not hasattr(value, "__attrs_attrs__"):
        raise TypeError(f"not a model value: {type(value).__name__}")
    out = fields(value)
    for name in _OMITTED.get(type(value), ()):
        if out[name] is None:
            del out[name]
    return out


_OMITTED: dict[type, tuple[str, ...]] = {
    SessionPage: ("searched", "indexing"),
    MatchPage: ("searched", "indexing"),
    Change: ("forked_from",),
}
