"""A server that dies in the middle of a request."""

from __future__ import annotations

import signal

from tests.client import PATIENCE, Client
from tests.crash.remains import Remains
from tests.crash.scene import Scene


def die(scene: Scene, point: str) -> Remains:
    """Let a server die at `point` of the scene's request; the store right before the request."""
    with Client({**scene.world.env(), "TURNTREE_FAULT": point}) as victim:
        scene.lead_up(victim)
        remains = Remains(scene.world)
        victim.send(*scene.request())
        assert victim.process.wait(PATIENCE) == -signal.SIGKILL
    return remains
