"""The two ways to Turntree's database: the thread of its own, and reading at once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio

from session.errors import StorageError
from session.store.database import Store, transaction


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path)
    yield store
    await store.close()


def add_fork(connection: sqlite3.Connection, child: str) -> None:
    with transaction(connection, durable=False):
        connection.execute("INSERT INTO forks VALUES (?, 'p', NULL, NULL, '', '')", (child,))


def forks(connection: sqlite3.Connection) -> list[str]:
    return [child for (child,) in connection.execute("SELECT child FROM forks ORDER BY child")]


def failing(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT * FROM no_such_table")


async def test_reading_at_once_sees_what_was_written_before(store: Store) -> None:
    for child in ("one", "two"):
        await store.run(add_fork, child)
        assert (await store.read(forks))[-1] == child


async def test_reading_at_once_waits_for_nothing_while_another_process_writes(
    store: Store,
) -> None:
    await store.run(add_fork, "before")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO forks VALUES ('during', 'p', NULL, NULL, '', '')")
        step = store.read(forks)
        with pytest.raises(StopIteration) as done:
            step.send(None)
        assert done.value.value == ["before"]
        other.execute("COMMIT")
    assert await store.read(forks) == ["before", "during"]


async def test_reading_that_cannot_be_done_at_once_is_done_on_the_thread(store: Store) -> None:
    await store.run(add_fork, "child")
    assert store._reader is not None
    store._reader.close()
    assert await store.read(forks) == ["child"]


async def test_an_error_of_reading_at_once_is_told_as_any_other(store: Store) -> None:
    with pytest.raises(StorageError, match="no_such_table"):
        await store.read(failing)


async def test_a_store_that_may_not_be_written_is_read_on_the_thread(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = await Store.open(tmp_path / "file" / "home")
    assert store.refusal is not None
    assert await store.read(forks) == []
    await store.close()


async def test_what_runs_on_the_thread_has_ended_when_a_cancelled_call_returns(
    store: Store,
) -> None:
    steps = []

    def slow(connection: sqlite3.Connection) -> None:
        steps.append("begun")
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n"
            " WHERE i < 300000) SELECT max(i) FROM n"
        ).fetchone()
        steps.append("ended")

    task = asyncio.create_task(store.run(slow))
    while not steps:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["begun", "ended"]


async def test_closing_leaves_the_database_in_one_file(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    await store.run(add_fork, "child")
    assert await store.read(forks) == ["child"]
    await store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["turntree.db"]
