"""Who was forked from whom, as far as Turntree made the fork."""

from __future__ import annotations

import sqlite3

from session.values import value


@value
class ForkRow:
    child: str
    parent: str
    turn_id: str | None
    turn_number: int | None
    created_at: str
    operation_id: str


def insert_within(connection: sqlite3.Connection, row: ForkRow) -> None:
    """Inside a transaction of the caller's; repeating it changes nothing."""
    connection.execute(
        "INSERT OR REPLACE INTO forks (child, parent, turn_id, turn_number, created_at,"
        " operation_id) VALUES (?,?,?,?,?,?)",
        (row.child, row.parent, row.turn_id, row.turn_number, row.created_at, row.operation_id),
    )


def all_forks(connection: sqlite3.Connection) -> dict[str, ForkRow]:
    return {row["child"]: ForkRow(**dict(row)) for row in connection.execute("SELECT * FROM forks")}


def fork_of(connection: sqlite3.Connection, child: str) -> ForkRow | None:
    row = connection.execute("SELECT * FROM forks WHERE child=?", (child,)).fetchone()
    return ForkRow(**dict(row)) if row else None
