"""Requests that a process may die in: what leads up to each, and the two states it may leave.

A scene is one session in a world, the requests that come first, and the one request that is
cut short.  `passes` are the fault points on its way; from the point `holds_from` on, a death
leaves the new state, before it the old one.  `dies_at` are the points worth a death where
another scene has the others.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from tests.builders import Transcript
from tests.chain import to_json
from tests.client import RpcError
from tests.crash.remains import Remains
from tests.crash.starting import Peer
from tests.world import World

SWAP = ("staged", "intended", "archived", "applied")
POINTER = ("intended", "applied")


def points(verb: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{verb}.{name}" for name in names)


class Scene:
    """One request on a session of five turns."""

    passes: ClassVar[tuple[str, ...]]
    holds_from: ClassVar[str]
    dies_at: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[str] = "2.1.197"

    def __init__(self, world: World, number: int = 1) -> None:
        """`number` tells the scenes of one world apart."""
        self.world = world
        self.topic = f"question 1 of session {number}"
        self.child_id = f"c0ffee00-0000-4000-8000-{number:012x}"
        self.id = f"request-{number}"
        self.transcript = Transcript(str(world.cwd), seed=number, version=self.version)
        self.speak()
        self.turns = list(self.transcript.prompts)
        self.path = self.transcript.write(world.store)
        self.original = self.path.read_bytes()
        self.session = f"claude-code:{self.transcript.session_id}"

    def speak(self) -> None:
        """Five turns, of which a tool's large output, a subagent and a file backup are part."""
        t = self.transcript
        t.turn(self.topic, "answer 1")
        t.prompt("question 2")
        t.big_tool("Bash", {"command": "make"}, "a line of output\n" * 4000)
        t.subagent("look around", "nothing there")
        t.write_file(f"{t.cwd}/a.py", "new", before="old")
        t.answer("answer 2")
        t.turns(3, first=3)

    def lead_up(self, client: Peer) -> None:
        """What is done before the request."""

    def ask(self, client: Peer) -> dict[str, Any]:
        """The request, the same each time."""
        result: dict[str, Any] = client.call(*self.request())
        return result

    def request(self) -> tuple[str, dict[str, Any]]:
        raise NotImplementedError

    def holds_after(self, point: str) -> bool:
        return self.passes.index(point) >= self.passes.index(self.holds_from)

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        """The answer to the request; `held`: it is a repetition of one that took place."""
        raise NotImplementedError

    def check_new(self, client: Peer) -> None:
        """The new state is there, whole."""
        raise NotImplementedError

    def changes(self, path: str) -> bool:
        """Whether the request may change or remove what was at this path of the store."""
        return False

    def adds(self, path: str) -> bool:
        """Whether the request may make this path in the store."""
        return self.child_id in path

    def waits(self, held: bool) -> set[str]:
        """States in which an operation may stay for good."""
        return {"staged"} if self.leaves_stage(held) else set()

    def leaves_stage(self, held: bool) -> bool:
        """Whether a staged fork is there in the new state (`held`) or in the old one."""
        return False

    def undo_all(self, client: Peer, remains: Remains) -> None:
        """Take the new state back and look for the old one."""

    def shown_turns(self, client: Peer, session_id: str) -> list[str]:
        result = client.list_turns(session_id=session_id)
        assert [turn["turn_number"] for turn in result["turns"]] == list(
            range(1, result["total_turns"] + 1)
        )
        assert result["session"]["turn_count"] == result["total_turns"]
        return [turn["turn_id"] for turn in result["turns"]]


