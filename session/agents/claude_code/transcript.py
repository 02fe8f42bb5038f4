"""The index of one transcript file: the table of its lines, the tree they form, the live branch.

A session of a million lines costs tens of megabytes; text is read again from the file when it
is shown.  A file that only grew is
indexed from where the last scan ended.  The branch that the agent would resume is chosen as
the agent does it (native-format notes in docs/claude-code.md).
"""

from __future__ import annotations

import hashlib
import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from session import osfile
from session.agents.claude_code import records
from session.agents.claude_code.records import (
    ASSISTANT,
    ATTACHMENT,
    COMPACT,
    DUPLICATE,
    KIND,
    NOTE,
    PASSAGE,
    PROMPT,
    RESULT,
    SIDECHAIN,
    SPOKEN,
    SYSTEM,
    TREE,
    Record,
)
from session.agents.claude_code.table import SNAPSHOT_SALT, Compaction, LineTable
from session.store.native_files import Identity
from session.work import Work

_WINDOW = 1 << 20
_GUARD = 256
_HEAD = 1 << 16
_LATE = 1 << 16  # no result of a parallel call stands further behind its turn than this
_BOOKMARKED = 300_000
_READ_WHOLE = 5 << 20
_COLUMNS = (
    "offsets",
    "ids",
    "parents",
    "kinds",
    "prompts",
    "prompt_parents",
    "chain",
    "turn_starts",
)
_SILENT = frozenset((ATTACHMENT, SYSTEM, PASSAGE))


