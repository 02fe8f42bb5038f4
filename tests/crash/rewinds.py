"""Rewinds that a process may die in, by record and by swap, with their undo and redo."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.crash.remains import Remains
from tests.crash.scene import POINTER, SWAP, Scene, points
from tests.crash.starting import Peer


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

    def speak(self) -> None:
        super().speak()
        self.transcript.compact()

    def check_new(self, client: Peer) -> None:
        super().check_new(client)
        assert b"compact_boundary" not in self.path.read_bytes()


class RewindToNothing(RewindBySwap):
    """A rewind by a swap that keeps no turn."""

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
        self.added = self.go_on(2)

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
    version = "2.1.100"