class Fork(Scene):
    """A fork at turn 3, with everything that kept turns reach."""

    passes = points("fork", "intended", "copied", "validated", "staged", "sidecars", "published")
    holds_from = "fork.staged"
    stage: ClassVar[bool] = False
    kept: ClassVar[int] = 3

    def request(self) -> tuple[str, dict[str, Any]]:
        params: dict[str, Any] = {
            "session_id": self.session,
            "new_session_id": self.child_id,
            "at": {"turn_number": self.kept},
        }
        return "fork_session", params | ({"stage": True} if self.stage else {})

    @property
    def child(self) -> str:
        return f"claude-code:{self.child_id}"

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        first = "staged" if self.stage else "forked"
        assert reply["status"] == ("already_forked" if held else first)
        assert reply["turns"] == {"kept": self.kept, "source_total": 5}
        assert reply["session"]["session_id"] == self.child

    def check_new(self, client: Peer) -> None:
        session = client.get_session(session_id=self.child)["session"]
        assert session["state"] == "ready"
        assert session["title"] == f"{self.topic} (fork)"
        assert session["forked_from"]["session_id"] == self.session
        assert self.shown_turns(client, self.child) == self.turns[: self.kept]
        self.check_files(
            self.path.with_name(f"{self.child_id}.jsonl"), self.path.with_name(self.child_id)
        )

    def check_files(self, file: Path, own: Path) -> None:
        """The child's transcript, its folder and its file history, against the source's."""
        source = self.path.with_suffix("")
        said = file.read_bytes()
        assert to_json(str(source))[1:-1] not in said
        for name in self.transcript.files:
            assert (own / name).is_file()
            if name.startswith("tool-results"):
                assert to_json(str(self.path.with_name(self.child_id) / name))[1:-1] in said
                assert (own / name).read_bytes() == (source / name).read_bytes()
        self.check_backups(self.world.store / "file-history" / self.child_id)

    def check_backups(self, folder: Path) -> None:
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == self.transcript.backups

    def undo_all(self, client: Peer, remains: Remains) -> None:
        (operation,) = client.list_operations(session_id=self.child)["operations"]
        assert client.undo(operation_id=operation["operation_id"])["status"] == "undone"
        remains.check_as_before()


class ForkElsewhere(Fork):
    """A fork into a directory that has no folder in the agent's store yet."""

    dies_at = points("fork", "validated", "sidecars")

    def __init__(self, world: World, number: int = 1) -> None:
        super().__init__(world, number)
        self.elsewhere = world.home / "elsewhere"
        self.elsewhere.mkdir(exist_ok=True)

    def request(self) -> tuple[str, dict[str, Any]]:
        method, params = super().request()
        return method, {**params, "cwd": str(self.elsewhere)}

    def check_files(self, file: Path, own: Path) -> None:
        assert not file.exists()
        (file,) = self.world.store.glob(f"projects/*-elsewhere/{self.child_id}.jsonl")
        said = file.read_bytes()
        for name in self.transcript.files:
            assert (file.with_suffix("") / name).is_file()
            if name.startswith("tool-results"):
                assert to_json(str(file.with_suffix("") / name))[1:-1] in said
        self.check_backups(self.world.store / "file-history" / self.child_id)


class ForkOfNothing(Fork):
    """A fork that keeps no turn: it exists only by its id."""

    passes = points("fork", "intended", "staged")
    kept = 0

    def check_new(self, client: Peer) -> None:
        session = client.get_session(session_id=self.child)["session"]
        assert session["turn_count"] == 0
        assert session["resume"]["command"] == ["claude", "--session-id", self.child_id]

    def undo_all(self, client: Peer, remains: Remains) -> None:
        remains.check_as_before()


class StagedFork(Fork):
    """A fork that stops before it is published."""

    passes = points("fork", "intended", "copied", "validated", "staged")
    stage = True

    def leaves_stage(self, held: bool) -> bool:
        return held

    def check_new(self, client: Peer) -> None:
        session = client.get_session(session_id=self.child)["session"]
        assert session["state"] == "staged"
        assert self.shown_turns(client, self.child) == self.turns[:3]
        listed = client.list_sessions(cwd=str(self.world.cwd))["sessions"]
        assert self.child not in [s["session_id"] for s in listed]
        assert not self.path.with_name(f"{self.child_id}.jsonl").exists()

    def undo_all(self, client: Peer, remains: Remains) -> None:
        assert client.discard_session(session_id=self.child)["status"] == "discarded"
        remains.check_as_before()


class OnStaged(Fork):
    """What may become of a staged fork."""

    def changes(self, path: str) -> bool:
        return f"/.turntree-{self.child_id}" in path

    def leaves_stage(self, held: bool) -> bool:
        return not held

    def lead_up(self, client: Peer) -> None:
        client.call(
            "fork_session",
            {
                "session_id": self.session,
                "new_session_id": self.child_id,
                "at": {"turn_number": 3},
                "stage": True,
            },
        )


class Promote(OnStaged):
    passes = points("promote", "intended", "sidecars", "published")
    holds_from = "promote.intended"

    def request(self) -> tuple[str, dict[str, Any]]:
        return "promote_session", {"session_id": self.child}

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        assert reply["session"]["session_id"] == self.child
        assert reply["session"]["state"] == "ready"

    def undo_all(self, client: Peer, remains: Remains) -> None:
        """The staged fork was there before."""


