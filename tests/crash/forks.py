"""Forks that a process may die in, and what becomes of them: promotion, discarding, undo, redo."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from tests.chain import to_json
from tests.client import RpcError
from tests.crash.remains import Remains
from tests.crash.scene import Scene, points
from tests.crash.starting import Peer
from tests.world import World


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
        assert session["title"] == self.title()
        assert session["forked_from"]["session_id"] == self.session
        assert self.shown_turns(client, self.child) == self.turns[: self.kept]
        self.check_files(
            self.path.with_name(f"{self.child_id}.jsonl"), self.path.with_name(self.child_id)
        )

    def title(self) -> str:
        return f"{self.topic} (fork)"

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
        assert self.shown_turns(client, self.child) == self.turns[: self.kept]
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
