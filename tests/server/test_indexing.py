"""The index that grows behind real servers: deaths, two at once, and who waits for whom."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psutil

from tests.builders import Transcript
from tests.client import Client, wait_until
from tests.world import World

COUNT = 300


def fill(world: World, count: int = COUNT) -> list[str]:
    """A store that no listing counts at once; its session ids."""
    ids = []
    for seed in range(count):
        t = Transcript(str(world.cwd), seed=seed)
        t.turn("one", "x" * 40_000)
        t.turn("two", "y")
        t.write(world.store)
        ids.append(f"claude-code:{t.session_id}")
    return ids


def rows(world: World) -> dict[str, int]:
    """Indexed files as the database has them: path -> rowid, which a second writing changes."""
    with sqlite3.connect(f"file:{world.state / 'turntree.db'}?mode=ro", uri=True) as database:
        found = database.execute("SELECT path, rowid FROM native_files WHERE indexed")
        return dict(found.fetchall())


def pending(client: Client) -> bool:
    return "indexing" in client.list_sessions(limit=1)


def workers(client: Client) -> list[psutil.Process]:
    return psutil.Process(client.process.pid).children()


def test_everything_is_counted_behind_and_told_in_few_notices(world: World) -> None:
    ids = fill(world)
    with Client(world.env()) as client:
        first = client.list_sessions(limit=1)
        assert first["indexing"] == {"done": 0, "total": COUNT}
        wait_until(lambda: not pending(client), what="all was indexed")
        told = [change for change in client.changes() if change["reason"] == "changed"]
        assert {i for change in told for i in change["session_ids"]} == set(ids)
        assert len(told) < 30
        page = client.list_sessions(limit=500)
        assert {s["turn_count"] for s in page["sessions"]} == {2}
        wait_until(lambda: not workers(client), what="its process ended")


def test_what_was_committed_before_a_death_is_not_done_again(world: World, tmp_path: Path) -> None:
    fill(world)
    ready = tmp_path / "ready"
    fault = {"TURNTREE_FAULT": "index.committed:halt", "TURNTREE_FAULT_READY": str(ready)}
    client = Client({**world.env(), **fault})
    wait_until(ready.exists, what="the first commit")
    (worker,) = workers(client)
    client.kill()
    wait_until(lambda: not worker.is_running(), what="the worker ended with its server")
    before = rows(world)
    assert 0 < len(before) < COUNT
    with Client(world.env()) as heir:
        wait_until(lambda: not pending(heir), what="the rest was indexed")
    after = rows(world)
    assert len(after) == COUNT
    assert before.items() <= after.items()


def test_of_two_servers_one_has_the_work_done_and_the_other_takes_over(
    world: World, tmp_path: Path
) -> None:
    fill(world)
    ready = tmp_path / "ready"
    fault = {"TURNTREE_FAULT": "index.committed:halt", "TURNTREE_FAULT_READY": str(ready)}
    first = Client({**world.env(), **fault})
    wait_until(ready.exists, what="the first commit")
    with Client(world.env()) as second:
        wait_until(lambda: workers(second), what="the second has a worker, too")
        # It waits, and is no trouble; what the first one's has committed is known here.
        assert second.list_sessions(limit=1)["indexing"]["total"] == COUNT
        before = rows(world)
        assert 0 < len(before) < COUNT
        wait_until(
            lambda: second.list_sessions(limit=1)["indexing"]["done"] == len(before),
            what="it knows what the other did",
        )
        assert rows(world) == before
        first.kill()
        wait_until(lambda: not pending(second), what="it took over")
    assert before.items() <= rows(world).items()


def test_a_server_that_leaves_takes_its_worker_along(world: World, tmp_path: Path) -> None:
    fill(world)
    ready = tmp_path / "ready"
    fault = {"TURNTREE_FAULT": "index.committed:halt", "TURNTREE_FAULT_READY": str(ready)}
    with Client({**world.env(), **fault}) as client:
        wait_until(ready.exists, what="the first commit")
        (worker,) = workers(client)
        assert client.close() == 0
    assert not worker.is_running()


def test_a_worker_that_dies_harms_no_request(world: World) -> None:
    ids = fill(world)
    with Client({**world.env(), "TURNTREE_FAULT": "index.committed"}) as client:
        assert pending(client)
        for session_id in ids[:3]:
            assert client.get_session(session_id=session_id)["session"]["turn_count"] == 2
        wait_until(lambda: rows(world), what="the first commit, at which it dies")
        assert len(client.list_sessions(limit=500)["sessions"]) == COUNT
