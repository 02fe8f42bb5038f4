"""What is left after a process died: in the agent's store, in the archive, unfinished."""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from tests.client import wait_until
from tests.crash.starting import Peer
from tests.world import World, store_hash

SETTLING = 20.0
"""Seconds in which the sweep of a started process must be through."""


class Remains:
    """The agent's store as it was when this was made, to be compared with what is there later."""

    def __init__(self, world: World) -> None:
        self._store = world.store
        self._before = store_hash(world.store)

    def check_as_before(self, changes: Callable[[str], bool] = lambda path: False) -> None:
        """No file is new, gone or other than it was, but for those that may be (`changes`).

        An empty folder is nothing to the agent and may stay.
        """
        self.check_kept(changes)
        new = set(store_hash(self._store)) - set(self._before)
        extra = [path for path in new if not Path(path).is_dir() and not changes(path)]
        assert not extra

    def check_kept(self, changes: Callable[[str], bool] = lambda path: False) -> None:
        """Every path that was there is as it was, but for those that may change."""
        after = store_hash(self._store)
        different = {path for path, was in self._before.items() if after.get(path) != was}
        assert not [path for path in different if not changes(path)]


def operations(client: Peer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.list_operations(limit=500)["operations"]
    return found


def settle(client: Peer, waits: Container[str] = ()) -> None:
    """Wait until a started process has finished or taken back what it found.

    `waits`: states in which an operation may stay.
    """

    def through() -> bool:
        unfinished = ("intended", "staged", "indeterminate")
        return not any(
            o["state"] in unfinished and o["state"] not in waits for o in operations(client)
        )

    wait_until(through, timeout=SETTLING, what="the sweep was through")


def check_clean(world: World, client: Peer, *, staged: bool = False) -> None:
    """No name of a stage, no second name of a file, no archive that no undo needs."""
    in_store = list(world.store.rglob("*"))
    if not staged:
        assert not [path for path in in_store if path.name.startswith(".turntree-")]
    assert not [path for path in in_store if path.name.endswith(".partial")]
    assert not [path for path in in_store if path.is_file() and path.stat().st_nlink > 1]
    scratch = world.state / "scratch"
    assert not scratch.is_dir() or not list(scratch.iterdir())
    needed = {o["operation_id"] for o in operations(client) if o["state"] in ("done", "undone")}
    archives = world.state / "archive"
    for folder in archives.iterdir() if archives.is_dir() else ():
        assert folder.name in needed, f"{folder} belongs to no operation"
        for entry in folder.iterdir():
            assert not entry.name.endswith(".partial")
            for owner in ("before-", "after-"):
                if entry.name.startswith(owner):
                    assert entry.name.removeprefix(owner) in needed, f"{entry} is not needed"
