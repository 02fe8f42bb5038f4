"""The sweep and its limits: a living process's work is its own, a dead one's is settled."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from session import osfile
from tests.client import PATIENCE, Client, RpcError, wait_until
from tests.crash.dying import die
from tests.crash.forks import Discard, Fork, Promote, StagedFork, UndoFork
from tests.crash.remains import Remains, check_clean, operations, settle
from tests.crash.rewinds import RedoOfSwap, Rewind, RewindBySwap, Undo, UndoOfSwap
from tests.crash.scene import Scene
from tests.crash.starting import Heir, initialize, standby
from tests.server.program import turntree
from tests.world import World


def sweep(scene: Scene) -> None:
    """A command that sweeps first and then changes nothing."""
    ran = turntree(scene.world, "fork", scene.session, "--at", "1", "--dry-run", "--json")
    assert ran.code == 0, ran.out + ran.err


@contextmanager
def halted(scene: Scene, point: str) -> Iterator[Client]:
    """A server that stands still at `point`, in the middle of the scene's request."""
    ready = scene.world.home / "halted"
    fault = {"TURNTREE_FAULT": f"{point}:halt", "TURNTREE_FAULT_READY": str(ready)}
    with Client({**scene.world.env(), **fault}) as server:
        scene.lead_up(server)
        server.send(*scene.request())
        wait_until(ready.exists, what=f"the server was at {point}")
        yield server
        server.kill()


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        (Fork, "fork.copied"),
        (Fork, "fork.sidecars"),
        (StagedFork, "fork.validated"),
        (Promote, "promote.sidecars"),
        (Discard, "discard.intended"),
        (Rewind, "rewind.intended"),
        (RewindBySwap, "rewind.archived"),
        (UndoFork, "undo.archived"),
        (UndoOfSwap, "undo.staged"),
        (RedoOfSwap, "redo.archived"),
    ],
)
def test_the_sweep_leaves_the_work_of_a_living_process_alone(
    world: World, kind: type[Scene], point: str
) -> None:
    scene = kind(world)
    with standby(world) as other:
        with halted(scene, point) as busy:
            remains = Remains(world)
            initialize(other)
            at_work = operations(other)

            sweep(scene)

            remains.check_as_before()
            assert operations(other) == at_work
            with pytest.raises(RpcError) as refused:
                method, params = scene.request()
                other.call(method, {**params, "wait_ms": 0})
            assert refused.value.kind == "session_busy"
            holder = refused.value.data["holder"]
            assert (holder["pid"], holder["program"]) == (busy.process.pid, "turntree serve")
            remains.check_as_before()

        sweep(scene)

        held = scene.holds_after(point)
        settle(other, scene.waits(held))
        scene.check_reply(scene.ask(other), held=held)
        scene.check_new(other)
        check_clean(world, other, staged=scene.leaves_stage(True))


def owned_by(world: World, pid: int, start: str, host: str) -> None:
    """Make the one unfinished operation that of another process."""
    with sqlite3.connect(world.state / "turntree.db") as database:
        changed = database.execute(
            "UPDATE operations SET owner_pid=?, owner_start=?, owner_host=? WHERE state='intended'",
            (pid, start, host),
        )
        assert changed.rowcount == 1
    database.close()


def test_a_pid_that_is_used_again_is_another_process(world: World) -> None:
    scene = Fork(world)
    remains = Remains(world)
    die(scene, "fork.validated")
    start = osfile.process_start(os.getpid())
    assert start is not None

    owned_by(world, os.getpid(), start, osfile.host())
    sweep(scene)
    assert list(world.store.rglob(".turntree-*"))

    owned_by(world, os.getpid(), str(int(start) + 1), osfile.host())
    sweep(scene)
    remains.check_as_before()


def test_the_work_of_another_machine_is_left_alone(world: World) -> None:
    scene = Fork(world)
    die(scene, "fork.validated")
    owned_by(world, os.getpid(), "1", "another-machine")
    sweep(scene)
    assert list(world.store.rglob(".turntree-*"))


def test_an_operation_id_in_use_on_another_session_is_refused_and_left_alone(world: World) -> None:
    scene, other = Rewind(world), Rewind(world, 2)
    with standby(world) as server, halted(scene, "rewind.intended"):
        remains = Remains(world)
        initialize(server)
        at_work = operations(server)
        with pytest.raises(RpcError) as refused:
            server.rewind(session_id=other.session, to={"turn_number": 1}, operation_id=scene.id)
        assert refused.value.code == -32602
        assert refused.value.data["field"] == "operation_id"
        assert operations(server) == at_work
        remains.check_as_before()


