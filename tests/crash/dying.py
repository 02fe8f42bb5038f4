"""A server that dies in the middle of a request, and an agent that goes on meanwhile."""

from __future__ import annotations

import signal

from tests.chain import to_json
from tests.client import PATIENCE, Client
from tests.crash.remains import Remains
from tests.crash.scenes import Scene


def die(scene: Scene, point: str) -> Remains:
    """Let a server die at `point` of the scene's request; the store right before the request."""
    with Client({**scene.world.env(), "TURNTREE_FAULT": point}) as victim:
        scene.lead_up(victim)
        remains = Remains(scene.world)
        victim.send(*scene.request())
        assert victim.process.wait(PATIENCE) == -signal.SIGKILL
    return remains


def append_turn(scene: Scene, parent: str) -> str:
    """What the agent writes when a person goes on below `parent`; the new turn's id."""
    t = scene.transcript
    known = len(t.records)
    t.branch_from(parent)
    added = t.turn("one more question", "one more answer")
    with scene.path.open("ab") as file:
        for record in t.records[known:]:
            assert isinstance(record, dict)
            file.write(to_json(record) + b"\n")
    return added


def last_record(scene: Scene, turns: int) -> str:
    """The uuid of the last record of the first `turns` turns."""
    records = scene.transcript.messages()
    if turns == len(scene.turns):
        return str(records[-1]["uuid"])
    after = next(at for at, r in enumerate(records) if r["uuid"] == scene.turns[turns])
    return str(records[after - 1]["uuid"])
