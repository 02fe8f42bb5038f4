"""A step that fails instead of killing: a typed error, and a state that it tells the truth of."""

from __future__ import annotations

import errno

import pytest

from session.faults import POINTS
from tests.client import Client, RpcError
from tests.crash.forks import Discard
from tests.crash.remains import Remains, check_clean
from tests.crash.scene import Scene
from tests.crash.scenes import SCENES
from tests.crash.starting import Heir
from tests.world import World

ERRORS = ("ENOSPC", "EIO")


@pytest.mark.parametrize(
    ("point", "error"), [(point, ERRORS[at % 2]) for at, point in enumerate(POINTS)]
)
def test_a_failing_step_is_told_as_it_is(world: World, point: str, error: str) -> None:
    """`storage_error` means the old state, at once; `indeterminate` the new one, after a sweep."""
    kinds = [kind for kind in SCENES if point in kind.passes]
    scenes = [kind(world, number) for number, kind in enumerate(kinds, 1)]
    with Client({**world.env(), "TURNTREE_FAULT": f"{point}:{error}"}) as server:
        for scene in scenes:
            scene.lead_up(server)
        remains = Remains(world)
        held = [scene for scene in scenes if took_place(scene, point, error, server)]
        check_state(remains, scenes, held)

    with Heir(world) as heir:
        check_state(remains, scenes, held)
        staged = any(scene.leaves_stage(scene in held) for scene in scenes)
        check_clean(world, heir, staged=staged)

        for scene in scenes:
            if scene in held:
                scene.check_new(heir)
            scene.check_reply(scene.ask(heir), held=scene in held)
            scene.check_new(heir)
        check_clean(world, heir, staged=any(scene.leaves_stage(True) for scene in scenes))


def took_place(scene: Scene, point: str, error: str, server: Client) -> bool:
    """Send the request, and read from its error whether it took place."""
    with pytest.raises(RpcError) as failure:
        scene.ask(server)
    if failure.value.kind == "indeterminate":
        assert scene.holds_after(point), f"{type(scene).__name__}: nothing can have happened yet"
        return True
    assert failure.value.kind == "storage_error"
    assert failure.value.data["errno"] == getattr(errno, error)
    assert isinstance(failure.value.data["path"], str)
    # A discarding that began is finished, now or by whoever comes next.
    return isinstance(scene, Discard)


def check_state(remains: Remains, scenes: list[Scene], held: list[Scene]) -> None:
    def belongs(path: str) -> bool:
        return any(scene.changes(path) or scene.adds(path) for scene in held)

    remains.check_as_before(belongs)
