"""Fixtures of the engine's tests: a service in a world of its own; how long hypothesis looks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from hypothesis import HealthCheck, settings

from session.service import Service
from tests.session.examples import WANTED, examples
from tests.world import World

# The same examples on every run: a run that fails on one machine fails on all.
settings.register_profile(
    "engine",
    deadline=None,
    derandomize=WANTED is None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("engine")


@pytest_asyncio.fixture
async def service(world: World) -> AsyncIterator[Service]:
    """The engine as a process has it, on the world's stores."""
    service = await Service.open(home=world.state)
    yield service
    await service.close()
