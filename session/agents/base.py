"""What Turntree asks of an agent's format.  One class a format; nothing else changes for a new one.

Methods are blocking and run on a worker thread; they raise `session.errors` and OSError.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from session.store.native_files import CachedFile, Identity
from session.store.native_index import SavedIndex
from session.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from session.effects import Effect
    from session.model import (
        AgentInfo,
        Boundary,
        Branch,
        Finding,
        Gap,
        Item,
        Live,
        Repaired,
        Repairs,
        Resume,
        Skipped,
        Turn,
        Warn,
    )
    from session.scratch import Scratch
    from session.staging import Stage
    from session.store.texts import Known, Texts
    from session.work import Work


@value
class Summary:
    """What a listing shows of one native session.  Counts are None until it was indexed."""

    native_id: str
    path: str
    kind: str
    title: str | None
    cwd: str | None
    last_cwd: str | None
    created_at: str | None
    updated_at: str | None
    first_prompt: str | None = None
    turn_count: int | None = None
    branch_count: int | None = None
    revision: str | None = None
    finding_count: int | None = None
    damaged: bool = False
    unreadable: bool = False
    forked_from: str | None = None
    forked_at: str | None = None
    forked_turn: int | None = None
    parent_id: str | None = None
    failed: bool = False
    """Indexing it was tried, in vain: it is tried again when the file has changed."""

    def packed(self, identity: Identity) -> CachedFile:
        """As a listing keeps it for a file with this identity."""
        return CachedFile(
            *identity,
            path=self.path,
            native_id=self.native_id,
            kind=self.kind,
            title=self.title,
            cwd=self.cwd,
            last_cwd=self.last_cwd,
            changed_at=max(self.updated_at or "", self.created_at or ""),
            indexed=self.turn_count is not None or self.failed,
            summary=orjson.dumps(dict(zip(_PACKED, _packed(self), strict=True))),
        )

    @classmethod
    def unpacked(cls, file: CachedFile) -> Summary:
        """What was kept; of a row that another version made, what its columns say."""
        known = {name: getattr(file, name) for name in _COLUMNS}
        try:
            return cls(**known, **orjson.loads(file.summary))
        except (ValueError, TypeError):
            return cls(**known, created_at=None, updated_at=file.changed_at or None)


_COLUMNS = ("native_id", "path", "kind", "title", "cwd", "last_cwd")
"""What of a summary stands in columns of its own, for filters."""
_PACKED = tuple(name for name in Summary.__annotations__ if name not in _COLUMNS)
_packed = attrgetter(*_PACKED)


@value
class Listing:
    """All sessions of a store; `changed` are cache entries to be saved, `gone` to be dropped,
    `unindexed` those without counts."""

    files: list[CachedFile]
    skipped: list[Skipped]
    changed: list[CachedFile]
    gone: list[str]
    unindexed: list[CachedFile]


@value
class Indexed:
    """What indexing one file taught: its entry for the listing's cache (None: it has that, or
    there is no session), and the index itself, to be kept (None: it is not worth it)."""

    entry: CachedFile | None
    saved: SavedIndex | None


class Cut(Protocol):
    """A resolved boundary; agents add what they need."""

    @property
    def kept(self) -> int: ...

    @property
    def total(self) -> int: ...


@value
class ForkPlan:
    """A fork that could be made: places, sizes, and the agent's own part of the plan."""

    stage: Stage
    kept: int
    total: int
    records: int
    bytes: int
    last_turn: str | None
    dropped_prompt: str | None
    warnings: list[Warn]
    native: Any
    last_number: int | None = None  # of the last kept turn in the source, where it is not `kept`
    repairs: list[Repaired] | None = None


@value
class Built:
    records: int
    bytes: int
    warnings: list[Warn]


class History(Protocol):
    """One session's file, indexed as of now; reading never writes."""

    @property
    def summary(self) -> Summary: ...

    @property
    def turn_count(self) -> int: ...

    @property
    def leaf_id(self) -> str | None: ...

    @property
    def open_in(self) -> Live | None:
        """The program that had the session open when it was indexed."""
        ...

    def gaps(self) -> list[Gap]: ...

    def branches(self) -> list[Branch]: ...

    def turn_id(self, number: int) -> str: ...

    def turns(self, numbers: Sequence[int]) -> list[Turn]:
        """Turns of the active branch, 1-based, in the order asked for."""
        ...

    def branch_turns(self, branch: str) -> Sequence[Any]:
        """Handles of the turns of a branch (`all` or a leaf id), oldest first, for `turns_of`."""
        ...

    def turns_of(self, handles: Sequence[Any]) -> list[Turn]: ...

    def items(
        self, turn_id: str, max_bytes: int, cursor: str | None
    ) -> tuple[Turn, list[Item], str | None]: ...

    def cut(self, boundary: Boundary) -> Cut: ...

    def has_live(self, record_id: str | None) -> bool:
        """Whether the record with this id is on the active branch."""
        ...

    def dropped_numbers(self, cut: Any) -> range:
        """Numbers of the turns of the active branch that a cut drops."""
        ...

    def dropped_prompt(self, cut: Any) -> str | None: ...


