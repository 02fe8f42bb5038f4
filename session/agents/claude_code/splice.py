"""Lines of a transcript as bytes for another session: only what must differ is changed.

An edit is made at a top-level member, never by searching for a value: the old id may stand in
a prompt, in a tool's output or in a path.  Most lines end with the same few flat members, so
once one line has been edited exactly, its ending is known and every line that ends with the
same bytes is edited by replacing that ending: it closes the line's one object, so its members
are top-level there too.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from attrs import define, field

from session import osfile
from session.agents import spans
from session.agents.claude_code.transcript import Transcript
from session.errors import StorageError
from session.work import Work

_BLOCK = 1 << 20
_ENDINGS = 12
# What stands in a line that names a file with a large tool result.
_RESULTS = b"/tool-results/"
_FOLDER = rb'(?P<folder>[^"\\]*/projects/[^"/\\]+/[0-9a-f-]{36}/tool-results)/(?P<name>[^"\\/]+)'
_RESULT_TEXT = re.compile(rb'"<persisted-output>[^"]*?saved to: ' + _FOLDER)
_RESULT_PATH = re.compile(rb'"persistedOutputPath"\s*:\s*"' + _FOLDER + rb'"')
_FLAT = re.compile(
    rb'"[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)'
    rb'(?:\s*,\s*"[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[-+.\w]+))*\s*\}\r?\n'
)


def encoded(text: str) -> bytes:
    """A JSON string as the agent writes it: characters beyond ASCII stay themselves."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")


@define
class Editor:
    """Turns lines of `old_id` into lines of `new_id`.

    With `any_id` every record's session id is changed, whatever it was.  `cwd` moves the
    session to another directory; `entrypoint` replaces the front end that
    records name.  Large tool results are files of their own, named in records by path: the
    paths become ones in the folder `new_results`, and `results` collects what to copy there.
    The agent's own forks keep pointing into the folder of the session they came from.
    """

    old_id: str
    new_id: str
    cwd: str | None = None
    entrypoint: str | None = None
    any_id: bool = False
    new_results: str | None = None
    results: dict[str, str] = field(factory=dict)
    even: bool = field(init=False)
    """Whether every edit so far was as long as what it replaced, so that lines kept their size."""
    _endings: list[tuple[bytes, bytes]] = field(factory=list)
    _needle: bytes = field(init=False)
    _new_needle: bytes = field(init=False)
    _befores: tuple[bytes, ...] = field(init=False, default=())
    _afters: tuple[bytes, ...] = field(init=False, default=())
    _leftover: re.Pattern[bytes] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._needle, self._new_needle = encoded(self.old_id), encoded(self.new_id)
        self.even = len(self._needle) == len(self._new_needle)
        left: list[bytes] = []
        any_id = self.new_id if self.any_id else None
        for key, value in (
            ("sessionId", any_id),
            ("cwd", self.cwd),
            ("entrypoint", self.entrypoint),
        ):
            if value is not None:
                left.append(rb'"%s"\s*:\s*(?!%s)"' % (key.encode(), re.escape(encoded(value))))
        if left:
            self._leftover = re.compile(b"|".join([re.escape(self._needle), _RESULTS, *left]))

    def edit_block(self, data: bytes) -> bytes:
        """Edit whole lines."""
        if self._leftover is None and (edited := self._edit_ids(data)) is not None:
            return edited
        for old, new in self._endings:
            data = data.replace(old, new)
        parts: list[bytes] = []
        done = 0
        while (at := self._next_leftover(data, done)) >= 0:
            start = data.rfind(b"\n", done, at) + 1 or done
            end = data.find(b"\n", at) + 1 or len(data)
            known = len(self._endings)
            parts += [data[done:start], self.edit_line(data[start:end])]
            done = end
            if len(self._endings) > known:
                # An ending was learnt: the rest of the block takes the short way.
                data, done = data[end:].replace(*self._endings[-1]), 0
        return b"".join([*parts, data[done:]]) if parts else data

    def _edit_ids(self, data: bytes) -> bytes | None:
        """Edit a block in one pass, when the id stands in endings that are known, and there only;
        None when it does not."""
        pieces = data.split(self._needle)
        for piece in pieces[:-1]:
            if not piece.endswith(self._befores):
                return None
        for piece in pieces[1:]:
            if not piece.startswith(self._afters):
                return None
        return None if _RESULTS in data else self._new_needle.join(pieces)

    def _next_leftover(self, data: bytes, begin: int) -> int:
        if self._leftover is None:
            at = data.find(self._needle, begin)
            other = data.find(_RESULTS, begin, at if at >= 0 else len(data))
            return other if other >= 0 else at
        match = self._leftover.search(data, begin)
        return match.start() if match else -1

    def edit_line(self, line: bytes) -> bytes:
        """Edit one line by its top-level members; a line that is no object stays as it is."""
        edits: list[tuple[int, int, bytes]] = []
        try:
            found = list(spans.members(line))
        except spans.NotAnObject:
            return line
        for member in found:
            edits += self._edits_of(line, member)
        if not edits:
            return line
        if any(end - start != len(new) for start, end, new in edits):
            self.even = False
        self._learn(line, edits, found)
        return spans.replace(line, edits)

    def _edits_of(self, line: bytes, member: spans.Member) -> list[tuple[int, int, bytes]]:
        value = line[member.value : member.end]
        new: str | None = None
        if member.key == b"sessionId":
            new = self.new_id
        elif member.key == b"cwd":
            new = self.cwd
        elif member.key == b"entrypoint":
            new = self.entrypoint
        elif member.key == b"message":
            return self._moved_results(_RESULT_TEXT, line, member)
        elif member.key == b"toolUseResult":
            return self._moved_results(_RESULT_PATH, line, member)
        if new is None or value[:1] != b'"' or value == encoded(new):
            return []
        return [(member.value, member.end, encoded(new))]

    def _moved_results(
        self, pattern: re.Pattern[bytes], line: bytes, member: spans.Member
    ) -> list[tuple[int, int, bytes]]:
        if self.new_results is None:
            return []
        edits = []
        for match in pattern.finditer(line, member.value, member.end):
            folder, name = json.loads(b'["' + match["folder"] + b'","' + match["name"] + b'"]')
            source = f"{folder}/{name}"
            # Two files of one name from two sessions: the second stays where it is.
            if self.results.setdefault(name, source) == source:
                edits.append((*match.span("folder"), encoded(self.new_results)[1:-1]))
        return edits

    def _learn(
        self, line: bytes, edits: list[tuple[int, int, bytes]], found: list[spans.Member]
    ) -> None:
        first = min(edits)[0]
        start = max(m.start for m in found if m.start <= first)
        comma = line.rfind(b",", 0, start)
        if comma < 0 or line[comma + 1 : start].strip() or not _FLAT.fullmatch(line, start):
            return
        moved = [(s - comma, e - comma, new) for s, e, new in edits]
        ending = line[comma:]
        self._endings = [pair for pair in self._endings if pair[0] != ending]
        self._endings = [*self._endings[1 - _ENDINGS :], (ending, spans.replace(ending, moved))]
        around = [old.split(self._needle) for old, new in self._endings if self._needle not in new]
        self._befores = tuple({parts[0] for parts in around if len(parts) == 2})
        self._afters = tuple({parts[1] for parts in around if len(parts) == 2})


