"""The table of a transcript's lines, filled in one pass over the file.

Records are parsed to learn their place and forgotten again.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

from attrs import define

from session.agents.claude_code import plain, records
from session.agents.claude_code.links import Links, Missing
from session.agents.claude_code.records import (
    ASSISTANT,
    COMPACT,
    DUPLICATE,
    FOREIGN,
    GAP,
    KIND,
    LOCAL,
    NOTE,
    POINTER,
    PROMPT,
    RESULT,
    SIDECHAIN,
    SNAPSHOT,
    SPOKEN,
    TORN,
    TREE,
    Record,
    id_of,
)
from session.values import value

_GLUED = re.compile(rb'\}\{"(?:parentUuid|type)"')
_RESTART = re.compile(rb'\{"(?:parentUuid|type)"')
_RESTARTS = 64
_FAR = 256
_REACH = 1 << 13
_PATIENCE = 64
# Snapshot ids are prompts' ids; a salt keeps them apart in the column of ids.
SNAPSHOT_SALT = 0x5EED5EED5EED


@value
class Origin:
    """The session this one was forked from, and the last turn it took over."""

    session: str
    turn_id: str | None
    turn_number: int | None


@define
class Compaction:
    line: int
    preserved: list[int] | None  # ids (`id_of`) of records that stay; None: nothing said


class LineTable(Links):
    """The lines of one file and what they say about the session as a whole."""

    def __init__(self, own_ids: frozenset[str] | None = None) -> None:
        """`own_ids` are the session ids that records of this session carry, None: any."""
        super().__init__()
        self.own_ids = own_ids
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
        self.other_encoding = False
        self.open_calls: dict[str, int] = {}
        self.orphan_results: dict[str, int] = {}
        self.agent_calls: dict[str, int] = {}
        self.compactions: list[Compaction] = []
        self.recovered: list[int] = []  # records of damaged lines, which the agent does not see
        self.unterminated: list[int] = []  # records that another one is glued to
        self.open_end = False  # the last line was read without its newline
        self.relocations: list[int] = []  # lines that say the session moved to another directory
        # Foreign records that hang on no other record here, and whose they are.
        self.foreign: dict[int, str] = {}
        self.adopted: set[str] = set()  # sessions on whose records this one's own hang
        self.mixed = False  # records that are its own carry another session's id
        self.has_own = False  # some message names this session, or none
        # Where any id is taken for this session's own: the id that shows that wrong.
        self.awaited: str | None = None
        # What the agent's choice of a branch depends on.
        self.newest = -1
        self.pointer: int | None = None
        self.explicit = False
        self.cleared = False
        # What the last records said, which the next ones mostly say again.
        self.last_entrypoint: str | None = None
        self.last_session: str | None = None

    def add_lines(self, position: int, data: bytes | bytearray, stop: int) -> int:
        """Add the whole lines in `data[:stop]`, which ends with a newline unless it is empty;
        `data` begins at byte `position`.  Returns where in the file the next line will begin."""
        if self.open_end and stop:
            # What follows was written behind the last line without a newline between.
            self.open_end = False
            self.unterminated.append(len(self.kinds) - 1)
            self.torn_lines += 1
        at, reach, one_by_one = 0, stop, 1
        while at < stop:
            # Where plain lines are few, or come again, look for fewer of them, and less often.
            end = stop if at + reach >= stop else data.find(b"\n", at + reach) + 1
            run = plain.read(self, position, data, at, end)
            if run is not None:
                doubted = self._take(run)
                if doubted is None:
                    at, reach, one_by_one = run.next, reach * 2, 1
                else:
                    reach, one_by_one = max(_REACH, reach // 8), doubted + 1
            for _ in range(one_by_one):
                if at == stop:
                    break
                end = data.index(b"\n", at)
                self.add_line(position + at, bytes(data[at:end]))
                at = end + 1
            one_by_one = min(one_by_one * 2, _PATIENCE)
        return position + stop

    def add_line(self, position: int, line: bytes) -> None:
        """Add one line, without its newline, that starts at byte `position`."""
        record = records.parse(line)
        if record is not None:
            self.add_record(position, record)
        elif line.strip(b"\x00 \t\r"):
            self._add_torn(position, line)
        else:
            self._append(position, TORN | LOCAL)  # blank, or filled with NULs by a power loss

    def _take(self, run: plain.Run) -> int | None:
        """Add a run of plain lines; None when it is done.  When an id in it is known or awaited,
        nothing is done: the number of lines in the run before that one."""
        ids, lines = array("q", run.tree_ids), array("i", run.tree_lines)
        new = dict(zip(ids, lines, strict=True))
        known, awaited = self._recent.keys(), self._pending.keys()
        # Of two views of keys the smaller one is walked through.
        apart = known.isdisjoint(new.keys()) and awaited.isdisjoint(new.keys())
        if len(new) < len(ids) or not apart:
            seen = known | awaited
            for id_, line in zip(ids, lines, strict=True):
                if id_ in seen:
                    return line - len(self.kinds)
                seen.add(id_)
        self.offsets.frombytes(run.offsets)
        self.ids.frombytes(run.ids)
        self.parents.frombytes(run.parents)
        self.kinds += run.kinds
        self.prompts.frombytes(run.prompts)
        self.prompt_parents.frombytes(run.prompt_parents)
        self.prompt_ids.frombytes(run.prompt_ids)
        self._remember_all(new, ids, lines)
        if run.newest is not None and (self.updated_at is None or run.newest > self.updated_at):
            self.updated_at = run.newest
        if run.last_main >= 0:
            self._last_main = self.newest = run.last_main
            self.explicit = self.cleared = False
            self.has_own |= self.own_ids is not None
        if run.pointer is not None:
            self.pointer = run.pointer
        for line, what, call in run.calls:
            if what == plain.ANSWERED:
                self._note_result(line, call)
            else:
                self._note_call(line, call, "Agent" if what == plain.DELEGATED else None)
        return None

    def add_unread(self, position: int, *, blank: bool) -> None:
        """Add a line of which nothing is known but whether it is `blank`."""
        if self.open_end:
            self.open_end = False
            self.unterminated.append(len(self.kinds) - 1)
            self.torn_lines += 1
        self.torn_lines += not blank
        self._append(position, TORN | LOCAL)

    def _add_torn(self, offset: int, line: bytes) -> None:
        """What can be read of a line that is not one record: whole records that were written
        behind each other, and one that is glued to the stub of another (a kill in mid-write)."""
        if records.is_utf16(line):
            # All lines of a file that was copied in another encoding are one thing that is wrong.
            self.torn_lines += not self.other_encoding
            self.other_encoding = True
            self._append(offset, TORN | LOCAL)
            return
        self.torn_lines += 1
        # Between the values of one record `}{` cannot stand, nor an open quote in a string.
        starts = [0, *(match.start() + 1 for match in _GLUED.finditer(line)), len(line)]
        for begin, end in pairwise(starts):
            piece = line[begin:end]
            at = next((at for at in _restarts(piece) if records.is_whole(piece[at:])), -1)
            if at != 0:
                self._append(offset + begin, TORN | LOCAL)
            if at >= 0 and (record := records.parse(piece[at:])) is not None:
                self.add_record(offset + begin + at, record)
                self.recovered.append(len(self.kinds) - 1)
                if end < len(line):
                    self.unterminated.append(len(self.kinds) - 1)

    def add_record(self, offset: int, record: Record) -> None:
        flagged = records.kind_of(record)
        kind = flagged & KIND
        if self.own_ids is not None and self._is_foreign(record, kind):
            self._add_foreign(offset, record)
            return
        if kind not in TREE:
            self._add_other(offset, record, flagged)
            return
        if flagged == PROMPT and self._goes_on(record):
            kind = flagged = NOTE
        if not (self.has_own or flagged & SIDECHAIN):
            session = record.get("sessionId")
            own = (self.awaited, *(self.own_ids or ()))
            self.has_own = not isinstance(session, str) or session in own
        parent_uid = _id_at(record, "parentUuid")
        if parent_uid is None and kind == COMPACT:
            parent_uid = _id_at(record, "logicalParentUuid")
        line = self._place(offset, flagged, record["uuid"], parent_uid)
        if line >= 0:
            if flagged == PROMPT:
                self.prompt_ids.append(_prompt_id(record))
            self._note_facts(line, kind, flagged, record)

    def _goes_on(self, record: Record) -> bool:
        """Whether a prompt was typed while a turn ran: it carries that turn's promptId."""
        id_, parent_uid = _prompt_id(record), _id_at(record, "parentUuid")
        if not id_ or parent_uid is None:
            return False
        line = self._find_parent(parent_uid)
        if line < 0 or self.kinds[line] & (SIDECHAIN | LOCAL):
            line = self._last_main
        for _ in range(len(self.kinds)):
            if line < 0 or self.kinds[line] & KIND == PROMPT:
                break
            # A missing parent will be bridged to the line before.
            gap = self.kinds[line] & GAP
            line = self._main_before(line) if gap else self.parents[line]
        at = bisect_left(self.prompts, line) if line >= 0 else len(self.prompts)
        return at < len(self.prompts) and self.prompt_ids[at] == id_ and self.prompts[at] == line

    # Records of other sessions.  A program that switches sessions, or two that run in one
    # directory, sometimes write to the wrong file.

    def _is_foreign(self, record: Record, kind: int) -> bool:
        """Whether a record names another session and hangs on no record of this one."""
        session = record.get("sessionId")
        if not isinstance(session, str) or self.own_ids is None or session in self.own_ids:
            return False
        if kind not in TREE:
            return True
        parent = self._find_parent(_id_at(record, "parentUuid"))
        foreign = parent < 0 or self.kinds[parent] & KIND == FOREIGN
        self.mixed |= not foreign
        return foreign

    def _add_foreign(self, offset: int, record: Record) -> None:
        uid, line = _id_at(record, "uuid"), len(self.kinds)
        id_ = id_of(uid) if uid else 0
        parent = self._find_parent(_id_at(record, "parentUuid")) if uid else -1
        if parent < 0:
            self.foreign[line] = record["sessionId"]
        known = self._find(id_) if id_ else None
        if known is None and id_ in self._pending:
            self.adopted.add(self._foreign_session(parent) or record["sessionId"])
        self._append(offset, FOREIGN | LOCAL, id_ if known is None else 0, parent)
        if id_ and known is None:
            self._remember(id_, line)

    def _foreign_session(self, line: int) -> str | None:
        """The session that a foreign record belongs to."""
        while line >= 0 and line not in self.foreign:
            line = self.parents[line]
        return self.foreign.get(line)

    def foreign_lines(self) -> dict[str, list[int]]:
        """Lines of other sessions' records by their session."""
        found: dict[str, list[int]] = {}
        for line, kind in enumerate(self.kinds if self.foreign else ()):
            if kind & KIND == FOREIGN and (session := self._foreign_session(line)):
                found.setdefault(session, []).append(line)
        return found

    def _unless_foreign(self, first: int | None) -> int | None:
        """An own record wins over another session's with the same id."""
        if first is None or self.kinds[first] & KIND != FOREIGN:
            return first
        self.ids[first] = 0
        return None

    @property
    def misjudged(self) -> frozenset[str] | None:
        """Session ids that are this session's own after all: its records hang on theirs, or
        there are no others (a copy under a new name).  Empty when all was judged right; None:
        any id is this session's."""
        if self.foreign and not self.has_own:
            return None
        return frozenset(self.adopted)

    def _place(self, offset: int, flagged: int, uid: str, parent_uid: str | None) -> int:
        """Put a record into the tree; -1 when its id was there before, and the first one wins."""
        id_ = id_of(uid)
        first = self._recent.get(id_)
        line = len(self.kinds)
        # For the main line a parent on a side chain is none.
        settled = first is None and not flagged & SIDECHAIN and self._settle(id_, line)
        parent = self._find_parent(parent_uid)
        if settled and self.descends(parent, line):
            self._cut_circle(parent, line)
        if first is None and self._last_main >= 0 and (parent < 0 or line - parent > _FAR):
            first = self._find(id_)
        if self.foreign:
            first = self._unless_foreign(first)
            if parent >= 0 and self.kinds[parent] & KIND == FOREIGN:
                self.adopted.add(self._foreign_session(parent) or "")
        if first is not None:
            self._append(offset, flagged | DUPLICATE, id_)
            self._recent[id_] = first
            if not (flagged | self.kinds[first]) & SIDECHAIN:
                self.newest = first
                self.explicit = self.cleared = False
            return -1
        self._append(offset, flagged, id_, parent)
        self._remember(id_, line)
        if flagged == PROMPT:
            self.prompts.append(line)
            self.prompt_parents.append(self.owner(parent))
        if parent_uid is not None and not flagged & SIDECHAIN:
            missing = Missing(line, parent_uid)
            if parent < 0:
                self.kinds[line] |= GAP
                self._pending.setdefault(id_of(parent_uid), []).append(missing)
            elif self.kinds[parent] & SIDECHAIN:
                self.kinds[line] |= GAP
                self.parents[line] = -1
                self._aside.append(missing)
        return line

    def _note_facts(self, line: int, kind: int, flagged: int, record: Record) -> None:
        self._note_whole(kind, flagged, record)
        if flagged & SIDECHAIN:
            return
        self._last_main = self.newest = line
        self.explicit = self.cleared = False
        if kind == ASSISTANT:
            self._note_calls(line, record)
        elif kind == RESULT:
            self._note_results(line, record)
        elif kind == COMPACT:
            self.pointer = None
            self.compactions.append(Compaction(line, _preserved(record)))

    def _note_whole(self, kind: int, flagged: int, record: Record) -> None:
        """Facts about the session as a whole, of which the first or the last one counts."""
        stamp = records.time_of(record)
        if stamp is not None:
            if self.created_at is None:
                self.created_at = stamp
            if kind in SPOKEN and (self.updated_at is None or stamp > self.updated_at):
                self.updated_at = stamp
        get = record.get
        cwd, entrypoint, version = get("cwd"), get("entrypoint"), get("version")
        if cwd != self.last_cwd and isinstance(cwd, str):
            self.cwd = self.cwd or cwd
            self.last_cwd = cwd
        if entrypoint != self.last_entrypoint and isinstance(entrypoint, str):
            self.entrypoint = self.entrypoint or entrypoint
            self.entrypoints.add(entrypoint)
            self.last_entrypoint = entrypoint
        if version != self.version and isinstance(version, str):
            self.version = version
        session = get("sessionId")
        if session != self.last_session and isinstance(session, str):
            own = self.own_ids is None or session in self.own_ids
            self.last_session = session if own else self.last_session
        if not self.first:
            self.first = {k: get(k) for k in ("entrypoint", "sessionId", "agentId")}
            self.first["isSidechain"] = bool(flagged & SIDECHAIN)
        if "forkedFrom" in record and (kind == PROMPT or self.forked_from is None):
            # The agent's own forks say of each record where it came from.
            origin = record["forkedFrom"]
            if isinstance(origin, dict):
                number = self.forked_from.turn_number if self.forked_from else None
                self._note_fork(origin, (number or 0) + (kind == PROMPT))
        if kind == PROMPT and self.first_prompt is None and not flagged & SIDECHAIN:
            self.first_prompt = records.preview(records.prompt_text(record) or "")

    # For an index that is made from another (`derive`)

    def note_known(self, read: Iterable[tuple[int, Record]]) -> None:
        """Facts about the whole from lines that are in the table already."""
        for line, record in read:
            flagged = self.kinds[line]
            kind = flagged & KIND
            if kind not in TREE:
                self._note_move(record)
                continue
            self._note_whole(kind, flagged, record)

    def remember_end(self, lines: int) -> None:
        """Be ready for lines that are added: know the ids of the last ones, and the newest."""
        self.remember_from(max(0, len(self.kinds) - lines), ())
        self._last_main = self.newest = self._main_before(len(self.kinds))

    def _note_fork(self, origin: Record, number: object) -> None:
        source, turn = origin.get("sessionId"), origin.get("messageUuid")
        if isinstance(source, str):
            self.forked_from = Origin(
                source,
                turn if isinstance(turn, str) else None,
                number if isinstance(number, int) and 0 <= number < 1 << 31 else None,
            )

    def _note_calls(self, line: int, record: Record) -> None:
        for block in records.content_blocks(record):
            if block.get("type") != "tool_use" or not isinstance(block.get("id"), str):
                continue
            self._note_call(line, block["id"], block.get("name"))

    def _note_call(self, line: int, call: str, tool: object) -> None:
        if self.orphan_results.pop(call, None) is None:
            self.open_calls[call] = line
        if tool in ("Agent", "Task"):
            self.agent_calls[call] = line

    def _note_results(self, line: int, record: Record) -> None:
        for block in records.content_blocks(record):
            call = block.get("tool_use_id")
            if block.get("type") == "tool_result" and isinstance(call, str):
                self._note_result(line, call)

    def _note_result(self, line: int, call: str) -> None:
        if self.open_calls.pop(call, None) is None:
            self.orphan_results[call] = line

    def _add_other(self, offset: int, record: Record, flagged: int) -> None:
        kind = flagged & KIND
        if kind == SNAPSHOT:
            snapshot = record.get("snapshot")
            of = snapshot.get("messageId") if isinstance(snapshot, dict) else None
            self._append(offset, flagged, id_of(of) ^ SNAPSHOT_SALT if isinstance(of, str) else 0)
            return
        self._append(offset, flagged)
        if kind == POINTER:
            self._follow(record)
            return
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
        elif type_ == "relocated" and self._note_move(record):
            self.relocations.append(len(self.kinds) - 1)

    def _note_move(self, record: Record) -> bool:
        """A record that says the session went on in another directory."""
        moved = record.get("relocatedCwd")
        if not isinstance(moved, str):
            return False
        self.last_cwd = moved
        return True

    def _follow(self, record: Record) -> None:
        """Note a pointer as the agent does."""
        leaf, explicit = record.get("leafUuid"), record.get("explicit") is True
        if isinstance(leaf, str) and leaf:
            id_ = id_of(leaf)
            self.explicit = explicit or (self.explicit and id_ == self.pointer)
            self.pointer, self.cleared = id_, False
        elif leaf is None and explicit:
            self.cleared, self.pointer, self.explicit = True, None, False


def _id_at(record: Record, name: str) -> str | None:
    """The id that a record has there; an empty one is none."""
    uid = record.get(name)
    return uid if isinstance(uid, str) and uid else None


def _prompt_id(record: Record) -> int:
    prompt_id = _id_at(record, "promptId")
    return id_of(prompt_id) if prompt_id else 0


def _restarts(piece: bytes) -> Iterator[int]:
    """Where a record may begin in a piece of a torn line."""
    yield 0
    for match in islice(_RESTART.finditer(piece, 1), _RESTARTS):
        yield match.start()


def _preserved(record: Record) -> list[int] | None:
    """The ids that a compaction preserves, None when it says nothing about that."""
    metadata = record.get("compactMetadata")
    if not isinstance(metadata, dict):
        return None
    messages = metadata.get("preservedMessages")
    if isinstance(messages, dict):
        uuids = messages.get("uuids") or messages.get("allUuids")
        if not isinstance(uuids, list):
            return []
        return [id_of(uid) for uid in uuids if isinstance(uid, str)]
    segment = metadata.get("preservedSegment")
    return [] if isinstance(segment, dict) else None