class Agent(Protocol):
    """One native format."""

    name: str

    def info(self) -> AgentInfo: ...

    def new_id(self) -> str: ...

    def check_new_id(self, native_id: str) -> None:
        """Raise InvalidParams when the agent would not take this id."""
        ...

    def listing(
        self, cached: dict[str, CachedFile], work: Work, *, watched: bool = False
    ) -> Listing:
        """All sessions; with `watched`, nothing was heard of a change since the last time."""
        ...

    def failed(self, entry: CachedFile) -> CachedFile:
        """What a listing shows of a file that cannot be indexed as it is."""
        ...

    def texts(
        self, entry: CachedFile, since: Known | None, work: Work, saved: SavedIndex | None = None
    ) -> Texts:
        """What was said in a session's turns that is new `since` then; read while it is taken.

        `saved` is its index, if one is kept.

        Raises OSError, Cancelled.
        """
        ...

    def said(self, path: str, turn_id: str, places: list[int]) -> tuple[str, str] | None:
        """Prompt and answer of a turn of `texts`; None when it is no longer there."""
        ...

    def learn(self, entries: Iterable[CachedFile]) -> list[CachedFile]:
        """Take over what another process has indexed; what of it was news."""
        ...

    def cache_entry(self, history: Any) -> CachedFile | None:
        """What indexing a file taught, for the listing's cache; None when that is known already,
        or for a staged file."""
        ...

    def index(self, path: Path, saved: SavedIndex | None, work: Work) -> Indexed:
        """Index one file as it is now, from where `saved` ends if that fits; nothing of it is
        kept open.  Memory is bounded by the number of lines.  Raises OSError, Cancelled."""
        ...

    def locate(self, native_id: str) -> Path | None: ...

    def live(self) -> dict[str, Live]: ...

    def watched(self) -> list[Path]:
        """Directories whose changes may concern sessions."""
        ...

    def session_of_path(self, path: Path) -> str | None:
        """The native id of the session that a file in the store belongs to."""
        ...

    def open(
        self, path: Path, *, native_id: str | None, work: Work, saved: SavedIndex | None = None
    ) -> History:
        """Index a file, from where `saved` ends if nothing newer is known; `native_id` for one
        that is staged under another name."""
        ...

    def holds(self, path: Path) -> bool:
        """Whether an index of this file is in memory, so that a saved one is of no use."""
        ...

    def saved(self, history: Any) -> SavedIndex | None:
        """A history's index, to be kept for other processes; None when it is not worth it, or
        hardly more than what was kept before."""
        ...

    def known(self, path: Path, *, native_id: str | None) -> History | None:
        """The history of a file that is as it was when it was indexed, None for any other.

        Reads nothing of the file, so that it may be asked on the event loop's thread.
        """
        ...

    def check(self, history: Any, *, siblings: bool, work: Work) -> list[Finding]:
        """What is wrong with a session or dangerous for it: errors first, then by line.

        One pass over its file; with `siblings` also over those that lie beside it, where its
        records may have gone.  Writes nothing.
        """
        ...

    def resume(self, summary: Summary, folders: dict[str, str] | None = None) -> Resume:
        """How a session is gone on with.

        `folders` is what the agent remembers of directories while many are asked about.
        """
        ...

    def resume_of(self, history: Any, plan: ForkPlan) -> Resume:
        """How the child of a plan will be resumed."""
        ...

    def plan_fork(
        self,
        history: Any,
        cut: Any,
        *,
        child_id: str,
        title: str,
        cwd: str | None,
        bridge_gaps: bool,
    ) -> ForkPlan: ...

    def plan_repair(
        self,
        history: Any,
        *,
        child_id: str,
        title: str,
        cwd: str | None,
        wanted: Repairs,
        scratch: Scratch,
        work: Work,
    ) -> ForkPlan:
        """A fork of the whole live branch that mends what is damaged; `scratch` is used by the
        plan until it was built."""
        ...

    def build_fork(self, history: Any, plan: ForkPlan, work: Work) -> Built:
        """Stage the child of either plan."""
        ...

    def stage_folder(self, history: Any, operation_id: str) -> Path:
        """Where `staged_rewind` and `staged_undo` may build: recorded before they do."""
        ...

    def quick_rewind(self, history: Any, cut: Any) -> Effect | None:
        """A rewind that needs no new file, by the agent's own means; None: there is none."""
        ...

    def staged_rewind(
        self, history: Any, cut: Any, *, stage: Path, archive: Path, verb: str, work: Work
    ) -> Effect:
        """A rewind by a new file; the old one will be kept as `archive`."""
        ...

    def quick_undo(self, history: Any, done: Effect, leaf_before: str | None) -> Effect | None: ...

    def staged_undo(
        self,
        history: Any,
        done: Effect,
        *,
        leaf_before: str | None,
        turns_before: int,
        stage: Path,
        archive: Path,
        work: Work,
    ) -> Effect: ...

    def empty(self, native_id: str, cwd: str | None) -> History:
        """A session that exists only by its id, forked with no turn and not started yet."""
        ...

    def belongings(self, native_id: str, path: Path) -> list[Path]:
        """A session's file first, then whatever else is its own."""
        ...


__all__ = [
    "Agent",
    "Built",
    "Cut",
    "ForkPlan",
    "History",
    "Indexed",
    "Listing",
    "Summary",
]
