"""Fixtures that every test may use: a world of its own, and a server in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client import Client
from tests.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An empty world with CLAUDE_CONFIG_DIR unset; this process is moved into it too."""
    world = World.make(tmp_path)
    _enter(world, monkeypatch)
    return world


@pytest.fixture
def configured_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An empty world with CLAUDE_CONFIG_DIR set."""
    world = World.make(tmp_path).configured()
    _enter(world, monkeypatch)
    return world


def _enter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("CLAUDE", "ANTHROPIC", "TURNTREE", "XDG_", "GIT_")):
            monkeypatch.delenv(name)
    for name, value in world.env().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def server(world: World) -> Iterator[Client]:
    """A `turntree serve` process in the world, initialized."""
    with Client(world.env(), cwd=world.cwd) as client:
        yield client
