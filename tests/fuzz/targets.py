"""What is fuzzed: functions of bytes that raise when a promise is broken."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson

from server.checking import read
from server.framing import Fault, Framing
from server.methods import VERBS
from session.agents.claude_code import packed, plain, records
from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.history import History
from session.agents.claude_code.records import DUPLICATE, FOREIGN, KIND, PROMPT, TREE
from session.agents.claude_code.splice import Editor
from session.agents.claude_code.store import ClaudeStore
from session.agents.claude_code.transcript import Transcript
from session.errors import InvalidParams, SessionDamaged
from session.model import Boundary, fields_of
from session.work import Work

SESSION = "5e551014-0000-4000-8000-000000000001"
CHILD = "5e551014-0000-4000-8000-00000000000c"
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""A place for files whose syncs take no time."""


class _World:
    """A store with one session in it, made again for each input."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.store = Path(self._folder.name)
        self.path = self.store / "projects" / "-p" / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)

    def open(self, data: bytes) -> tuple[ClaudeCode, History]:
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(data)
        agent = ClaudeCode(ClaudeStore(self.store))
        return agent, agent.open(self.path, native_id=SESSION, work=Work())


_WORLD: list[_World] = []


def _world() -> _World:
    if not _WORLD:
        _WORLD.append(_World())
    return _WORLD[0]


def reader(data: bytes) -> None:
    """Any file is listed: nothing raises, nothing whole is hidden, every view agrees, and a file
    read in two steps is read as in one."""
    world = _world()
    _, history = world.open(data)
    t = history.transcript
    assert list(t.offsets) == sorted(t.offsets)
    assert len(set(t.chain)) == len(t.chain), "a line stands in the chain twice"
    placed = {t.uuid_at(line) for line, kind in enumerate(t.kinds) if _has_place(kind)}
    for line in data.split(b"\n"):
        record = records.parse(line)
        if record is not None and records.kind_of(record) & KIND in TREE:
            assert record["uuid"] in placed, "a whole record is hidden"
    summary = history.summary
    assert summary.turn_count == history.turn_count
    turns = history.turns(range(1, history.turn_count + 1))
    orjson.dumps(turns, default=fields_of)
    orjson.dumps([fields_of(summary), history.gaps(), history.branches()], default=fields_of)
    active = [branch for branch in history.branches() if branch.active]
    assert len(active) == 1
    every = history.turns_of(history.branch_turns("all"))
    assert {turn.turn_id for turn in turns} <= {turn.turn_id for turn in every}
    for turn in every[:20]:
        cursor: str | None = None
        for _ in range(4):
            _, items, cursor = history.items(turn.turn_id, 1 << 16, cursor)
            orjson.dumps(items, default=fields_of)
            if cursor is None:
                break
    assert world.path.read_bytes() == data
    _in_two_steps(world.path, data, t)


def extension(data: bytes) -> None:
    """Any file makes the same index with the extension and without, and again when it was kept."""
    world = _world()
    found, native = _index(world, data), plain.native
    try:
        plain.native = None
        expected = _index(world, data)
    finally:
        plain.native = native
    assert found == expected
    index = Transcript(world.path)
    index.refresh()
    pieces = packed.pack(index)
    kept = pieces and packed.unpack(b"".join(pieces), world.path, None)
    assert kept is None or _facts(kept) == found


def _index(world: _World, data: bytes) -> dict[str, object]:
    world.path.unlink(missing_ok=True)
    world.path.write_bytes(data)
    index = Transcript(world.path)
    index.refresh()
    return _facts(index)


def _facts(index: Transcript) -> dict[str, object]:
    """All that an index says, but which file it is of."""
    facts = {name: value for name, value in vars(index).items() if name[0] != "_"}
    return facts | dict.fromkeys(("identity", "kept_until"))


def _has_place(kind: int) -> bool:
    return not kind & DUPLICATE and (kind & KIND in TREE or kind & KIND == FOREIGN)


def _in_two_steps(path: Path, data: bytes, whole: Transcript) -> None:
    cut = data.rfind(b"\n", 0, len(data) // 2) + 1
    path.write_bytes(data[:cut])
    stepped = Transcript(path)
    stepped.refresh()
    with path.open("ab") as file:
        file.write(data[cut:])
    stepped.refresh()
    assert (stepped.kinds, stepped.chain) == (whole.kinds, whole.chain)
    assert stepped.parents == whole.parents and stepped.leaf_id == whole.leaf_id


def checker(data: bytes) -> None:
    """Any file can be checked: what is told stands where it says, agrees with what a listing
    says, and can be sent; nothing is written."""
    world = _world()
    agent, history = world.open(data)
    found = agent.check(history, siblings=True, work=Work())
    assert sum(f.severity == "error" for f in found) == min(history.summary.finding_count or 0, 201)
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    for finding in found:
        assert finding.line is None or finding.byte_offset == starts[finding.line - 1]
        assert len(orjson.dumps(finding.message)) < 5000
    assert world.path.read_bytes() == data


def fork(data: bytes) -> None:
    """A fork of any file holds exactly the kept turns, or is refused with the reason; the source
    stays as it was."""
    world = _world()
    agent, history = world.open(data)
    kept = len(data) % (history.turn_count + 1)
    if not kept or _repeats_prompt_ids(history.transcript):
        return
    plan = agent.plan_fork(
        history,
        history.cut(Boundary(turn_number=kept)),
        child_id=CHILD,
        title="child",
        cwd=None,
        bridge_gaps=True,
    )
    try:
        agent.build_fork(history, plan, Work())
    except SessionDamaged as refused:
        raise AssertionError(str(refused)) from refused
    child = Transcript(plan.stage.file, CHILD)
    try:
        child.refresh()
        lines = plan.stage.file.read_bytes().split(b"\n")[:-1]
    finally:
        plan.stage.remove()
    assert child.turn_count == kept and not child.torn_lines
    for line in lines:
        record = records.parse(line)
        assert record is not None
        session = record.get("sessionId")
        assert session == CHILD or not isinstance(session, str)
    assert world.path.read_bytes() == data


def _repeats_prompt_ids(transcript: Transcript) -> bool:
    """Which turn such a prompt belongs to depends on all that stands before it in the file."""
    ids: dict[str, set[str]] = {}
    for _, record in transcript.read(list(range(len(transcript.kinds)))):
        if records.kind_of(record) == PROMPT and "promptId" in record:
            ids.setdefault(str(record["promptId"]), set()).add(record["uuid"])
    return any(len(of) > 1 for of in ids.values())


def splicer(data: bytes) -> None:
    """An edited line differs in the named top-level members alone."""
    editor = Editor(SESSION, CHILD, cwd="/new", entrypoint="cli", any_id=True)
    plain = Editor(SESSION, CHILD)
    lines = data.splitlines(keepends=True)
    for line in lines:
        before = _object(line)
        if before is None:
            continue
        after = _object(editor.edit_block(line))
        for name, new in (("sessionId", CHILD), ("cwd", "/new"), ("entrypoint", "cli")):
            if isinstance(before.get(name), str):
                before[name] = new
        assert after == before
    # Without `any_id` all records are the session's own.
    whole = [line for line in lines if line.endswith(b"\n") and _is_own(_object(line))]
    one_by_one = b"".join(Editor(SESSION, CHILD).edit_block(line) for line in whole)
    assert plain.edit_block(b"".join(whole)) == one_by_one


def _is_own(record: dict[str, object] | None) -> bool:
    return record is not None and record.get("sessionId", SESSION) == SESSION


def _object(line: bytes) -> dict[str, object] | None:
    """A line's object; None for what is none, or names a member twice."""

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        orjson.loads(line)
        value = json.loads(line, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def frames(data: bytes) -> None:
    """However bytes arrive they read the same, and after any of them a message is found."""
    whole = list(Framing().feed(data))
    framing, pieces = Framing(), []
    step = 1 + len(data) % 7
    for at in range(0, len(data), step):
        pieces += list(framing.feed(data[at : at + step]))
    assert [bytes(p) if not isinstance(p, Fault) else p for p in pieces] == [
        bytes(p) if not isinstance(p, Fault) else p for p in whole
    ]
    pieces += framing.feed(b"\r\n\r\n")  # ends a header that was begun
    if any(isinstance(piece, Fault) and piece.fatal for piece in pieces):
        return
    if framing.wanted < 1 << 20:
        list(framing.feed(bytes(framing.wanted)))
        found = list(framing.feed(b"\r\n\r\nContent-Length: 2\r\n\r\n{}"))
        assert found[-1] == b"{}"


def params(data: bytes) -> None:
    """Parameters of any method are read, or refused by name."""
    try:
        value = orjson.loads(data[1:])
    except orjson.JSONDecodeError:
        return
    verbs = list(VERBS.values())
    try:
        read(verbs[data[0] % len(verbs)].params, value)
    except InvalidParams as refused:
        assert refused.fields.get("field") is not None or not isinstance(value, dict)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "reader": reader,
    "extension": extension,
    "checker": checker,
    "fork": fork,
    "splicer": splicer,
    "frames": frames,
    "params": params,
}
