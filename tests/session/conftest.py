"""Fixtures of the engine's tests: a service in a world of its own; how long hypothesis looks."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest_asyncio
from hypothesis import HealthCheck, settings

from session.service import Service
from tests.world import World

# The same examples on every run: a run that fails on one machine fails on all.
# TURNTREE_EXAMPLES=2000 looks at so many others, for a search by hand.
EXAMPLES = os.environ.get("TURNTREE_EXAMPLES")
settings.register_profile(
    "engine",
    deadline=None,
    derandomize=EXAMPLES is None,
    max_examples=int(EXAMPLES or 60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("engine")


@pytest_asyncio.fixture
async def service(world: World) -> AsyncIterator[Service]:
    """The engine as a process has it, on the world's stores."""
    service = await Service.open(home=world.state)
    yield service
    await service.close()