def spliced(
    transcript: Transcript,
    runs: list[tuple[int, int]],
    editor: Editor | None,
    work: Work,
    reparent: dict[int, bytes] | None = None,
) -> Iterator[bytes]:
    """The bytes of runs of lines, edited, in blocks of whole lines.

    `reparent` gives lines a new parentUuid.
    """
    span = transcript.span
    total = sum(span(end - 1)[1] - span(begin)[0] for begin, end in runs)
    done = 0
    fd = os.open(transcript.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        alone = sorted({*(reparent or ()), *transcript.unterminated})
        for block in _blocks(transcript, runs, alone):
            start, end = block[0][0], block[-1][1]
            data = osfile.pread(fd, end - start, start)
            if len(data) != end - start:
                raise StorageError(
                    f"{transcript.path} became shorter while it was read. Try again.",
                    path=str(transcript.path),
                    errno=None,
                )
            if len(block) > 1:
                data = b"".join([data[b - start : e - start] for b, e in block])
            if reparent and (line := bisect_left(transcript.offsets, start)) in reparent:
                data = _with_parent(data, reparent[line])
            if not data.endswith(b"\n"):
                data += b"\n"
            done += len(data)
            yield editor.edit_block(data) if editor else data
            work.checkpoint(done, total, "Copying the session")
    finally:
        os.close(fd)


def starts(transcript: Transcript, runs: list[tuple[int, int]]) -> array[int]:
    """Where each line of `runs` starts in a file that holds them one after the other."""
    places = array("Q")
    position = 0
    for begin, end in runs:
        shift = position - transcript.offsets[begin]
        places.extend(offset + shift for offset in transcript.offsets[begin:end])
        position = transcript.span(end - 1)[1] + shift
    return places


def _blocks(
    transcript: Transcript, runs: list[tuple[int, int]], alone: list[int]
) -> Iterator[list[tuple[int, int]]]:
    """Byte ranges of whole lines, gathered into reads of about a block.

    Lines in `alone` come by themselves.
    """
    offsets, span = transcript.offsets, transcript.span
    block: list[tuple[int, int]] = []
    for begin, end in _parted(runs, alone):
        first, last = offsets[begin], span(end - 1)[1]
        single = end - begin == 1 and begin in alone
        if block and (single or last - block[0][0] > _BLOCK):
            yield block
            block = []
        while last - first > _BLOCK and end - begin > 1:
            # A run longer than a block is cut at the last line that starts within one.
            cut = max(bisect_left(offsets, first + _BLOCK, begin + 1, end), begin + 1)
            if cut >= end:
                break
            yield [(first, offsets[cut])]
            begin, first = cut, offsets[cut]
        block.append((first, last))
        if single:
            yield block
            block = []
    if block:
        yield block


def _parted(runs: list[tuple[int, int]], alone: list[int]) -> Iterator[tuple[int, int]]:
    """The runs with each line in `alone` as a run of its own."""
    for run_begin, end in runs:
        begin = run_begin
        for line in alone[bisect_left(alone, begin) : bisect_left(alone, end)]:
            if line > begin:
                yield begin, line
            yield line, line + 1
            begin = line + 1
        if end > begin:
            yield begin, end


def _with_parent(line: bytes, parent: bytes) -> bytes:
    for member in spans.members(line):
        if member.key == b"parentUuid":
            return spans.replace(line, [(member.value, member.end, parent)])
    return line


def copy_subagent(source: Path, editor: Editor) -> Iterator[bytes]:
    """A subagent's file with the session it belongs to changed."""
    with source.open("rb") as file:
        while block := file.readlines(_BLOCK):
            yield editor.edit_block(b"".join(block))
