"""Claude Code behind the adapter protocol."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from session import osfile
from session.agents.base import Built, ForkPlan, Indexed, Listing, Summary
from session.agents.claude_code.store import ClaudeStore, NativeFile, is_session_id
from session.errors import Cancelled, InvalidParams
from session.later import later
from session.model import AgentInfo, Finding, Live, Resume, Skipped
from session.store.native_files import NO_FILE, CachedFile, Identity
from session.values import value
from session.work import Work

if TYPE_CHECKING:
    import logging

    from session import effects, staging
    from session.agents.claude_code import checking, fork, packed, rewind
    from session.agents.claude_code import glance as glances
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
    logging = later("logging")
    checking = later("session.agents.claude_code.checking")
    fork = later("session.agents.claude_code.fork")
    glances = later("session.agents.claude_code.glance")
    histories = later("session.agents.claude_code.history")
    packed = later("session.agents.claude_code.packed")
    repairs = later("session.agents.claude_code.repairing.plan")
    text = later("session.agents.claude_code.texts")
    rewind = later("session.agents.claude_code.rewind")
    staging = later("session.staging")
    transcripts = later("session.agents.claude_code.transcript")

_SMALL = 256 << 10
_AT_ONCE = 8 << 20
"""Small files that are no more than this together are indexed before a listing is answered."""
_FURTHER = 64 << 20
"""How far a listing reads beyond the ends of files, in all."""
_LIKELY = 50
"""How many of the files that were written last, and of those on the first page, are looked at
even when nothing was heard of them."""
_NOTHING = "none"
"""The kind of a file that holds no message."""
_CACHED_LINES = 1_200_000  # about 25 MB of index
_CACHED_FILES = 64


class ClaudeCode:
    """See `base.Agent`."""

    name = "claude-code"

    def __init__(self, store: ClaudeStore | None = None) -> None:
        self.store = store or ClaudeStore()
        self._lock = threading.Lock()
        self._open: OrderedDict[Path, tuple[threading.Lock, Transcript]] = OrderedDict()
        self._known: dict[str, CachedFile] = {}
        self._last: _Last | None = None

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
        # What this process has seen itself is newer than what it remembers from others.
        if cached:
            self._known = cached | self._known
        known = self._known
        last = self._last
        if watched and last is not None and last.still_holds():
            return Listing(last.found, last.all_skipped, [], [], last.unindexed)
        skipped: list[Skipped] = []
        seen: list[CachedFile] = []
        fresh: list[NativeFile] = []
        readable = True
        folders = self.store.folders()
        for file in self.store.files(skipped, known):
            if type(file) is CachedFile:
                seen.append(file)
                continue
            assert isinstance(file, NativeFile)
            entry = known.get(file.path)
            if entry is None or file.readable:
                fresh.append(file)
            else:
                readable = False
                skipped.append(Skipped(file.path, os.strerror(errno.EACCES)))
                summary = evolve(Summary.unpacked(entry), unreadable=True)
                seen.append(summary.packed(file.identity))
        skipped.sort(key=lambda one: one.path)
        if last is not None and not fresh and readable and seen == last.files:
            self._last = evolve(last, folders=folders, walked=skipped)
            return Listing(last.found, skipped + last.skipped, [], [], last.unindexed)
        changed = list(self._look_at(fresh, skipped, work))
        for entry in changed:
            known[entry.path] = entry
        files = [*seen, *changed]
        last = self._last = _Last.of(files, folders, skipped)
        gone = []
        if len(known) > len(files):
            missing = known.keys() - {entry.path for entry in files}
            gone = [path for path in missing if not os.path.lexists(path)]
        for path in gone:
            known.pop(path, None)
        return Listing(last.found, skipped + last.skipped, changed, gone, last.unindexed)

    def _look_at(
        self, files: list[NativeFile], skipped: list[Skipped], work: Work
    ) -> Iterator[CachedFile]:
        """What files hold that are new, or not as they were: of all of them, the newest first."""
        files.sort(key=lambda file: file.identity.mtime_ns, reverse=True)
        small = sum(file.identity.size for file in files if file.identity.size <= _SMALL)
        if not files:
            return
        further = glances.Allowance(_FURTHER)
        for file in files:
            work.checkpoint()
            whole = file.identity.size <= _SMALL and small <= _AT_ONCE
            try:
                if whole or (self._open and Path(file.path) in self._open):
                    yield self._indexed(file, work)
                else:
                    size = file.identity.size
                    summary = glances.glance(file.path, file.native_id, size, further)
                    yield (summary or _nothing(file)).packed(file.identity)
            except Cancelled:
                raise
            except OSError as error:
                skipped.append(Skipped(file.path, error.strerror or str(error)))
            except Exception as error:
                # A fault of ours with one file must not hide the others.
                logging.getLogger(__name__).exception("%s cannot be read", file.path)
                skipped.append(Skipped(file.path, f"it cannot be understood ({error!r})"))

    def failed(self, entry: CachedFile) -> CachedFile:
        summary = evolve(Summary.unpacked(entry), failed=True)
        noted = summary.packed(Identity(*entry[:4]))
        self._note(noted)
        return noted

    def _note(self, entry: CachedFile) -> None:
        self._known[entry.path] = entry
        self._last = None

    def texts(
        self, entry: CachedFile, since: Known | None, work: Work, saved: SavedIndex | None = None
    ) -> Texts:
        transcript = self._read(Path(entry.path), entry.native_id, saved, work)
        return text.texts_of(transcript, since, work)

    def said(self, path: str, turn_id: str, places: list[int]) -> tuple[str, str] | None:
        return text.said_at(Path(path), turn_id, places)

    def learn(self, entries: Iterable[CachedFile]) -> list[CachedFile]:
        news = []
        for entry in entries:
            known = self._known.get(entry.path)
            if known != entry and (known is None or not known.indexed or known[2:4] != entry[2:4]):
                self._note(entry)
                news.append(entry)
        return news

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
            return _nothing(file).packed(file.identity)
        identity = history.transcript.identity
        return history.summary.packed(identity or file.identity)

    def cache_entry(self, history: History) -> CachedFile | None:
        identity = history.transcript.identity
        if identity is None or not identity.size or history.transcript.path.name == "session":
            return None
        if _holds_nothing(history.transcript):
            return None  # a listing skips it
        entry = history.summary.packed(identity)
        if self._known.get(entry.path) == entry:
            return None
        self._note(entry)
        return entry

    def index(self, path: Path, saved: SavedIndex | None, work: Work) -> Indexed:
        transcript = self._read(path, path.stem, saved, work)
        history = histories.History(transcript, path.stem, {})
        if _holds_nothing(transcript):
            identity = transcript.identity or NO_FILE
            entry = _nothing(NativeFile(str(path), path.stem, identity, True)).packed(identity)
            self._note(entry)
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


@value
class _Last:
    """What a listing made of `files`: the next one mostly finds the same.

    `folders` are the store's, with their times; `walked` what was skipped on the way.
    """

    files: list[CachedFile]
    found: list[CachedFile]
    skipped: list[Skipped]
    unindexed: list[CachedFile]
    likely: list[CachedFile]
    folders: dict[str, int]
    walked: list[Skipped]

    @classmethod
    def of(cls, files: list[CachedFile], folders: dict[str, int], walked: list[Skipped]) -> _Last:
        found: dict[str, CachedFile] = {}
        skipped: list[Skipped] = []
        unindexed: list[CachedFile] = []
        for entry in files:
            if entry.kind == _NOTHING:
                skipped.append(Skipped(entry.path, "no readable message"))
                continue
            twin = found.setdefault(entry.native_id, entry)
            if twin is not entry:
                found[entry.native_id] = _larger(entry, twin, skipped)
            if not entry.indexed:
                unindexed.append(entry)
        written = sorted(files, key=lambda file: file.mtime_ns)[-_LIKELY:]
        spoken = sorted(files, key=lambda file: file.changed_at)[-_LIKELY:]
        likely = list({file.path: file for file in (*written, *spoken)}.values())
        return cls(files, list(found.values()), skipped, unindexed, likely, folders, walked)

    @property
    def all_skipped(self) -> list[Skipped]:
        return self.walked + self.skipped

    def still_holds(self) -> bool:
        """Whether the store is as it was, for one who would hear of it if it were not, but
        perhaps a moment later: folders and the files that change most are looked at."""
        try:
            return all(
                os.stat(folder).st_mtime_ns == time for folder, time in self.folders.items()
            ) and all(
                (state := os.stat(file.path)).st_mtime_ns == file.mtime_ns
                and state.st_size == file.size
                and state.st_ino == file.inode
                for file in self.likely
            )
        except OSError:
            return False


def _nothing(file: NativeFile) -> Summary:
    """What is remembered of a file that holds no message, so that it is not read again."""
    return Summary(
        native_id=file.native_id,
        path=file.path,
        kind=_NOTHING,
        title=None,
        cwd=None,
        last_cwd=None,
        created_at=None,
        updated_at=None,
        turn_count=0,
    )


def _transcript(path: Path, native_id: str | None, saved: SavedIndex | None) -> Transcript:
    kept = packed.unpack(b"".join(saved.pieces), path, native_id) if saved is not None else None
    return kept or transcripts.Transcript(path, native_id)


def _larger(one: CachedFile, other: CachedFile, skipped: list[Skipped]) -> CachedFile:
    """Which of two files with one id shows the session; the other goes to `skipped`."""
    loser, winner = sorted((one, other), key=lambda file: (file.size, file.mtime_ns))
    # A fork has copies of its source's subagents, under the same names.
    if not one.native_id.startswith("agent-"):
        skipped.append(Skipped(loser.path, f"another file with its id is larger: {winner.path}"))
    return winner
