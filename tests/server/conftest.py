"""A raw server for the tests of the transport."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.pipes import RawServer
from tests.world import World


@pytest.fixture
def raw(world: World) -> Iterator[RawServer]:
    """A `turntree serve` process to which nothing has been sent."""
    with RawServer(world.env()) as server:
        yield server


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawServer]:
    """One initialized server for a whole module: what breaks it breaks the tests after."""
    with RawServer(World.make(tmp_path_factory.mktemp("lasting")).env()) as server:
        server.initialize()
        yield server
