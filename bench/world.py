"""Where a run works: temporary stores that no real session is in, and our processes in them."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from attrs import define, field

from bench.client import Client
from bench.generate import Made, Writer

TURNTREE = Path(sys.executable).with_name("turntree")
ECHO = [sys.executable, str(Path(__file__).with_name("echo.py"))]


@define(frozen=True)
class Place:
    """One store of the agent's and one of ours."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "claude"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.root),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "TURNTREE_HOME": str(self.state),
            "TURNTREE_LOG": "warning",
        }

    def folder(self, name: str) -> str:
        """A working directory for sessions, which exists."""
        path = self.root / "work" / name
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    @contextlib.contextmanager
    def server(self) -> Iterator[Client]:
        """A running server that has answered `initialize`, `initialized` and one request."""
        client = Client([str(TURNTREE), "serve"], self.env)
        try:
            client.call("initialize", {"capabilities": {}})
            client.notify("initialized")
            client.call("list_operations", {})
            yield client
        finally:
            client.close()

    def forget_index(self) -> None:
        """Take away what Turntree knows of this store."""
        shutil.rmtree(self.state, ignore_errors=True)


@define
class World:
    """The stores of one run, each made when a subject first asks for it."""

    root: Path
    rounds: int
    big: bool
    _sessions: dict[int, Made] = field(factory=dict)
    _stores: set[Place] = field(factory=set)

    def place(self, name: str) -> Place:
        return Place(self.root / name)

    def session(self, turns: int) -> tuple[Place, Made]:
        """A store that holds one session of `turns` turns."""
        place = self.place(f"session-{turns}")
        if turns not in self._sessions:
            _require_room(self.root, turns * 22_500)
            self._sessions[turns] = Writer(place.config).session(turns, place.folder("long"))
        return place, self._sessions[turns]

    def store(self, sessions: int, *, most_turns: int = 3) -> Place:
        """A store of sessions of up to `most_turns` turns, spread over 50 directories."""
        place = self.place(f"store-{sessions}-{most_turns}")
        if place not in self._stores:
            _require_room(self.root, sessions * (most_turns + 1) * 12_000)
            folders = [place.folder(f"project-{number:02}") for number in range(50)]
            Writer(place.config).store(sessions, folders, most_turns=most_turns)
            self._stores.add(place)
        return place


@contextlib.contextmanager
def world(rounds: int, *, big: bool, parent: Path | None) -> Iterator[World]:
    """A world in a temporary directory (under `parent`, else the system's), gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="turntree-bench-", dir=parent) as root:
        yield World(Path(root).resolve(), rounds, big)


def _require_room(where: Path, size: int) -> None:
    """Twice the size must be free: what is measured makes copies."""
    free = shutil.disk_usage(where).free
    if free < 2 * size + (1 << 28):
        raise SystemExit(
            f"bench: {2 * size / 1e9:.1f} GB are needed in {where} and {free / 1e9:.1f} GB are free"
            "; --directory names another place."
        )