def identity_of(stat: os.stat_result) -> Identity:
    return Identity(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


class Transcript(LineTable):
    """An indexed file.  `refresh` brings it up to date; everything else only reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reset()

    def _reset(self) -> None:
        LineTable.__init__(self)
        self.identity: Identity | None = None
        self.scanned = 0
        self._guard = b""
        # The live branch: lines from the root to the leaf, and where each turn starts in it.
        self.chain = array("I")
        self.turn_starts = array("I")
        self.compacted_at = -1  # position in the chain of its newest compaction
        self.leaf = -1
        self.leaf_id: str | None = None
        self._side_results = (array("I"), array("I"))
        self._goes_around = False  # a compaction that parent links go around is not in the chain
        self._tree: TurnTree | None = None
        # Shared with views, and replaced when a prompt is added or gets another place.
        self._leaves: list[array[int]] = []
        self._placed_prompts = array("i")
        self.earlier: Transcript | None = None

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
                self._bookmark()
                self._detach()
            elif not self._go_back(fd, now):
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

    def is_current(self) -> bool:
        """Whether the file is as it was indexed; raises OSError when it cannot be read."""
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            return identity_of(os.fstat(fd)) == self.identity

    def view(self) -> Transcript:
        """This index as it is now: a later `refresh` of the original does not change it."""
        view = Transcript.__new__(Transcript)
        view.__dict__.update(self.__dict__)
        return view

    def _bookmark(self) -> None:
        """Keep this state for a while: taking a rewind back makes the file shorter again."""
        mark = self.view()
        if mark.earlier is not None and mark.earlier.earlier is not None:
            mark.earlier = mark.earlier.view()
            mark.earlier.earlier = None
        self.earlier = mark if len(self.kinds) < _BOOKMARKED else None

    def _go_back(self, fd: int, now: Identity) -> bool:
        mark = self.earlier
        while mark is not None and not mark.continues_in(fd, now):
            mark = mark.earlier
        if mark is None:
            return False
        self.__dict__.update(mark.__dict__)
        self._known = None  # it may know lines that came later
        self._detach()
        return True

    def measure(self) -> None:
        """Take the file as it is now for what the table already describes."""
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            self.identity = identity_of(os.fstat(fd))
            self.scanned = self.identity.size
            take = min(_GUARD, self.scanned)
            self._guard = osfile.pread(fd, take, self.scanned - take)

    def finish_scan(self, remembered: int) -> None:
        """As after a scan, for a table that was filled in another way."""
        self.remember_end(remembered)
        self._resolve(0)

    def _detach(self) -> None:
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[:])
        for name in (
            "gaps",
            "relocations",
            "unterminated",
            "_recent",
            "open_calls",
            "orphan_results",
            "agent_calls",
            "entrypoints",
            "compactions",
        ):
            setattr(self, name, getattr(self, name).copy())
        self._pending = {id_: waiting[:] for id_, waiting in self._pending.items()}
        self._side_results = (self._side_results[0][:], self._side_results[1][:])

    def glance(self) -> None:
        """Learn what a listing shows from a file's ends only; nothing else may be asked then.

        Reads on from the start until a record says where the session is, and back from the end
        until someone speaks; a file in which these two meet is scanned.
        """
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            size = os.fstat(fd).st_size
            head = self._grow(fd, size, _HEAD, lambda at: (0, at), _places)
            tail = self._grow(fd, size, 1 << 17, lambda at: (size - at, at), _speaks)
        if head is None or tail is None:
            self.refresh()
            return
        for record in (*head, *tail):
            self.add_record(0, record)

    def _grow(
        self,
        fd: int,
        size: int,
        span: int,
        place: Callable[[int], tuple[int, int]],
        enough: Callable[[Record], bool],
    ) -> list[Record] | None:
        """The records in a span of bytes that is widened until one is `enough`; None when it
        reaches the other end of the file."""
        while span < size - _HEAD:
            start, length = place(span)
            lines = osfile.pread(fd, length, start).split(b"\n")
            whole = lines[:-1] if start == 0 else lines[1:]
            found = [record for line in whole if (record := records.parse(line)) is not None]
            if any(map(enough, found)):
                return found
            span *= 2
        return None

    def continues_in(self, fd: int, now: Identity) -> bool:
        old = self.identity
        return (
            old is not None
            and (now.device, now.inode) == (old.device, old.inode)
            and now.size >= self.scanned
            and osfile.pread(fd, len(self._guard), self.scanned - len(self._guard)) == self._guard
        )

    def _scan(self, fd: int, size: int, work: Work) -> None:
        start = position = self.scanned
        carry: list[bytes] = []  # the pieces of a line that is longer than a window
        if self.open_end and osfile.pread(fd, 1, position) == b"\n":
            # The newline of a last line that was read without it.
            self.open_end = False
            self.scanned = start = position = position + 1
        while position < size:
            work.checkpoint(position - start, size - start, "Reading the session")
            data = osfile.pread(fd, min(_WINDOW, size - position), position)
            if not data:
                break
            position += len(data)
            if carry:
                if b"\n" not in data:
                    carry.append(data)
                    continue
                data = b"".join([*carry, data])
                carry = []
            lines = data.split(b"\n")
            rest = lines.pop()
            self.scanned = self.add_lines(position - len(data), lines)
            if rest:
                carry = [rest]
        # A last line without its newline counts when it is whole; else it is still being
        # written, or torn, and is looked at again when the file has grown.
        last = b"".join(carry)
        if last and records.parse(last) is not None:
            self.add_lines(position - len(last), [last])
            self.scanned = position
            self.open_end = True
        take = min(_GUARD, self.scanned)
        self._guard = osfile.pread(fd, take, self.scanned - take)

    # The live branch

    def _resolve(self, indexed: int) -> None:
        """Choose the live branch; `indexed` is how many lines an earlier choice knew."""
        self.bridge_gaps()
        self._tree = None
        if self._placed_prompts != self.prompt_parents:
            self._leaves, self._placed_prompts = [], self.prompt_parents[:]
        if self.settled_late:
            indexed, self.settled_late = 0, False
        self.leaf = self._live_leaf()
        if not (
            indexed
            and not self._goes_around
            and (self._extend_chain(indexed) or self._retreat_chain(indexed))
        ):
            self.chain = self._with_compactions(self.path_to(self.leaf, trailing=True))
            self.turn_starts = array("I")
            self.compacted_at = -1
            self._survey(0)
            on_chain = set(self.chain) if self.compactions else set()
            self._goes_around = any(
                c.preserved and c.line not in on_chain for c in self.compactions
            )
            self._side_results = (array("I"), array("I"))
            self._collect_side_results(range(len(self.kinds)))
        self.leaf_id = self.uuid_at(self.leaf) if self.leaf >= 0 else None

    def _extend_chain(self, indexed: int) -> bool:
        """Lengthen the chain by lines that continue its end; False when they do not."""
        added = array("I")
        line = self.leaf
        if self.compactions and self.compactions[-1].line >= indexed:
            return False
        while line >= indexed and len(added) < len(self.kinds) - indexed:
            added.append(line)
            line = self.parents[line]
        if line >= indexed:
            return False  # the added records form a circle
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
        self._collect_side_results(range(indexed, len(self.kinds)))
        return True

    def _retreat_chain(self, indexed: int) -> bool:
        """Shorten the chain to a leaf on it, as after a rewind; False when it is elsewhere."""
        if self.compactions and self.compactions[-1].line >= indexed:
            return False
        if self.leaf < 0:
            keep = 0
        else:
            keep = len(self.chain)
            while keep and self.chain[keep - 1] != self.leaf:
                keep -= 1
            if not keep:
                return False
        dropped = sorted(self.chain[keep:])
        del self.chain[keep:]
        del self.turn_starts[bisect_left(self.turn_starts, keep) :]
        if self.leaf >= 0:
            self.chain.extend(self._silent_below(self.leaf))
        # A result that was on the chain may be one of a call that still is.
        self._collect_side_results(dropped)
        results, calls = self._side_results[1], self._side_results[0]
        ordered = sorted(zip(results, calls, strict=True))
        self._side_results = (
            array("I", (call for _, call in ordered)),
            array("I", (result for result, _ in ordered)),
        )
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

    def _live_leaf(self) -> int:
        if self.cleared:
            return -1
        pointer = self._find_newest(self.pointer) if self.pointer is not None else None
        if pointer is not None and self.kinds[pointer] & SIDECHAIN:
            pointer = None
        compaction = self.compactions[-1] if self.compactions else None
        if compaction is not None and compaction.preserved is not None:
            return self._leaf_after(compaction, pointer)
        if any(c.preserved is not None for c in self.compactions) and compaction is not None:
            pointer = pointer if pointer is not None and pointer > compaction.line else None
        if pointer is None:
            return self.spoken(self.newest)
        if not self.explicit and self.descends(self.newest, pointer):
            return self.spoken(self.newest)
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
        if self.explicit and known and pointer is not None:
            return self.spoken(pointer)
        continued = {self.spoken(parents[line]) for line in left}
        # The preserved records hang below the summary, and what follows it below their last.
        for summary in self._summary_below(compaction.line) if named else ():
            continued.add(summary)
            if summary in parents[summary:]:
                last = self._find((compaction.preserved or [0])[-1])
                continued.add(-1 if last is None else last)
        tips = [line for line in left if line not in continued]
        if len(tips) == 1:
            return tips[0]
        return pointer if pointer in tips else self.spoken(self.newest)

    def newest_of(self, lines: array[int]) -> int:
        """The last of `lines` that is on the main line of the conversation, -1 for none."""
        for line in reversed(lines):
            kind = self.kinds[line]
            if kind & KIND in TREE and not kind & (SIDECHAIN | DUPLICATE):
                return line
        return -1

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
        members = self._marks(chain) if self.compactions else bytearray()
        for compaction in self.compactions:
            at = next((i for i, line in enumerate(chain) if line > compaction.line), len(chain))
            named = set(compaction.preserved or ())
            if members[compaction.line] or not named or at == len(chain):
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

    def _marks(self, lines: array[int]) -> bytearray:
        """One byte a line of the table, 1 for those in `lines`: a set of lines that stays small."""
        marks = bytearray(len(self.kinds))
        for line in lines:
            marks[line] = 1
        return marks

    def _collect_side_results(self, among: Sequence[int]) -> None:
        """Results of parallel calls: off the chain, but their call is on it."""
        kinds, parents = self.kinds, self.parents
        answers = [
            line
            for line in among
            if kinds[line] == RESULT
            and parents[line] >= 0
            and kinds[parents[line]] & KIND == ASSISTANT
        ]
        if not answers:
            return
        on_chain = self._marks(self.chain)
        calls, results = self._side_results
        for line in answers:
            if on_chain[parents[line]] and not on_chain[line]:
                calls.append(parents[line])
                results.append(line)

    def side_results(self, lines: array[int]) -> dict[int, list[int]]:
        """Off-chain results of calls that `lines` of a branch make, by the line of the call."""
        calls, results = self._side_results
        members = set(lines)
        found: dict[int, list[int]] = {}
        if lines and not self._is_live(lines[0]):
            kinds, parents = self.kinds, self.parents
            for line in range(min(members), len(kinds)):
                call = parents[line]
                answers = kinds[line] == RESULT and line not in members and call in members
                if answers and kinds[call] & KIND == ASSISTANT:
                    found.setdefault(call, []).append(line)
            return found
        first = bisect_left(results, min(members, default=0))
        last = bisect_left(results, max(members, default=0) + _LATE)
        for at in range(first, last):
            if calls[at] in members:
                found.setdefault(calls[at], []).append(results[at])
        return found

    def with_side_results(self, lines: array[int]) -> list[int]:
        """`lines`, with results of parallel calls right after the message that calls."""
        found = self.side_results(lines)
        if not found:
            return list(lines)
        ordered: list[int] = []
        waiting: list[int] = []
        for line in lines:
            if waiting and self.kinds[line] & KIND != ASSISTANT:
                ordered += waiting
                waiting = []
            ordered.append(line)
            waiting += found.get(line, ())
        return ordered + waiting

    def _is_live(self, line: int) -> bool:
        at = bisect_left(self.chain, line)
        return (at < len(self.chain) and self.chain[at] == line) or line in self.chain

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
        members = self._marks(chain) if self.compactions else bytearray()
        named: set[int] = set()
        for compaction in self.compactions:
            if members[compaction.line]:
                named.update(compaction.preserved or ())
        return [line for line, id_ in enumerate(self.ids) if id_ in named] if named else []

    def honours_pointer(self, leaf: int) -> bool:
        """Whether an explicit pointer to `leaf`, appended now, is what the agent resumes at."""
        if not self.compactions or leaf > self.compactions[-1].line:
            return True
        if any(compaction.preserved is not None for compaction in self.compactions):
            return False
        # Files over 5 MiB are read from the newest compaction on.
        return self.scanned <= _READ_WHOLE

    def snapshot_ids(self, prompts: Iterable[int]) -> set[int]:
        """The column values that snapshots of these prompt lines have."""
        return {self.ids[line] ^ SNAPSHOT_SALT for line in prompts}

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

    def read(
        self,
        lines: array[int] | list[int],
        parse: Callable[[bytes], Record | None] = records.parse,
    ) -> Iterator[tuple[int, Record]]:
        """The records of `lines`, in that order; `parse` makes them of the file's lines."""
        with osfile.opened(self.path, os.O_RDONLY) as fd:
            block, begin = b"", 0
            for at, line in enumerate(lines):
                start, end = self.span(line)
                if not begin <= start <= end <= begin + len(block):
                    begin = start
                    block = osfile.pread(fd, self._end_of_run(lines, at) - start, start)
                record = parse(block[start - begin : end - begin])
                if record is not None:
                    yield line, record

    def _end_of_run(self, lines: array[int] | list[int], at: int) -> int:
        """Where in the file the lines end that are neighbours from `lines[at]` on."""
        first = lines[at]
        begin, end = self.span(first)
        while (at := at + 1) < len(lines) and 0 < lines[at] - lines[at - 1] < 4:
            _, next_end = self.span(lines[at])
            if next_end - begin > _WINDOW:
                break
            end = next_end
        return end

    def read_from(self, offsets: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """The records of the lines that start at these bytes, each with its offset."""
        with self.path.open("rb") as file:
            for offset in offsets:
                file.seek(offset)
                if (record := records.parse(file.readline())) is not None:
                    yield offset, record

    def uuid_at(self, line: int) -> str | None:
        for _, record in self.read([line]):
            uid = record.get("uuid")
            return uid if isinstance(uid, str) else None
        return None

    def leaf_prompts(self) -> array[int]:
        """The prompt lines of turns that no other turn follows."""
        if not self._leaves:
            inner = bytearray(len(self.kinds))
            for line in self.prompt_parents:
                if line >= 0:
                    inner[line] = 1
            self._leaves.append(array("I", (p for p in self.prompts if not inner[p])))
        return self._leaves[0]

    @property
    def tree(self) -> TurnTree:
        """All turns, of abandoned branches too."""
        if self._tree is None:
            self._tree = TurnTree(self)
        return self._tree


def _places(record: Record) -> bool:
    return isinstance(record.get("cwd"), str)


def _speaks(record: Record) -> bool:
    return records.kind_of(record) in SPOKEN and records.time_of(record) is not None


class TurnTree:
    """The tree of turns: one node a prompt, in file order."""

    def __init__(self, transcript: Transcript) -> None:
        self.prompts = transcript.prompts
        self.leaves = transcript.leaf_prompts()
        self._parents = transcript.prompt_parents
        self._transcript = transcript
        self._ends: dict[int, int] | None = None

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
        continued = bytearray(len(kinds))
        members = [
            line
            for line, kind in enumerate(kinds)
            if kind & KIND in TREE and not kind & (SIDECHAIN | DUPLICATE)
        ]
        for line in members:
            parent = parents[line]
            if kinds[line] & KIND == PROMPT:
                owners[line] = line
                continue
            owner = owners[parent] if parent >= 0 else -1
            owners[line] = owner if owner != -2 else self._transcript.owner(parent)
        for line in members:
            parent = parents[line]
            if parent >= 0 and kinds[line] & KIND in SPOKEN and kinds[line] & KIND != PROMPT:
                continued[self._transcript.spoken(parent)] = 1
        # The newest of those who speak last: a first turn's records may stand before its prompt.
        return {
            owners[line]: line
            for line in members
            if owners[line] >= 0 and kinds[line] & KIND in SPOKEN and not continued[line]
        }
