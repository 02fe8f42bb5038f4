"""Claude Code behind the adapter protocol."""

from __future__ import annotations

import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from session import osfile
from session.agents.base import Built, ForkPlan, Indexed, Listing, Summary
from session.agents.claude_code import listing as listings
from session.agents.claude_code.store import ClaudeStore, NativeFile, is_session_id
from session.errors import InvalidParams
from session.later import later
from session.model import AgentInfo, Finding, Live, Resume
from session.store.native_files import NO_FILE, CachedFile
from session.work import Work

if TYPE_CHECKING:
    from session import effects, staging
    from session.agents.claude_code import checking, fork, packed, rewind
    from session.agents.claude_code import history as histories
    from session.agents.claude_code import texts as text
    from session.agents.claude_code import transcript as transcripts
    from session.agents.claude_code.cut import Cut
    from session.agents.claude_code.history import History
    from session.agents.claude_code.repairing import plan as repairs
    from session.agents.claude_code.transcript import Transcript
    from session.effects import Effect
    from session.model import Repairs
    from session.scratch import Scratch
    from session.store.native_index import SavedIndex
    from session.store.texts import Known, Texts
else:
    # A listing mostly shows what is known: it reads no transcript and changes nothing.
    effects = later("session.effects")
    checking = later("session.agents.claude_code.checking")
    fork = later("session.agents.claude_code.fork")
    histories = later("session.agents.claude_code.history")
    packed = later("session.agents.claude_code.packed")
    repairs = later("session.agents.claude_code.repairing.plan")
    text = later("session.agents.claude_code.texts")
    rewind = later("session.agents.claude_code.rewind")
    staging = later("session.staging")
    transcripts = later("session.agents.claude_code.transcript")

_CACHED_LINES = 1_200_000  # about 25 MB of index
_CACHED_FILES = 64


