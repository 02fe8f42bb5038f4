"""A server killed with SIGKILL at each fault point: old state or new state, and nothing else."""

from __future__ import annotations

import signal

import pytest

from session.faults import POINTS
from tests.client import Client
from tests.crash.dying import die
from tests.crash.remains import Remains, check_clean, settle
from tests.crash.scenes import SCENES, Fork, Scene
from tests.crash.starting import Heir, initialize, standby
from tests.server.program import turntree
from tests.world import World

CASES = [(scene, point) for scene in SCENES for point in scene.dies_at or scene.passes]


def test_every_fault_point_is_on_the_way_of_a_scene() -> None:
    assert {point for _, point in CASES} == set(POINTS)


@pytest.mark.parametrize(
    ("kind", "point"), CASES, ids=[f"{scene.__name__}-{point}" for scene, point in CASES]
)
def test_a_killed_process_leaves_the_old_state_or_the_new_one(
    world: World, kind: type[Scene], point: str
) -> None:
    scene = kind(world)
    with standby(world) as heir:
        remains = die(scene, point)
        initialize(heir)
        held = scene.holds_after(point)
        settle(heir, scene.waits(held))
        check_state(scene, heir, remains, held)

        scene.check_reply(scene.ask(heir), held=held)
        check_state(scene, heir, remains, True)
        scene.undo_all(heir, remains)
        check_clean(world, heir)


def check_state(scene: Scene, client: Client, remains: Remains, held: bool) -> None:
    if held:
        scene.check_new(client)
        remains.check_kept(scene.changes)
    else:
        remains.check_as_before()
    check_clean(scene.world, client, staged=scene.leaves_stage(held))


@pytest.mark.parametrize("point", ["fork.validated", "fork.sidecars", "fork.published"])
def test_a_killed_command_is_settled_by_the_next_command(world: World, point: str) -> None:
    scene = Fork(world)
    remains = Remains(world)
    command = ("fork", scene.session, "--at", "3", "--id", scene.child_id, "--json")
    assert turntree(world, *command, env={"TURNTREE_FAULT": point}).code == -signal.SIGKILL

    again = turntree(world, *command)

    assert again.code == 0, again.out + again.err
    scene.check_reply(again.json, held=scene.holds_after(point))
    remains.check_kept()
    with Heir(world) as heir:
        scene.check_new(heir)
        check_clean(world, heir)
