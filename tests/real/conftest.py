"""The real `claude` in a test's world, answered by a scripted model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rig.claude import Claude
from tests.rig.model import Model
from tests.world import World


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture
def claude(world: World, model: Model) -> Claude:
    return Claude(model, world.home, world.config_dir)