class ClaudeCode:
    """See `base.Agent`."""

    name = "claude-code"

    def __init__(self, store: ClaudeStore | None = None) -> None:
        self.store = store or ClaudeStore()
        self._lock = threading.Lock()
        self._open: OrderedDict[Path, tuple[threading.Lock, Transcript]] = OrderedDict()
        self._shown = listings.Known(self.store, self._indexed, self._is_open)

    def info(self) -> AgentInfo:
        return AgentInfo(
            agent=self.name,
            available=self.store.projects.is_dir(),
            store=str(self.store.root),
            capabilities={
                "fork": True,
                "rewind": True,
                "undo": True,
                "append": False,
                "restore_files": False,
            },
        )

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def check_new_id(self, native_id: str) -> None:
        if not is_session_id(native_id):
            raise InvalidParams(
                f"new_session_id: a Claude Code session id is a lower-case UUID, not {native_id!r};"
                " allocate_session_id makes one.",
                field="new_session_id",
            )

    def locate(self, native_id: str) -> Path | None:
        return self.store.locate(native_id)

    def live(self) -> dict[str, Live]:
        return self.store.live()

    def watched(self) -> list[Path]:
        return [self.store.projects]

    def session_of_path(self, path: Path) -> str | None:
        return self.store.id_at(path)

    # Listing

    def listing(
        self, cached: dict[str, CachedFile], work: Work, *, watched: bool = False
    ) -> Listing:
        return self._shown.listing(cached, work, watched=watched)

    def failed(self, entry: CachedFile) -> CachedFile:
        return self._shown.failed(entry)

    def learn(self, entries: Iterable[CachedFile]) -> list[CachedFile]:
        return self._shown.learn(entries)

    def _is_open(self, path: str) -> bool:
        return bool(self._open) and Path(path) in self._open

    def texts(
        self, entry: CachedFile, since: Known | None, work: Work, saved: SavedIndex | None = None
    ) -> Texts:
        transcript = self._read(Path(entry.path), entry.native_id, saved, work)
        return text.texts_of(transcript, since, work)

    def said(self, path: str, turn_id: str, places: list[int]) -> tuple[str, str] | None:
        return text.said_at(Path(path), turn_id, places)

    def _read(self, path: Path, native_id: str, saved: SavedIndex | None, work: Work) -> Transcript:
        """A file's index, without making room for it among those that somebody asked for."""
        if path in self._open:
            return self.open(path, native_id=native_id, work=work).transcript
        transcript = _transcript(path, native_id, saved)
        transcript.refresh(work)
        return transcript

    def _indexed(self, file: NativeFile, work: Work) -> CachedFile:
        """What a file holds, from all of it."""
        transcript = self._read(Path(file.path), file.native_id, None, work)
        history = histories.History(transcript, file.native_id, {})
        if _holds_nothing(history.transcript):
            return listings.nothing(file).packed(file.identity)
        identity = history.transcript.identity
        return history.summary.packed(identity or file.identity)

    def cache_entry(self, history: History) -> CachedFile | None:
        identity = history.transcript.identity
        if identity is None or not identity.size or history.transcript.path.name == "session":
            return None
        if _holds_nothing(history.transcript):
            return None  # a listing skips it
        entry = history.summary.packed(identity)
        if self._shown.knows(entry):
            return None
        self._shown.note(entry)
        return entry

    def index(self, path: Path, saved: SavedIndex | None, work: Work) -> Indexed:
        transcript = self._read(path, path.stem, saved, work)
        history = histories.History(transcript, path.stem, {})
        if _holds_nothing(transcript):
            identity = transcript.identity or NO_FILE
            entry = listings.nothing(NativeFile(str(path), path.stem, identity, True)).packed(
                identity
            )
            self._shown.note(entry)
            return Indexed(entry, None)
        return Indexed(self.cache_entry(history), packed.saved(transcript))

    # One session

    def open(
        self, path: Path, *, native_id: str | None, work: Work, saved: SavedIndex | None = None
    ) -> History:
        # To unpack a long one takes a while, in which others want the lock.
        kept = None if path in self._open else _transcript(path, native_id, saved)
        with self._lock:
            if path not in self._open:
                fresh = kept or transcripts.Transcript(path, native_id)
                self._open[path] = (threading.Lock(), fresh)
            lock, transcript = self._open[path]
            self._open.move_to_end(path)
            while len(self._open) > _CACHED_FILES:
                self._open.popitem(last=False)
            total = sum(len(entry.kinds) for _, entry in self._open.values())
            while total > _CACHED_LINES and len(self._open) > 1:
                _, (_, oldest) = self._open.popitem(last=False)
                total -= len(oldest.kinds)
        with lock:
            transcript.refresh(work)
            view = transcript.view()
        return histories.History(view, native_id or path.stem, self.live())

    def holds(self, path: Path) -> bool:
        return path in self._open

    def saved(self, history: History) -> SavedIndex | None:
        index = packed.saved(history.transcript)
        if index is not None:
            # A history has a view of the index; that it was kept, later views must know.
            with self._lock:
                _, transcript = self._open.get(history.transcript.path, (None, history.transcript))
                transcript.kept_until = history.transcript.kept_until
        return index

    def known(self, path: Path, *, native_id: str | None) -> History | None:
        with self._lock:
            if path not in self._open:
                return None
            lock, transcript = self._open[path]
            self._open.move_to_end(path)
        # Held while a thread indexes the file.
        if not lock.acquire(blocking=False):
            return None
        try:
            if not transcript.is_current():
                return None
            view = transcript.view()
        finally:
            lock.release()
        return histories.History(view, native_id or path.stem, self.live())

    def check(self, history: History, *, siblings: bool, work: Work) -> list[Finding]:
        with history.transcript.while_read():
            return checking.check(self.store, history, siblings=siblings, work=work)

    def resume(self, summary: Summary, folders: dict[str, str] | None = None) -> Resume:
        native_id = summary.native_id
        cwd = self._resume_cwd(summary, {} if folders is None else folders)
        command = ["claude", "--resume", native_id]
        reason = None
        if summary.kind == "subagent":
            reason = "a subagent's transcript is resumed with its parent session"
        elif summary.unreadable:
            reason = "its file cannot be read"
        elif summary.turn_count == 0 and not os.path.lexists(summary.path):
            command = ["claude", "--session-id", native_id]
        elif summary.turn_count == 0 and None in (summary.revision, summary.created_at):
            # Not one record with a time: the agent finds no conversation in the file.
            reason = "it holds no message"
        if reason is None and cwd is not None and not os.path.isdir(cwd):
            reason = f"its directory {cwd} does not exist"
        return Resume(command, cwd, self.store.env, reason is None, reason)

    def resume_of(self, history: History, plan: ForkPlan) -> Resume:
        native: fork.NativePlan = plan.native if plan.repairs is None else plan.native.fork
        destination = native.stage.destination
        source = history.summary if plan.repairs is None else plan.native.summary
        cwd = native.cwd or source.cwd
        return self.resume(
            evolve(
                source,
                native_id=native.child_id,
                path=str(destination),
                kind="main",
                cwd=cwd,
                last_cwd=native.cwd or source.last_cwd,
                turn_count=plan.kept,
                unreadable=False,
            )
        )

    def _resume_cwd(self, summary: Summary, folders: dict[str, str]) -> str | None:
        """The directory from which the agent finds the file: the one its folder is named for."""
        folder = os.path.dirname(summary.path)
        for cwd in (summary.last_cwd, summary.cwd):
            if not cwd:
                continue
            if cwd not in folders:
                folders[cwd] = str(self.store.folder_for(cwd))
            if folders[cwd] == folder:
                return cwd
        return summary.cwd

    def belongings(self, native_id: str, path: Path) -> list[Path]:
        return [path, path.with_suffix(""), self.store.file_history / native_id]

    # Forks and rewinds

    def plan_fork(
        self,
        history: History,
        cut: Cut,
        *,
        child_id: str,
        title: str,
        cwd: str | None,
        bridge_gaps: bool,
    ) -> ForkPlan:
        with history.transcript.while_read():
            return fork.planned(
                self.store,
                history,
                cut,
                child_id=child_id,
                title=title,
                cwd=cwd,
                bridge_gaps=bridge_gaps,
            )

    def plan_repair(
        self,
        history: History,
        *,
        child_id: str,
        title: str,
        cwd: str | None,
        wanted: Repairs,
        scratch: Scratch,
        work: Work,
    ) -> ForkPlan:
        with history.transcript.while_read():
            return repairs.planned(
                self.store,
                history,
                child_id=child_id,
                title=title,
                cwd=cwd,
                wanted=wanted,
                scratch=scratch,
                work=work,
            )

    def build_fork(self, history: History, plan: ForkPlan, work: Work) -> Built:
        if plan.stage.destination is None:
            return Built(0, 0, [])
        build = fork.build if plan.repairs is None else repairs.build
        with history.transcript.while_read():
            built, child = build(self.store, history.transcript, plan.native, work)
        # Known already under the name that it will get; until then nothing asks for it.
        child.path = plan.stage.destination
        with self._lock:
            self._open[child.path] = (threading.Lock(), child)
        return built

    def stage_folder(self, history: History, operation_id: str) -> Path:
        # Beside the file itself, where the session's name is a link to it.
        path = Path(osfile.real_path(str(history.transcript.path)))
        return path.parent / f"{staging.PREFIX}op-{operation_id}"

    def quick_rewind(self, history: History, cut: Cut) -> Effect | None:
        t = history.transcript
        across = [line for line in t.gaps if t.parents[line] >= 0 and line in cut.lines]
        if across:
            # The agent bridges gaps in its own way: what it would resume is not what we say.
            raise history.damaged_at(min(across))
        with t.while_read():
            return rewind.quick_rewind(t, cut)

    def staged_rewind(
        self, history: History, cut: Cut, *, stage: Path, archive: Path, verb: str, work: Work
    ) -> Effect:
        with history.transcript.while_read():
            return rewind.staged_rewind(
                history.transcript, cut, stage=stage, archive=archive, verb=verb, work=work
            )

    def quick_undo(self, history: History, done: Effect, leaf_before: str | None) -> Effect | None:
        with history.transcript.while_read():
            return rewind.quick_undo(history.transcript, done, leaf_before)

    def staged_undo(
        self,
        history: History,
        done: Effect,
        *,
        leaf_before: str | None,
        turns_before: int,
        stage: Path,
        archive: Path,
        work: Work,
    ) -> Effect:
        assert isinstance(done, effects.Swap)
        with history.transcript.while_read():
            return rewind.staged_undo(
                history.transcript,
                done,
                leaf_before=leaf_before,
                turns_before=turns_before,
                stage=stage,
                archive=archive,
                work=work,
            )

    def empty(self, native_id: str, cwd: str | None) -> History:
        """A session that exists only by its id: forked with no turn, not started yet."""
        folder = self.store.folder_for(cwd or os.getcwd())
        transcript = transcripts.Transcript(folder / f"{native_id}.jsonl")
        transcript.identity = NO_FILE
        transcript.cwd = transcript.last_cwd = cwd
        return histories.History(transcript, native_id, self.live())


def _holds_nothing(transcript: Transcript) -> bool:
    """Whether nothing in a file is a session: a fork with no turn yet is one."""
    return transcript.is_empty and not transcript.forked_from


def _transcript(path: Path, native_id: str | None, saved: SavedIndex | None) -> Transcript:
    kept = packed.unpack(b"".join(saved.pieces), path, native_id) if saved is not None else None
    return kept or transcripts.Transcript(path, native_id)
