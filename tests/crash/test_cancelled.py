"""`$/cancelRequest`: before its publish step a request leaves nothing, past it it is answered."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from tests.client import Client, RpcError, wait_until
from tests.crash.forks import Fork, StagedFork
from tests.crash.remains import Remains, check_clean, operations
from tests.crash.repairs import Repair
from tests.world import World


class SlowFork(Fork):
    """A fork that waits for a file it copies: the meta file of its subagent is a FIFO."""

    def __init__(self, world: World, number: int = 1) -> None:
        super().__init__(world, number)
        name = next(n for n in self.transcript.files if n.endswith(".meta.json"))
        self.fifo = self.path.with_suffix("") / name
        self.meta = self.fifo.read_bytes()
        self.fifo.unlink()
        os.mkfifo(self.fifo)
        self._feed = -1

    def wait_for_the_reader(self) -> None:
        """Until the fork has opened the FIFO; it then waits for what comes through it."""

        def opened() -> bool:
            # Without a reader at the other end this fails.
            with suppress(OSError):
                self._feed = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
            return self._feed >= 0

        wait_until(opened, what="the fork read the FIFO")

    def let_go(self) -> None:
        """Feed the FIFO; from now on it is a plain file."""
        self.fifo.unlink()
        self.fifo.write_bytes(self.meta)
        os.write(self._feed, self.meta)
        os.close(self._feed)


class SlowStagedFork(SlowFork, StagedFork):
    pass


class SlowRepair(SlowFork, Repair):
    pass


@pytest.mark.parametrize("kind", [SlowFork, SlowStagedFork, SlowRepair])
def test_a_fork_cancelled_before_its_publish_step_leaves_nothing(
    world: World, server: Client, kind: type[SlowFork]
) -> None:
    scene = kind(world)
    request = server.send(*scene.request())
    scene.wait_for_the_reader()
    server.cancel(request)
    assert server.list_sessions()["sessions"], "the server answers meanwhile"
    scene.let_go()
    with pytest.raises(RpcError) as cancelled:
        server.wait(request)
    assert cancelled.value.code == -32800

    assert not list(world.store.rglob(f"*{scene.child_id}*"))
    check_clean(world, server)
    assert {o["state"] for o in operations(server)} == {"discarded"}
    remains = Remains(world)
    scene.check_reply(scene.ask(server), held=False)
    scene.check_new(server)
    remains.check_kept()


@contextmanager
def locked(world: World) -> Iterator[None]:
    """Keep everyone from writing to the database."""
    path = world.state / "turntree.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


def test_a_fork_cancelled_past_its_publish_step_is_answered_as_ever(
    world: World, server: Client
) -> None:
    """The step is recorded in the database, which is held so that it takes a while."""
    for number in range(1, 6):
        scene = SlowFork(world, number)
        request = server.send(*scene.request())
        scene.wait_for_the_reader()
        with locked(world):
            scene.let_go()
            # Nothing outside shows that the step has begun, so this may come too early.
            time.sleep(0.5)
            server.cancel(request)
            time.sleep(0.1)
        try:
            reply = server.wait(request)
        except RpcError as error:
            assert error.code == -32800
            assert not list(world.store.rglob(f"*{scene.child_id}*"))
            continue
        scene.check_reply(reply, held=False)
        scene.check_new(server)
        check_clean(world, server)
        return
    raise AssertionError("each of the forks was cancelled before its publish step")


def test_a_cancelled_request_that_waits_for_a_lock_leaves_nothing(world: World) -> None:
    scene = SlowFork(world)
    with Client(world.env()) as busy, Client(world.env()) as server:
        first = busy.send(*scene.request())
        scene.wait_for_the_reader()
        method, params = scene.request()
        second = server.send(method, {**params, "wait_ms": 60_000})
        server.cancel(second)
        with pytest.raises(RpcError) as cancelled:
            server.wait(second)
        assert cancelled.value.code == -32800
        scene.let_go()
        scene.check_reply(busy.wait(first), held=False)
        scene.check_reply(scene.ask(server), held=True)
        check_clean(world, server)