@pytest.mark.parametrize(("hours", "stays"), [(23, True), (25, False)])
def test_a_staged_session_is_discarded_after_a_day(
    server: Client, world: World, hours: int, stays: bool
) -> None:
    scene = StagedFork(world)
    remains = Remains(world)
    scene.ask(server)
    with sqlite3.connect(world.state / "turntree.db") as database:
        database.execute(
            "UPDATE operations SET created_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)",
            (f"-{hours} hours",),
        )
    database.close()

    sweep(scene)

    if stays:
        scene.check_new(server)
    else:
        remains.check_as_before()
        assert [o["state"] for o in operations(server)] == ["discarded"]
        with pytest.raises(RpcError) as taken:
            scene.ask(server)
        assert taken.value.kind == "session_exists"


def test_a_server_takes_back_what_another_did_and_did_not_live_to_record(
    world: World, server: Client
) -> None:
    scene = Rewind(world)
    die(scene, "rewind.applied")
    assert server.undo(session_id=scene.session)["status"] == "undone"
    assert scene.path.read_bytes() == scene.original


def test_a_rewind_that_died_before_its_effect_is_not_counted_when_it_is_made_again(
    world: World, server: Client
) -> None:
    scene = Rewind(world)
    die(scene, "rewind.intended")
    server.rewind(session_id=scene.session, to={"turn_number": 2})
    sweep(scene)
    rewinds = [o for o in operations(server) if o["kind"] == "rewind" and o["state"] == "done"]
    assert len(rewinds) == 1
    assert server.undo(session_id=scene.session)["status"] == "undone"
    with pytest.raises(RpcError) as nothing:
        server.undo(session_id=scene.session)
    assert nothing.value.kind == "nothing_to_undo"
    assert scene.path.read_bytes() == scene.original


@pytest.mark.parametrize("point", ["fork.sidecars", "fork.published"])
def test_a_sweep_that_dies_is_finished_by_the_next(world: World, point: str) -> None:
    scene = Fork(world)
    remains = die(scene, "fork.staged")
    with standby(world) as heir:
        with Client({**world.env(), "TURNTREE_FAULT": point}) as sweeping:
            assert sweeping.process.wait(PATIENCE) == -signal.SIGKILL
        initialize(heir)
        settle(heir)
        scene.check_new(heir)
        remains.check_kept()
        check_clean(world, heir)


def test_one_operation_that_cannot_be_finished_does_not_stop_the_others(world: World) -> None:
    taken, next_one = Fork(world), Fork(world, 2)
    die(taken, "fork.staged")
    foreign = taken.path.with_name(f"{taken.child_id}.jsonl")
    foreign.write_bytes(next_one.original)
    die(next_one, "fork.sidecars")
    with Heir(world) as heir:
        next_one.check_new(heir)
        assert foreign.read_bytes() == next_one.original
        with pytest.raises(RpcError) as exists:
            taken.ask(heir)
        assert exists.value.kind == "session_exists"
        check_clean(world, heir)


def test_a_promised_child_whose_stage_is_gone_is_not_said_to_exist(world: World) -> None:
    scene = Fork(world)
    remains = Remains(world)
    die(scene, "fork.staged")
    (stage,) = world.store.glob("projects/*/.turntree-*")
    osfile.remove_tree(stage)
    with Heir(world) as heir:
        remains.check_as_before()
        with pytest.raises(RpcError) as missing:
            heir.get_session(session_id=scene.child)
        assert missing.value.kind == "session_not_found"
        scene.check_reply(scene.ask(heir), held=False)
        scene.check_new(heir)


@pytest.mark.parametrize(
    ("kind", "point", "kept"),
    [
        (Rewind, "rewind.intended", 5),
        (Rewind, "rewind.applied", 2),
        (RewindBySwap, "rewind.archived", 5),
        (RewindBySwap, "rewind.applied", 2),
        (Undo, "undo.intended", 2),
        (Undo, "undo.applied", 5),
        (UndoOfSwap, "undo.archived", 2),
        (UndoOfSwap, "undo.applied", 5),
    ],
)
def test_what_the_agent_adds_before_the_sweep_is_kept(
    world: World, kind: type[Rewind], point: str, kept: int
) -> None:
    scene = kind(world)
    die(scene, point)
    added = scene.go_on(kept)
    with Heir(world) as heir:
        assert scene.shown_turns(heir, scene.session) == [*scene.turns[:kept], added]
        check_clean(world, heir)
        rewound = kept == 2
        if rewound:
            assert heir.undo(session_id=scene.session)["status"] == "undone"
        else:
            with pytest.raises(RpcError) as nothing:
                heir.undo(session_id=scene.session)
            assert nothing.value.kind == "nothing_to_undo"
        expected = scene.turns if rewound else [*scene.turns, added]
        assert scene.shown_turns(heir, scene.session) == expected
        every = heir.list_turns(session_id=scene.session, branch="all")["turns"]
        assert {turn["turn_id"] for turn in every} == {*scene.turns, added}