class Discard(OnStaged):
    passes = points("discard", "intended", "removed")
    holds_from = "discard.intended"

    def request(self) -> tuple[str, dict[str, Any]]:
        return "discard_session", {"session_id": self.child}

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        assert reply == {"session_id": self.child, "status": "discarded"}

    def check_new(self, client: Peer) -> None:
        try:
            client.get_session(session_id=self.child)
        except RpcError as error:
            assert error.kind == "session_not_found"
        else:
            raise AssertionError("a discarded session is still there")

    def undo_all(self, client: Peer, remains: Remains) -> None:
        """A discarded fork is gone for good."""


class OnFork(Fork):
    """Undo and redo of a fork: the child leaves the agent's store and comes back."""

    verb: ClassVar[str]
    did: ClassVar[str]

    def lead_up(self, client: Peer) -> None:
        made = client.fork_session(
            session_id=self.session, new_session_id=self.child_id, at={"turn_number": 3}
        )
        self.operation = made["operation_id"]

    def request(self) -> tuple[str, dict[str, Any]]:
        return self.verb, {"operation_id": self.operation, "request_id": self.id}

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        assert reply["status"] == ("already_done" if held else self.did)
        assert reply["operation_id"] == self.operation


class UndoFork(OnFork):
    """The child leaves the store."""

    passes = points("undo", "intended", "archived", "applied")
    # A move that began is finished.
    holds_from = "undo.archived"
    verb, did = "undo", "undone"

    def changes(self, path: str) -> bool:
        return self.child_id in path

    def check_new(self, client: Peer) -> None:
        try:
            client.get_session(session_id=self.child)
        except RpcError as error:
            assert error.kind == "session_not_found"
        else:
            raise AssertionError("an undone fork is still there")
        assert not list(self.world.store.rglob(f"*{self.child_id}*"))

    def undo_all(self, client: Peer, remains: Remains) -> None:
        assert client.redo(operation_id=self.operation)["status"] == "redone"
        remains.check_as_before()


class RedoFork(OnFork):
    passes = points("redo", "intended", "archived", "applied")
    holds_from = "redo.archived"
    verb, did = "redo", "redone"

    def lead_up(self, client: Peer) -> None:
        super().lead_up(client)
        client.undo(operation_id=self.operation)

    def undo_all(self, client: Peer, remains: Remains) -> None:
        assert client.undo(operation_id=self.operation)["status"] == "undone"
        remains.check_as_before()


class Rewind(Scene):
    """A rewind to turn 2 by one appended record."""

    passes = points("rewind", *POINTER)
    holds_from = "rewind.applied"
    to: ClassVar[int] = 2

    def changes(self, path: str) -> bool:
        return path == str(self.path)

    def request(self) -> tuple[str, dict[str, Any]]:
        params = {
            "session_id": self.session,
            "to": {"turn_number": self.to},
            "operation_id": self.id,
        }
        return "rewind", params

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        assert reply["status"] == ("already_done" if held else "rewound")
        assert reply["operation_id"] == self.id
        assert reply["turns"] == {"kept": self.to, "removed": 5 - self.to}

    def check_new(self, client: Peer) -> None:
        assert self.shown_turns(client, self.session) == self.turns[: self.to]
        assert self.path.read_bytes().startswith(self.original)

    def undo_all(self, client: Peer, remains: Remains) -> None:
        assert client.undo(session_id=self.session)["status"] == "undone"
        assert self.path.read_bytes() == self.original
        assert self.shown_turns(client, self.session) == self.turns
        remains.check_as_before(self.changes)


class RewindBySwap(Rewind):
    """A rewind of a session whose program does not honour the record."""

    passes = points("rewind", *SWAP)
    version = "2.1.100"

    def check_new(self, client: Peer) -> None:
        assert self.shown_turns(client, self.session) == self.turns[: self.to]
        assert b"question 3" not in self.path.read_bytes()


class RewindPastCompaction(RewindBySwap):
    """A rewind to before a compaction that names what it preserved."""

    version = "2.1.197"
    dies_at = points("rewind", "archived", "applied")

    def speak(self) -> None:
        super().speak()
        self.transcript.compact()

    def check_new(self, client: Peer) -> None:
        super().check_new(client)
        assert b"compact_boundary" not in self.path.read_bytes()


class RewindToNothing(RewindBySwap):
    """A rewind by a swap that keeps no turn."""

    dies_at = points("rewind", "archived", "applied")

    to = 0


