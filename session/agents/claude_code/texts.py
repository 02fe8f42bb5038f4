"""What was said in a transcript's turns, for the search index: prompts and answers, no more.

Every turn of the main line counts, of abandoned branches too.  What a person typed while a
turn ran is part of its prompt; thinking, tool calls and their results are not searched.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from session import osfile
from session.agents.claude_code import records
from session.agents.claude_code.records import (
    ASSISTANT,
    ATTACHMENT,
    DUPLICATE,
    KIND,
    NOTE,
    PROMPT,
    SIDECHAIN,
    TREE,
    Record,
)
from session.agents.claude_code.transcript import Transcript
from session.store.native_files import NO_FILE
from session.store.texts import Known, Texts, TurnText
from session.work import Work

_GUARD = 256
_LONGEST = 1 << 20
"""Characters of a prompt, and of what was answered, that are searched."""
_SPOKEN = frozenset((PROMPT, NOTE, ATTACHMENT, ASSISTANT))


def texts_of(t: Transcript, since: Known | None, work: Work) -> Texts:
    """The turns of a transcript that have something new `since` then.  Raises OSError."""
    assert t.identity is not None
    with osfile.opened(t.path, os.O_RDONLY) as fd:
        grew = since is not None and since.identity != NO_FILE and _continues(fd, t, since)
        guard = _guard(fd, t.scanned)
    numbers = {t.offsets[t.chain[at]]: n for n, at in enumerate(t.turn_starts, 1)}
    begin = since.scanned if grew and since is not None else 0
    return Texts(
        known=Known(t.identity, t.scanned, guard),
        whole=not grew,
        numbers=numbers,
        turns=_turns(t, begin, numbers, work),
    )


def said_at(path: Path, turn_id: str, places: Sequence[int]) -> tuple[str, str] | None:
    """Prompt and answer of a turn whose records stand at `places`; None when it is not there."""
    prompt: list[str] = []
    answer: list[str] = []
    with path.open("rb") as file:
        for place in places:
            file.seek(place)
            record = records.parse(file.readline())
            if record is None or (not prompt and record.get("uuid") != turn_id):
                break
            _take(record, prompt, answer)
    return (_joined(prompt), _joined(answer)) if prompt else None


def _continues(fd: int, t: Transcript, since: Known) -> bool:
    """Whether the file is the one that was seen then, with something added at most."""
    old, now = since.identity, t.identity
    return (
        now is not None
        and (old.device, old.inode) == (now.device, now.inode)
        and t.scanned >= since.scanned
        and _guard(fd, since.scanned) == since.guard
    )


def _guard(fd: int, end: int) -> bytes:
    take = min(_GUARD, end)
    return osfile.pread(fd, take, end - take)


def _turns(t: Transcript, begin: int, numbers: dict[int, int], work: Work) -> Iterator[TurnText]:
    """Turns with a record from byte `begin` on, each with all that was said in it."""
    lines = _lines_of_turns(t, begin)
    left: dict[int, int] = {}
    for prompt in lines.values():
        left[prompt] = left.get(prompt, 0) + 1
    said: dict[int, tuple[str, str, list[int], list[str], list[str]]] = {}
    for line, record in t.read(array("I", lines), _parsed):
        work.checkpoint()
        prompt = lines[line]
        if prompt == line:
            stamp = records.time_of(record) or ""
            said[prompt] = (str(record.get("uuid") or ""), stamp, [], [], [])
        turn = said.get(prompt)
        if turn is not None and _take(record, turn[3], turn[4]):
            turn[2].append(t.offsets[line])
        left[prompt] -= 1
        if not left[prompt] and (done := said.pop(prompt, None)) is not None and done[2]:
            yield _turn(done, numbers)
    for prompt in list(said):
        # Some record could not be read.
        if (done := said.pop(prompt))[2]:
            yield _turn(done, numbers)


def _turn(
    said: tuple[str, str, list[int], list[str], list[str]], numbers: dict[int, int]
) -> TurnText:
    turn_id, at, places, prompt, answer = said
    return TurnText(turn_id, numbers.get(places[0]), at, places, _joined(prompt), _joined(answer))


def _lines_of_turns(t: Transcript, begin: int) -> dict[int, int]:
    """line -> prompt line, in file order but each prompt first, of the turns that have a record
    from byte `begin` on."""
    kinds, parents = t.kinds, t.parents
    owners = array("i", [-1]) * len(kinds)
    found: dict[int, list[int]] = {}
    touched: set[int] = set()
    for line, flagged in enumerate(kinds):
        kind = flagged & KIND
        if kind not in TREE or flagged & (SIDECHAIN | DUPLICATE):
            continue
        if kind == PROMPT:
            owner = line
        else:
            parent = parents[line]
            # A first answer may stand before its prompt.
            owner = owners[parent] if 0 <= parent < line else t.owner(parent)
        owners[line] = owner
        if owner < 0 or kind not in _SPOKEN:
            continue
        if owner != line:
            found.setdefault(owner, []).append(line)
        else:
            found.setdefault(owner, [])
        if t.offsets[line] >= begin:
            touched.add(owner)
    lines: dict[int, int] = {}
    for prompt in sorted(touched):
        for line in (prompt, *found[prompt]):
            lines[line] = prompt
    return lines


def _parsed(line: bytes) -> Record | None:
    """A record that may hold something that was said; an empty one, quickly, for any other."""
    if b'"type":"assistant"' in line and b'"text"' not in line:
        return {}
    if b'"attachment":{' in line and b'"queued_command"' not in line:
        return {}
    return records.parse(line)


def _take(record: Record, prompt: list[str], answer: list[str]) -> bool:
    """Add what a record says to its turn; whether it says anything that is searched."""
    type_ = record.get("type")
    if type_ == "assistant":
        said = [
            text
            for block in records.content_blocks(record)
            if block.get("type") == "text" and isinstance(text := block.get("text"), str)
        ]
        answer += said
        return bool(said)
    if type_ == "attachment":
        attachment = record.get("attachment")
        if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
            return False
        prompt.append(records.block_text({"content": attachment.get("prompt")}))
        return True
    # A prompt typed while the turn ran is no turn of its own, though it looks like one.
    if type_ == "user" and records.kind_of(record) & KIND == PROMPT:
        prompt.append(records.prompt_text(record) or "")
        return True
    return False


def _joined(parts: list[str]) -> str:
    return records.clean("\n".join(parts)[:_LONGEST])
