"""The index of one transcript file: a table of its lines, the tree they form, the live branch.

Columns are arrays, about 21 bytes a line, so that a session of a million lines costs tens of
megabytes; text is read again from the file when it is shown.  A file that only grew is
indexed from where the last scan ended.  The branch that the agent would resume is chosen as
the agent does it (native-format notes in docs/claude-code.md).
"""

from __future__ import annotations

import copy
import hashlib
import os
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import define

from session.agents.claude_code import records
from session.agents.claude_code.records import (
    ASSISTANT,
    ATTACHMENT,
    COMPACT,
    DUPLICATE,
    GAP,
    KIND,
    LOCAL,
    NOTE,
    PASSAGE,
    POINTER,
    PROMPT,
    RESULT,
    SIDECHAIN,
    SNAPSHOT,
    SPOKEN,
    SYSTEM,
    TORN,
    TREE,
    Record,
)
from session.store.native_files import Identity
from session.work import Work

_WINDOW = 1 << 20
_RECENT = 8192
_FAR = 256
_SLOW_LOOKUPS = 64
_GUARD = 256
_READ_WHOLE = 5 << 20
_SILENT = frozenset((ATTACHMENT, SYSTEM, PASSAGE))
# Snapshot ids are prompts' ids; a salt keeps them apart in the column of ids.
_SNAPSHOT_SALT = 0x5EED5EED5EED


@define(frozen=True)
class Missing:
    """A line whose parent is in no record; `line` is its index in the table."""

    line: int
    missing: str


@define(frozen=True)
class Origin:
    """The session this one was forked from, and the last turn it took over."""

    session: str
    turn_id: str | None
    turn_number: int | None


@define
class Compaction:
    line: int
    preserved: list[int] | None  # ids (hashed) of records that stay; None: nothing said