class OnRewind(Rewind):
    """Undo and redo of a rewind to turn 2."""

    verb: ClassVar[str]
    did: ClassVar[str]

    def lead_up(self, client: Peer) -> None:
        done = client.rewind(session_id=self.session, to={"turn_number": 2})
        self.operation = done["operation_id"]

    def request(self) -> tuple[str, dict[str, Any]]:
        return self.verb, {"session_id": self.session, "request_id": self.id}

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        assert reply["status"] == ("already_done" if held else self.did)
        assert reply["operation_id"] == self.operation


class Undo(OnRewind):
    passes = points("undo", *POINTER)
    holds_from = "undo.applied"
    verb, did = "undo", "undone"

    def check_new(self, client: Peer) -> None:
        assert self.path.read_bytes() == self.original
        assert self.shown_turns(client, self.session) == self.turns

    def undo_all(self, client: Peer, remains: Remains) -> None:
        assert client.redo(session_id=self.session)["status"] == "redone"
        assert self.shown_turns(client, self.session) == self.turns[:2]
        assert client.undo(session_id=self.session)["status"] == "undone"
        self.check_new(client)


class UndoOfSwap(Undo):
    passes = points("undo", *SWAP)
    version = "2.1.100"


class UndoAfterNewTurns(Undo):
    """An undo of a rewind after which the agent went on: what it added becomes a branch."""

    def lead_up(self, client: Peer) -> None:
        super().lead_up(client)
        self.added = self.go_on()

    def go_on(self) -> str:
        """A turn that the agent appends below turn 2; returns its id."""
        t = self.transcript
        known = len(t.records)
        leaf = t.records[t.records.index(t.find(self.turns[2])) - 1]
        assert isinstance(leaf, dict)
        t.branch_from(leaf["uuid"])
        added = t.turn("another third question", "another answer")
        with self.path.open("ab") as file:
            for record in t.records[known:]:
                assert isinstance(record, dict)
                file.write(to_json(record) + b"\n")
            os.fsync(file.fileno())
        return added

    def check_new(self, client: Peer) -> None:
        assert self.shown_turns(client, self.session) == self.turns
        every = client.list_turns(session_id=self.session, branch="all")["turns"]
        assert {turn["turn_id"] for turn in every} == {*self.turns, self.added}

    def undo_all(self, client: Peer, remains: Remains) -> None:
        assert client.redo(session_id=self.session)["status"] == "redone"
        assert self.shown_turns(client, self.session) == self.turns[:2]
        assert client.undo(session_id=self.session)["status"] == "undone"
        self.check_new(client)


class UndoOfSwapAfterNewTurns(UndoAfterNewTurns):
    passes = points("undo", *SWAP)
    version = "2.1.100"


class Redo(OnRewind):
    passes = points("redo", *POINTER)
    holds_from = "redo.applied"
    verb, did = "redo", "redone"

    def lead_up(self, client: Peer) -> None:
        super().lead_up(client)
        client.undo(session_id=self.session)


class RedoOfSwap(Redo):
    passes = points("redo", *SWAP)
    version = "2.1.100"

    def check_new(self, client: Peer) -> None:
        assert self.shown_turns(client, self.session) == self.turns[:2]
        assert b"question 3" not in self.path.read_bytes()


class RedoAfterNewTurns(UndoAfterNewTurns):
    """A redo of a rewind that was undone after the agent had gone on."""

    passes = Redo.passes
    holds_from = Redo.holds_from
    verb, did = "redo", "redone"

    def lead_up(self, client: Peer) -> None:
        super().lead_up(client)
        client.undo(session_id=self.session)

    def check_new(self, client: Peer) -> None:
        assert self.shown_turns(client, self.session) == self.turns[:2]

    def undo_all(self, client: Peer, remains: Remains) -> None:
        assert client.undo(session_id=self.session)["status"] == "undone"
        super().check_new(client)


class RedoOfSwapAfterNewTurns(RedoAfterNewTurns):
    passes = RedoOfSwap.passes
    dies_at = points("redo", "archived", "applied")
    version = "2.1.100"


SCENES: tuple[type[Scene], ...] = (
    Fork,
    ForkElsewhere,
    ForkOfNothing,
    StagedFork,
    Promote,
    Discard,
    UndoFork,
    RedoFork,
    Rewind,
    RewindBySwap,
    RewindPastCompaction,
    RewindToNothing,
    Undo,
    UndoOfSwap,
    UndoAfterNewTurns,
    UndoOfSwapAfterNewTurns,
    Redo,
    RedoOfSwap,
    RedoAfterNewTurns,
    RedoOfSwapAfterNewTurns,
)
