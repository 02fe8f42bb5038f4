"""Rewinding in place: the agent's own pointer where it is honoured, else a swap of the file.

The pointer is one appended `last-prompt` record with `explicit: true`; every record stays in
the file and the dropped turns become a branch.  The swap puts a file that holds only the
kept turns in the place of the old one, which is archived.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import orjson

from session import osfile
from session.agents.claude_code import splice
from session.agents.claude_code.cut import Cut, Selection, select
from session.agents.claude_code.fork import leaf_pointer
from session.agents.claude_code.records import id_of
from session.agents.claude_code.transcript import Transcript
from session.effects import Append, Effect, Swap, Truncate
from session.errors import SessionDamaged, Unsupported
from session.faults import fault
from session.work import Work

POINTER_SINCE = (2, 1, 120)
"""The first version that was seen to honour an explicit pointer to a record."""
EMPTY_SINCE = (2, 1, 191)
"""The first version that was seen to honour an explicit pointer to nothing."""


def quick_rewind(transcript: Transcript, cut: Cut) -> Effect | None:
    """The pointer that leaves `cut.kept` turns; None when the agent would not honour it."""
    version = _version(transcript)
    if transcript.recovered and not set(cut.lines).isdisjoint(transcript.recovered):
        return None  # the agent does not see a record on a damaged line; a new file mends that
    if cut.leaf < 0:
        return _pointer(transcript, None) if version >= EMPTY_SINCE else None
    if version < POINTER_SINCE or not transcript.honours_pointer(cut.leaf):
        return None
    return _pointer(transcript, transcript.uuid_at(cut.leaf))


def staged_rewind(
    transcript: Transcript, cut: Cut, *, stage: Path, archive: Path, verb: str, work: Work
) -> Swap:
    """A swap whose new file, built and validated in `stage`, holds the kept turns alone."""
    selection = select(transcript, cut, own_records=True, moves=False)
    lines = splice.spliced(transcript, selection.runs, None, work)
    return _staged_swap(
        transcript,
        _then_pointer(transcript, cut, selection, lines),
        stage=stage,
        archive=archive,
        verb=verb,
        expect=(cut.kept, transcript.ids[cut.leaf] if cut.leaf >= 0 else 0),
    )


def quick_undo(transcript: Transcript, done: Effect, leaf_before: str | None) -> Effect | None:
    """Take a pointer back: by truncation while it is the last thing written, else by another
    pointer, so that what came since stays as a branch.  None for a swap."""
    if not isinstance(done, Append):
        return None
    if done.is_last():
        return Truncate(done.path, done.inode, done.size, done.text)
    leaf = transcript.find(leaf_before) if leaf_before else None
    if leaf is not None and not transcript.honours_pointer(leaf):
        raise Unsupported(
            "The agent has compacted the session since, and would not go back to before that. "
            f"Fork it instead, through turn {transcript.turn_of(leaf)}.",
            agent="claude-code",
            operation="undo",
            reason="the session was compacted since the rewind",
        )
    return _pointer(transcript, leaf_before)


def staged_undo(
    transcript: Transcript,
    done: Swap,
    *,
    leaf_before: str | None,
    turns_before: int,
    stage: Path,
    archive: Path,
    work: Work,
) -> Swap:
    """Take a swap back: the archived file itself while nothing came since; else the present
    file followed by the records that were dropped, whose newest is the old leaf."""
    before = Transcript(Path(done.archive), transcript.session)
    before.refresh(work)
    lines: Iterator[bytes] = iter(())
    original = Path(done.archive) if done.is_last() else None
    if original is None:
        present = {id_ for id_ in transcript.ids if id_}
        missing = [(i, i + 1) for i, id_ in enumerate(before.ids) if id_ not in present]
        lines = _both(transcript, splice.spliced(before, missing, None, work))
    return _staged_swap(
        transcript,
        lines,
        stage=stage,
        archive=archive,
        verb="undo",
        expect=(turns_before, id_of(leaf_before) if leaf_before else 0),
        original=original,
    )


def _version(transcript: Transcript) -> tuple[int, ...]:
    numbers = (transcript.version or "").split("-")[0].split(".")
    try:
        return tuple(int(number) for number in numbers)
    except ValueError:
        return ()


def _pointer(transcript: Transcript, leaf: str | None) -> Append:
    record = {
        "type": "last-prompt",
        "leafUuid": leaf,
        "explicit": True,
        "rewound": True,
        "sessionId": transcript.path.stem,
    }
    indexed = transcript.identity
    assert indexed is not None
    with transcript.path.open("rb") as file:
        file.seek(max(0, indexed.size - 1))
        # A last line without its newline would swallow the record.
        start = "" if file.read(1) in (b"\n", b"") else "\n"
    text = start + orjson.dumps(record).decode() + "\n"
    return Append(str(transcript.path), indexed.inode, indexed.size, text)


def _then_pointer(
    transcript: Transcript, cut: Cut, selection: Selection, lines: Iterator[bytes]
) -> Iterator[bytes]:
    yield from lines
    if cut.leaf >= 0:
        yield leaf_pointer(transcript, cut, selection, transcript.path.stem)


def _both(transcript: Transcript, added: Iterator[bytes]) -> Iterator[bytes]:
    last = b"\n"
    with transcript.path.open("rb") as file:
        while block := file.read(1 << 20):
            last = block[-1:]
            yield block
    if last != b"\n":
        yield b"\n"
    yield from added


def _staged_swap(
    transcript: Transcript,
    lines: Iterator[bytes],
    *,
    stage: Path,
    archive: Path,
    verb: str,
    expect: tuple[int, int],
    original: Path | None = None,
) -> Swap:
    osfile.remove_tree(stage)
    stage.mkdir(mode=0o700)
    staged = stage / "session"
    try:
        if original is not None:
            _link_or_copy(original, staged)
        else:
            osfile.write_durably(staged, lines)
            os.chmod(staged, stat.S_IMODE(os.stat(transcript.path).st_mode))
        osfile.fsync_directory(stage)
        fault(f"{verb}.staged")
        _validate(staged, transcript.session, expect)
    except BaseException:
        osfile.remove_tree(stage)
        raise
    old, new = transcript.identity, os.stat(staged)
    assert old is not None
    return Swap(
        path=osfile.real_path(str(transcript.path)),
        inode=old.inode,
        size=old.size,
        staged=str(staged),
        staged_inode=new.st_ino,
        staged_size=new.st_size,
        archive=str(archive),
        spent=str(original) if original else None,
    )


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        with source.open("rb") as file:
            osfile.write_durably(target, iter(lambda: file.read(1 << 20), b""))


def _validate(staged: Path, session: str, expect: tuple[int, int]) -> None:
    result = Transcript(staged, session)
    result.refresh()
    leaf = result.ids[result.leaf] if result.leaf >= 0 else 0
    if (result.turn_count, leaf) != expect:
        raise SessionDamaged(
            f"Nothing was changed: the file would have {result.turn_count} turns instead of "
            f"{expect[0]}, or end at another record.",
            findings=[],
        )