def identity_of(stat: os.stat_result) -> Identity:
    return Identity(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


class Transcript:
    """An indexed file.  `refresh` brings it up to date; everything else only reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reset()

    def _reset(self) -> None:
        self.identity: Identity | None = None
        self.scanned = 0
        self._guard = b""
        # The table of lines, in file order.
        self.offsets = array("Q")
        self.ids = array("q")
        self.parents = array("i")
        self.kinds = bytearray()
        # Facts about the whole.
        self.first: Record = {}
        self.cwd: str | None = None
        self.last_cwd: str | None = None
        self.version: str | None = None
        self.entrypoint: str | None = None
        self.entrypoints: set[str] = set()
        self.created_at: str | None = None
        self.updated_at: str | None = None
        self.custom_title: str | None = None
        self.ai_title: str | None = None
        self.summary: str | None = None
        self.forked_from: Origin | None = None
        self.first_prompt: str | None = None
        self.torn_lines = 0
        self.open_calls: dict[str, int] = {}
        self.orphan_results: dict[str, int] = {}
        self.agent_calls: dict[str, int] = {}
        self.gaps: dict[int, Missing] = {}
        # Scanning state.
        self._recent: dict[int, int] = {}
        self._known: dict[int, int] | None = None
        self._slow_lookups = 0
        self._pending: dict[int, list[Missing]] = {}
        self._last_main = -1
        self._newest = -1
        self._pointer: int | None = None
        self._explicit = False
        self._cleared = False
        self._compactions: list[Compaction] = []
        self._last_prompt_id: str | None = None
        # The live branch: lines from the root to the leaf, and where each turn starts in it.
        self.chain = array("I")
        self.turn_starts = array("I")
        self.compacted_at = -1  # position in the chain of its newest compaction
        self.leaf = -1
        self.leaf_id: str | None = None
        self._side_results = (array("I"), array("I"))
        self._tree: TurnTree | None = None

    # Scanning

    def refresh(self, work: Work | None = None) -> None:
        """Index what the file holds now: only what was added, unless it is not the same file.

        Raises OSError when it cannot be read.
        """
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            now = identity_of(os.fstat(fd))
            if now == self.identity:
                return
            if self.continues_in(fd, now):
                self._detach()
            else:
                self._reset()
            indexed = len(self.kinds)
            self._scan(fd, now.size, work or Work())
            self.identity = now
            self._resolve(indexed)
        except BaseException:
            self._reset()
            raise
        finally:
            os.close(fd)

    def view(self) -> Transcript:
        """This index as it is now: a later `refresh` of the original does not change it."""
        return copy.copy(self)

    def _detach(self) -> None:
        for name in ("offsets", "ids", "parents", "kinds", "chain", "turn_starts"):
            setattr(self, name, getattr(self, name)[:])
        for name in ("gaps", "open_calls", "orphan_results", "agent_calls", "entrypoints"):
            setattr(self, name, getattr(self, name).copy())
        self._side_results = (self._side_results[0][:], self._side_results[1][:])
        self._compactions = self._compactions[:]

    def glance(self, head: int = 1 << 16, tail: int = 1 << 17) -> None:
        """Learn what a listing shows from a file's ends only; nothing else may be asked then."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            first = os.pread(fd, head, 0).split(b"\n")
            last = os.pread(fd, tail, max(head, size - tail)).split(b"\n")
        finally:
            os.close(fd)
        for line in [*first[:-1], *last[1:]]:
            if (record := records.parse(line)) is not None:
                self._add_record(0, record)

    def continues_in(self, fd: int, now: Identity) -> bool:
        old = self.identity
        return (
            old is not None
            and (now.device, now.inode) == (old.device, old.inode)
            and now.size >= self.scanned
            and os.pread(fd, len(self._guard), self.scanned - len(self._guard)) == self._guard
        )

    def _scan(self, fd: int, size: int, work: Work) -> None:
        start = position = self.scanned
        carry: list[bytes] = []  # the pieces of a line that is longer than a window
        while position < size:
            work.checkpoint(position - start, size - start, "Reading the session")
            data = os.pread(fd, min(_WINDOW, size - position), position)
            if not data:
                break
            position += len(data)
            if carry:
                if b"\n" not in data:
                    carry.append(data)
                    continue
                data = b"".join([*carry, data])
                carry = []
            base = position - len(data)
            begin = 0
            while (end := data.find(b"\n", begin)) >= 0:
                self._add_line(base + begin, data[begin:end])
                begin = end + 1
            self.scanned = base + begin
            if begin < len(data):
                carry = [data[begin:]]
        # A last line without its newline counts when it is whole; else it is still being
        # written, or torn, and is looked at again when the file has grown.
        rest = b"".join(carry)
        if rest and records.parse(rest) is not None:
            self._add_line(position - len(rest), rest)
            self.scanned = position
        take = min(_GUARD, self.scanned)
        self._guard = os.pread(fd, take, self.scanned - take)

    def _add_line(self, offset: int, line: bytes) -> None:
        record = records.parse(line)
        if record is None:
            if not line.strip(b"\x00 \t\r"):
                return
            self._append(offset, TORN | LOCAL)
            self.torn_lines += 1
            # A record glued to the stub of one that was never finished (a kill in mid-write).
            at = line.find(b'{"', 1)
            while at > 0:
                record = records.parse(line[at:])
                if record is not None and "type" in record:
                    self._add_record(offset + at, record)
                    return
                at = line.find(b'{"', at + 1)
            return
        self._add_record(offset, record)

    def _append(self, offset: int, kind: int, id_: int = 0, parent: int = -1) -> int:
        self.offsets.append(offset)
        self.kinds.append(kind)
        self.ids.append(id_)
        self.parents.append(parent)
        return len(self.kinds) - 1

    def _add_record(self, offset: int, record: Record) -> None:
        flagged = records.kind_of(record)
        kind = flagged & KIND
        if kind not in TREE:
            self._add_other(offset, record, flagged)
            return
        if kind == PROMPT:
            # A prompt typed while a turn runs carries that turn's promptId.
            prompt_id = record.get("promptId")
            if not flagged & SIDECHAIN:
                if isinstance(prompt_id, str) and prompt_id == self._last_prompt_id:
                    kind, flagged = NOTE, flagged & ~KIND | NOTE
                self._last_prompt_id = prompt_id if isinstance(prompt_id, str) else None
        uid: str = record["uuid"]
        id_ = hash(uid)
        first = self._recent.get(id_)
        if first is None and self._pending:
            self._settle(id_, len(self.kinds))
        parent_uid = record.get("parentUuid")
        if parent_uid is None and kind == COMPACT:
            parent_uid = record.get("logicalParentUuid")
        parent = self._find_parent(parent_uid)
        line = len(self.kinds)
        if first is None and self._last_main >= 0 and (parent < 0 or line - parent > _FAR):
            first = self._find(id_)
        if first is not None:
            self._append(offset, flagged | DUPLICATE, id_)
            self._recent[id_] = first
            if not flagged & SIDECHAIN:
                self._newest = first
            return
        self._append(offset, flagged, id_, parent)
        self._remember(id_, line)
        if isinstance(parent_uid, str) and not flagged & SIDECHAIN:
            if parent < 0:
                self._pending.setdefault(hash(parent_uid), []).append(Missing(line, parent_uid))
            elif self.kinds[parent] & SIDECHAIN:
                self._bridge(Missing(line, parent_uid), self._last_main)
        self._note_facts(line, kind, flagged, record)

    def _note_facts(self, line: int, kind: int, flagged: int, record: Record) -> None:
        stamp = records.time_of(record)
        if self.created_at is None and stamp:
            self.created_at = stamp
        if stamp and kind in SPOKEN and (self.updated_at is None or stamp > self.updated_at):
            self.updated_at = stamp
        cwd = record.get("cwd")
        if isinstance(cwd, str):
            self.cwd = self.cwd or cwd
            self.last_cwd = cwd
        if not self.first:
            self.first = {k: record.get(k) for k in ("entrypoint", "sessionId", "agentId")}
            self.first["isSidechain"] = bool(flagged & SIDECHAIN)
        origin = record.get("forkedFrom")
        if isinstance(origin, dict) and (kind == PROMPT or self.forked_from is None):
            # The agent's own forks say of each record where it came from.
            number = self.forked_from.turn_number if self.forked_from else None
            self._note_fork(origin, (number or 0) + (kind == PROMPT))
        entrypoint = record.get("entrypoint")
        if isinstance(entrypoint, str):
            self.entrypoint = self.entrypoint or entrypoint
            self.entrypoints.add(entrypoint)
        if isinstance(record.get("version"), str):
            self.version = record["version"]
        if flagged & SIDECHAIN:
            return
        self._last_main = self._newest = line
        self._explicit = self._cleared = False
        if kind == ASSISTANT:
            self._note_calls(line, record)
        elif kind == RESULT:
            self._note_results(line, record)
        elif kind == PROMPT and self.first_prompt is None:
            self.first_prompt = records.preview(records.prompt_text(record) or "")
        elif kind == COMPACT:
            self._pointer, self._explicit = None, False
            self._compactions.append(Compaction(line, _preserved(record)))

    def _note_fork(self, origin: Record, number: object) -> None:
        source, turn = origin.get("sessionId"), origin.get("messageUuid")
        if isinstance(source, str):
            self.forked_from = Origin(
                source,
                turn if isinstance(turn, str) else None,
                number if isinstance(number, int) else None,
            )

    def _note_calls(self, line: int, record: Record) -> None:
        for block in records.content_blocks(record):
            if block.get("type") != "tool_use" or not isinstance(block.get("id"), str):
                continue
            call = block["id"]
            if self.orphan_results.pop(call, None) is None:
                self.open_calls[call] = line
            if block.get("name") in ("Agent", "Task"):
                self.agent_calls[call] = line

    def _note_results(self, line: int, record: Record) -> None:
        for block in records.content_blocks(record):
            call = block.get("tool_use_id")
            if block.get("type") != "tool_result" or not isinstance(call, str):
                continue
            if self.open_calls.pop(call, None) is None:
                self.orphan_results[call] = line

    def _add_other(self, offset: int, record: Record, flagged: int) -> None:
        kind = flagged & KIND
        id_ = 0
        if kind == SNAPSHOT:
            snapshot = record.get("snapshot")
            of = snapshot.get("messageId") if isinstance(snapshot, dict) else None
            id_ = hash(of) ^ _SNAPSHOT_SALT if isinstance(of, str) else 0
        elif kind == POINTER:
            self._note_pointer(record)
        type_ = record.get("type")
        if type_ == "custom-title" and isinstance(record.get("customTitle"), str):
            self.custom_title = record["customTitle"]
            origin = record.get("forkedFrom")
            if isinstance(origin, dict):
                self._note_fork(origin, origin.get("turnNumber"))
        elif type_ == "ai-title" and isinstance(record.get("aiTitle"), str):
            self.ai_title = record["aiTitle"]
        elif type_ == "summary" and isinstance(record.get("summary"), str):
            self.summary = record["summary"]
        elif type_ == "relocated" and isinstance(record.get("relocatedCwd"), str):
            self.last_cwd = record["relocatedCwd"]
        self._append(offset, flagged, id_)

    def _note_pointer(self, record: Record) -> None:
        leaf = record.get("leafUuid")
        explicit = record.get("explicit") is True
        if isinstance(leaf, str) and leaf:
            id_ = hash(leaf)
            self._explicit = explicit or (self._explicit and id_ == self._pointer)
            self._pointer, self._cleared = id_, False
        elif leaf is None and explicit:
            self._cleared, self._pointer, self._explicit = True, None, False

    # Finding lines by id

    def _remember(self, id_: int, line: int) -> None:
        recent = self._recent
        recent[id_] = line
        if self._known is not None:
            self._known.setdefault(id_, line)
        if len(recent) > _RECENT:
            keep = line - _RECENT // 2
            self._recent = {k: v for k, v in recent.items() if v >= keep}

    def _find_parent(self, uid: object) -> int:
        if not isinstance(uid, str):
            return -1
        id_ = hash(uid)
        line = self._recent.get(id_)
        if line is None and id_ not in self._pending:
            line = self._find(id_)
        return -1 if line is None else line

    def _find(self, id_: int) -> int | None:
        """The first line with this id.  Rare in most files; a file of many branches gets a map."""
        if self._known is not None:
            return self._known.get(id_)
        self._slow_lookups += 1
        if self._slow_lookups > _SLOW_LOOKUPS:
            self._known = {}
            for line, (known, kind) in enumerate(zip(self.ids, self.kinds, strict=True)):
                if kind & KIND in TREE and not kind & DUPLICATE:
                    self._known.setdefault(known, line)
            return self._known.get(id_)
        try:
            return self.ids.index(id_)
        except ValueError:
            return None

    def find(self, uid: str) -> int | None:
        """The line of the record with this uuid, None when there is none."""
        id_ = hash(uid)
        line = self._recent.get(id_)
        line = line if line is not None else self._find(id_)
        return line if line is not None and line < len(self.kinds) else None

    def _settle(self, id_: int, line: int) -> None:
        """A record that others already named as their parent has come."""
        for waiting in self._pending.pop(id_, ()):
            self.parents[waiting.line] = line

    def _bridge(self, missing: Missing, neighbour: int) -> None:
        self.parents[missing.line] = neighbour
        self.kinds[missing.line] |= GAP
        self.gaps[missing.line] = missing

    # The live branch

    def _resolve(self, indexed: int) -> None:
        """Choose the live branch; `indexed` is how many lines an earlier choice knew."""
        for waiting in self._pending.values():
            for missing in waiting:
                self._bridge(missing, self._main_before(missing.line))
        self._tree = None
        self.leaf = self._live_leaf()
        if not (indexed and (self._extend_chain(indexed) or self._retreat_chain(indexed))):
            self.chain = self._with_compactions(self.path_to(self.leaf, trailing=True))
            self.turn_starts = array("I")
            self.compacted_at = -1
            self._survey(0)
            self._side_results = (array("I"), array("I"))
            self._collect_side_results(0)
        self.leaf_id = self.uuid_at(self.leaf) if self.leaf >= 0 else None

    def _extend_chain(self, indexed: int) -> bool:
        """Lengthen the chain by lines that continue its end; False when they do not."""
        added = array("I")
        line = self.leaf
        if self._compactions and self._compactions[-1].line >= indexed:
            return False
        while line >= indexed:
            added.append(line)
            line = self.parents[line]
        tail = self.chain[-8:]
        if line < 0 or line not in tail:
            return False
        keep = len(self.chain) - len(tail) + tail.index(line) + 1
        if self.turn_starts and self.turn_starts[-1] >= keep:
            return False
        del self.chain[keep:]
        added.reverse()
        self.chain.extend(added)
        self.chain.extend(self._silent_below(self.leaf))
        self._survey(keep)
        self._collect_side_results(indexed)
        return True

    def _retreat_chain(self, indexed: int) -> bool:
        """Shorten the chain to a leaf on it, as after a rewind; False when it is elsewhere."""
        if self._compactions and self._compactions[-1].line >= indexed:
            return False
        if self.leaf < 0:
            keep = 0
        else:
            keep = len(self.chain)
            while keep and self.chain[keep - 1] != self.leaf:
                keep -= 1
            if not keep:
                return False
        del self.chain[keep:]
        del self.turn_starts[bisect_left(self.turn_starts, keep) :]
        if self.leaf >= 0:
            self.chain.extend(self._silent_below(self.leaf))
        if self.compacted_at >= keep:
            self.compacted_at = -1
            for at in range(keep):
                if self.kinds[self.chain[at]] & KIND == COMPACT:
                    self.compacted_at = at
        return True

    def _survey(self, begin: int) -> None:
        """Note where turns start and where the newest compaction is, from position `begin`."""
        kinds = self.kinds
        for at in range(begin, len(self.chain)):
            kind = kinds[self.chain[at]] & KIND
            if kind == PROMPT:
                self.turn_starts.append(at)
            elif kind == COMPACT:
                self.compacted_at = at

    def _main_before(self, line: int) -> int:
        kinds = self.kinds
        for at in range(line - 1, -1, -1):
            kind = kinds[at]
            if kind & KIND in TREE and not kind & (SIDECHAIN | DUPLICATE):
                return at
        return -1

    def _live_leaf(self) -> int:
        if self._cleared:
            return -1
        pointer = self._find(self._pointer) if self._pointer is not None else None
        if pointer is not None and self.kinds[pointer] & SIDECHAIN:
            pointer = None
        compaction = self._compactions[-1] if self._compactions else None
        if compaction is not None and compaction.preserved is not None:
            return self._leaf_after(compaction, pointer)
        if any(c.preserved is not None for c in self._compactions) and compaction is not None:
            pointer = pointer if pointer is not None and pointer > compaction.line else None
        if pointer is None:
            return self.spoken(self._newest)
        if not self._explicit and self._descends(self._newest, pointer):
            return self.spoken(self._newest)
        return self.spoken(pointer)

    def _leaf_after(self, compaction: Compaction, pointer: int | None) -> int:
        """The leaf when the newest compaction names what it preserved.

        The agent then forgets every record before it that is not named, and trusts a pointer
        only when it is explicit; else the tip of what is left, the newest if there are more.
        """
        named = set(compaction.preserved or ())
        kinds, parents = self.kinds, self.parents
        left = [
            line
            for line in range(len(kinds))
            if kinds[line] & KIND in SPOKEN
            and not kinds[line] & (SIDECHAIN | DUPLICATE)
            and (line > compaction.line or self.ids[line] in named)
        ]
        known = pointer is not None and (pointer > compaction.line or self.ids[pointer] in named)
        if self._explicit and known and pointer is not None:
            return self.spoken(pointer)
        spoken_below = {self.spoken(parents[line]) for line in left}
        tips = [line for line in left if line not in spoken_below]
        if len(tips) == 1:
            return tips[0]
        return pointer if pointer in tips else self.spoken(self._newest)

    def _descends(self, line: int, ancestor: int) -> bool:
        for _ in range(len(self.parents)):
            if line == ancestor:
                return True
            if line < 0:
                return False
            line = self.parents[line]
        return False

    def spoken(self, line: int) -> int:
        """The nearest user or assistant record at or above a line."""
        for _ in range(len(self.parents)):
            if line < 0 or self.kinds[line] & KIND in SPOKEN:
                return line
            line = self.parents[line]
        return -1

    def path_to(self, leaf: int, *, trailing: bool = False) -> array[int]:
        """Lines from the root to `leaf`; with `trailing`, what hangs silently below it too."""
        path = array("I")
        seen = bytearray(len(self.kinds))
        line = leaf
        while line >= 0 and not seen[line]:
            seen[line] = 1
            path.append(line)
            line = self.parents[line]
        path.reverse()
        if trailing and leaf >= 0:
            path.extend(self._silent_below(leaf))
        return path

    def _with_compactions(self, chain: array[int]) -> array[int]:
        """Put compactions into the chain that its parent links go around.

        After a compaction in the middle of a turn the TUI lets the next record hang off the
        record before the boundary, though what it sends begins with the boundary.
        """
        members = set(chain) if self._compactions else set()
        for compaction in self._compactions:
            at = next((i for i, line in enumerate(chain) if line > compaction.line), len(chain))
            named = set(compaction.preserved or ())
            if compaction.line in members or not named or at == len(chain):
                continue
            if not any(self.ids[line] in named for line in chain[:at]):
                continue
            summary = self._summary_below(compaction.line)
            inserted = array("I", [compaction.line, *summary])
            chain = chain[:at] + inserted + chain[at:]
        return chain

    def _summary_below(self, boundary: int) -> list[int]:
        kinds, parents = self.kinds, self.parents
        after = range(boundary + 1, len(kinds))
        return [at for at in after if parents[at] == boundary and kinds[at] == NOTE][:1]

    def _silent_below(self, leaf: int) -> array[int]:
        """Attachments and system records that hang below a leaf with no one speaking."""
        below = array("I")
        tails = {leaf}
        kinds, parents = self.kinds, self.parents
        for at in range(leaf + 1, len(kinds)):
            kind = kinds[at]
            if kind in _SILENT and parents[at] in tails:
                tails.add(at)
                below.append(at)
        return below

    def _collect_side_results(self, indexed: int) -> None:
        """Results of parallel calls: off the chain, but their call is on it."""
        on_chain = bytearray(len(self.kinds))
        for line in self.chain:
            on_chain[line] = 1
        calls, results = self._side_results
        for line in range(indexed, len(self.kinds)):
            if self.kinds[line] == RESULT and not on_chain[line]:
                parent = self.parents[line]
                if parent >= 0 and on_chain[parent] and self.kinds[parent] & KIND == ASSISTANT:
                    calls.append(parent)
                    results.append(line)

    def side_results(self, lines: array[int]) -> list[int]:
        """Off-chain tool results whose calls are among `lines` of the live branch."""
        calls, results = self._side_results
        if not calls:
            return []
        members = set(lines)
        return [result for call, result in zip(calls, results, strict=True) if call in members]

    # Reading

    @property
    def turn_count(self) -> int:
        return len(self.turn_starts)

    @property
    def revision(self) -> str:
        """Changes whenever the live branch does."""
        state = f"{self.leaf_id}:{len(self.turn_starts)}:{len(self.chain)}"
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    @property
    def is_empty(self) -> bool:
        """No record that takes part in a conversation."""
        return not any(kind & KIND in SPOKEN for kind in self.kinds)

    def turn_lines(self, number: int) -> array[int]:
        """The chain's lines of turn `number` (1-based)."""
        return self.chain[self.turn_starts[number - 1] : self.turn_end(number)]

    def turn_end(self, number: int) -> int:
        """Position in the chain right after turn `number`."""
        return self.turn_starts[number] if number < self.turn_count else len(self.chain)

    def preserved_by(self, chain: array[int]) -> list[int]:
        """Lines that the compactions on `chain` name as preserved."""
        members = set(chain) if self._compactions else set()
        named: set[int] = set()
        for compaction in self._compactions:
            if compaction.line in members:
                named.update(compaction.preserved or ())
        return [line for line, id_ in enumerate(self.ids) if id_ in named] if named else []

    def honours_pointer(self, leaf: int) -> bool:
        """Whether an explicit pointer to `leaf`, appended now, is what the agent resumes at."""
        if not self._compactions or leaf > self._compactions[-1].line:
            return True
        if any(compaction.preserved is not None for compaction in self._compactions):
            return False
        # Files over 5 MiB are read from the newest compaction on.
        return self.scanned <= _READ_WHOLE

    def snapshot_ids(self, prompts: Iterable[int]) -> set[int]:
        """The column values that snapshots of these prompt lines have."""
        return {self.ids[line] ^ _SNAPSHOT_SALT for line in prompts}

    def span(self, line: int) -> tuple[int, int]:
        """Byte offsets of a line: its start, and the start of the next."""
        after = line + 1
        return self.offsets[line], self.offsets[after] if after < len(
            self.offsets
        ) else self.scanned

    def line_number(self, line: int) -> int:
        """1-based number of a line in the file, counted from the bytes before it."""
        count, position, end = 1, 0, self.offsets[line]
        with self.path.open("rb") as file:
            while position < end and (data := file.read(min(_WINDOW, end - position))):
                count += data.count(b"\n")
                position += len(data)
        return count

    def read(self, lines: array[int] | list[int]) -> Iterator[tuple[int, Record]]:
        """The records of `lines`, in that order."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for line in lines:
                start, end = self.span(line)
                record = records.parse(os.pread(fd, end - start, start))
                if record is not None:
                    yield line, record
        finally:
            os.close(fd)

    def uuid_at(self, line: int) -> str | None:
        for _, record in self.read([line]):
            uid = record.get("uuid")
            return uid if isinstance(uid, str) else None
        return None

    @property
    def tree(self) -> TurnTree:
        """All turns, of abandoned branches too."""
        if self._tree is None:
            self._tree = TurnTree(self)
        return self._tree


class TurnTree:
    """The tree of turns: one node a prompt, in file order."""

    def __init__(self, transcript: Transcript) -> None:
        kinds, parents = transcript.kinds, transcript.parents
        self.prompts = array(
            "I",
            [
                line
                for line, kind in enumerate(kinds)
                if kind & KIND == PROMPT and not kind & (SIDECHAIN | DUPLICATE)
            ],
        )
        self._transcript = transcript
        self._ends: dict[int, int] | None = None
        self._parents = array("i")
        inner = bytearray(len(kinds))
        for prompt in self.prompts:
            line = self._owner(parents[prompt])
            self._parents.append(line)
            if line >= 0:
                inner[line] = 1
        self.leaves = array("I", [prompt for prompt in self.prompts if not inner[prompt]])

    def parent(self, prompt: int) -> int:
        """The prompt line of the turn before, -1 for a first turn."""
        return self._parents[bisect_left(self.prompts, prompt)]

    def path(self, prompt: int) -> list[int]:
        """Prompt lines from the root to `prompt`."""
        path: list[int] = []
        seen = bytearray(len(self._transcript.kinds))
        while prompt >= 0 and not seen[prompt]:
            seen[prompt] = 1
            path.append(prompt)
            prompt = self.parent(prompt)
        path.reverse()
        return path

    def end_of(self, prompt: int) -> int:
        """The newest line that belongs to a turn."""
        if self._ends is None:
            self._ends = self._find_ends()
        return self._ends.get(prompt, prompt)

    def _find_ends(self) -> dict[int, int]:
        kinds, parents = self._transcript.kinds, self._transcript.parents
        owners = array("i", [-2]) * len(kinds)
        ends: dict[int, int] = {}
        for line, kind in enumerate(kinds):
            if kind & KIND not in TREE or kind & (SIDECHAIN | DUPLICATE):
                continue
            if kind & KIND == PROMPT:
                owner = line
            else:
                parent = parents[line]
                owner = owners[parent] if parent >= 0 else -1
                if owner == -2:
                    owner = self._owner(parent)
            owners[line] = owner
            if owner >= 0:
                ends[owner] = line
        # A first turn's records may stand before their prompt in the file.
        return {prompt: max(end, prompt) if end != prompt else end for prompt, end in ends.items()}

    def _owner(self, line: int) -> int:
        kinds, parents = self._transcript.kinds, self._transcript.parents
        for _ in range(len(kinds)):
            if line < 0 or kinds[line] & KIND == PROMPT:
                return line
            line = parents[line]
        return -1


def _preserved(record: Record) -> list[int] | None:
    """Hashed ids that a compaction preserves, None when it says nothing about that."""
    metadata = record.get("compactMetadata")
    if not isinstance(metadata, dict):
        return None
    messages = metadata.get("preservedMessages")
    if isinstance(messages, dict):
        uuids = messages.get("uuids") or messages.get("allUuids") or []
        return [hash(uid) for uid in uuids if isinstance(uid, str)]
    segment = metadata.get("preservedSegment")
    return [] if isinstance(segment, dict) else None
