"""A server killed with SIGKILL at each fault point: old state or new state, and nothing else."""

from __future__ import annotations

import signal

import pytest

from session.faults import POINTS
from tests.crash.dying import die
from tests.crash.forks import Discard, Fork, Promote, UndoFork
from tests.crash.remains import Remains, check_clean, settle
from tests.crash.rewinds import RedoOfSwap, RewindBySwap
from tests.crash.scene import Scene
from tests.crash.scenes import SCENES
from tests.crash.starting import Heir, Peer, initialize, standby
from tests.server.program import turntree
from tests.world import World

CASES = [(scene, point) for scene in SCENES for point in scene.passes]


def test_every_fault_point_is_on_the_way_of_a_scene() -> None:
    assert {point for _, point in CASES} == set(POINTS)


@pytest.mark.parametrize(
    ("kind", "point"), CASES, ids=[f"{scene.__name__}-{point}" for scene, point in CASES]
)
def test_a_killed_process_leaves_the_old_state_or_the_new_one(
    world: World, kind: type[Scene], point: str
) -> None:
    scene = kind(world)
    remains = die(scene, point)
    held = scene.holds_after(point)
    with Heir(world) as heir:
        check_state(scene, heir, remains, held)
        scene.check_reply(scene.ask(heir), held=held)
        check_state(scene, heir, remains, True)
        scene.undo_all(heir, remains)
        check_clean(world, heir)


def check_state(scene: Scene, client: Peer, remains: Remains, held: bool) -> None:
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


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        (Fork, "fork.staged"),
        (Fork, "fork.validated"),
        (Promote, "promote.sidecars"),
        (Discard, "discard.intended"),
        (RewindBySwap, "rewind.archived"),
        (UndoFork, "undo.archived"),
        (RedoOfSwap, "redo.applied"),
    ],
)
def test_a_server_that_starts_settles_what_another_left(
    world: World, kind: type[Scene], point: str
) -> None:
    scene = kind(world)
    with standby(world) as server:
        remains = die(scene, point)
        initialize(server)
        settle(server)
        check_state(scene, server, remains, scene.holds_after(point))
