"""Rows of the operation log.  Each function takes the connection and does one thing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from session import osfile
from session.later import later
from session.model import Operation, OperationPage, fields_of
from session.store.database import transaction
from session.values import value

if TYPE_CHECKING:
    import hashlib
else:
    # Only what is written is digested.
    hashlib = later("hashlib")


FORKS = ("fork", "repair")
"""Kinds of operations that make a child."""


@value
class OperationRow:
    seq: int
    operation_id: str
    kind: str
    session_id: str
    new_session_id: str | None
    target: str | None
    state: str
    digest: str
    summary: str
    intent: dict[str, Any]
    result: dict[str, Any] | None
    owner_pid: int
    owner_start: str
    owner_host: str
    created_at: str
    updated_at: str

    @property
    def undoable(self) -> bool:
        """Whether it changed something that can be taken back."""
        changed = self.kind in FORKS or (self.kind == "rewind" and "effect" in self.intent)
        return changed and self.state == "done"

    @property
    def owner_lives(self) -> bool:
        """Whether the process that is at work on it may still be; another host's always may."""
        if self.owner_host != osfile.host():
            return True
        return osfile.process_start(self.owner_pid) == self.owner_start


def digest_of(request: dict[str, Any]) -> str:
    """Names a request's content, whatever the order of its fields."""
    data = orjson.dumps(request, default=fields_of, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(data).hexdigest()


def insert(
    connection: sqlite3.Connection,
    *,
    operation_id: str,
    kind: str,
    session_id: str,
    digest: str,
    summary: str,
    intent: dict[str, Any],
    new_session_id: str | None = None,
    target: str | None = None,
) -> None:
    """Record a durable intent, before the first outside effect.

    Raises `sqlite3.IntegrityError` when the operation id or the child's id is taken.
    """
    now = osfile.utc()
    payload = orjson.dumps(intent, default=fields_of)
    with transaction(connection):
        connection.execute(
            "INSERT INTO operations (operation_id, kind, session_id, new_session_id, target, state,"
            " digest, summary, intent, owner_pid, owner_start, owner_host, created_at, updated_at)"
            " VALUES (?,?,?,?,?,'intended',?,?,?,?,?,?,?,?)",
            (
                operation_id,
                kind,
                session_id,
                new_session_id,
                target,
                digest,
                summary,
                payload,
                *_this_process(),
                now,
                now,
            ),
        )
        _transition(connection, operation_id, "intended", payload, now)


def advance(
    connection: sqlite3.Connection,
    operation_id: str,
    state: str,
    *,
    result: Any = None,
    intent: dict[str, Any] | None = None,
    durable: bool = False,
) -> None:
    """Move an operation to `state`, with its answer and what a later step needs."""
    with transaction(connection, durable=durable):
        advance_within(connection, operation_id, state, result=result, intent=intent)


def advance_within(
    connection: sqlite3.Connection,
    operation_id: str,
    state: str,
    *,
    result: Any = None,
    intent: dict[str, Any] | None = None,
) -> None:
    """`advance` inside a transaction of the caller's."""
    now = osfile.utc()
    answer = None if result is None else orjson.dumps(result, default=fields_of)
    new_intent = None if intent is None else orjson.dumps(intent, default=fields_of)
    connection.execute(
        "UPDATE operations SET state=?, updated_at=?, result=coalesce(?, result),"
        " intent=coalesce(?, intent) WHERE operation_id=?",
        (state, now, answer, new_intent, operation_id),
    )
    _transition(connection, operation_id, state, answer or new_intent or b"", now)


def release(connection: sqlite3.Connection, operation_id: str) -> None:
    """Roll an operation back that had no effect: its ids are free again, its row stays."""
    with transaction(connection):
        connection.execute(
            "UPDATE operations SET state='discarded', new_session_id=NULL,"
            " operation_id=operation_id || '~' || seq, updated_at=? WHERE operation_id=?",
            (osfile.utc(), operation_id),
        )


def own_within(connection: sqlite3.Connection, operation_id: str) -> None:
    """Make this process the owner, inside a transaction of the caller's."""
    connection.execute(
        "UPDATE operations SET owner_pid=?, owner_start=?, owner_host=? WHERE operation_id=?",
        (*_this_process(), operation_id),
    )


def _this_process() -> tuple[int, str, str]:
    """Pid, start and host, by which others will know whether the owner still lives."""
    global _SELF
    if _SELF is None or _SELF[0] != os.getpid():
        pid = os.getpid()
        _SELF = (pid, osfile.process_start(pid) or "", osfile.host())
    return _SELF


_SELF: tuple[int, str, str] | None = None


def get(connection: sqlite3.Connection, operation_id: str) -> OperationRow | None:
    return _one(connection, "operation_id=?", operation_id)


def of_child(connection: sqlite3.Connection, new_session_id: str) -> OperationRow | None:
    """The operation that claimed a child's id."""
    return _one(connection, "new_session_id=?", new_session_id)


def unfinished(connection: sqlite3.Connection) -> list[OperationRow]:
    return list(_rows(connection, "state IN ('intended', 'staged', 'indeterminate') ORDER BY seq"))


def unfinished_of(connection: sqlite3.Connection, session_id: str) -> list[OperationRow]:
    """Unfinished operations under this session's lock: its own changes, and its making."""
    return list(
        _rows(
            connection,
            "(state='intended' OR (state='staged' AND json_extract(intent, '$.staged')=0))"
            " AND ((kind NOT IN ('fork', 'repair') AND session_id=?) OR new_session_id=?)"
            " ORDER BY seq",
            session_id,
            session_id,
        )
    )


def children_without_file(connection: sqlite3.Connection) -> list[OperationRow]:
    """Forks that are staged, or that kept no turn and so have no file."""
    return list(
        _rows(
            connection,
            "kind IN ('fork', 'repair') AND new_session_id IS NOT NULL AND (state='staged'"
            " OR (state='done' AND json_extract(intent, '$.stage.destination') IS NULL))"
            " ORDER BY seq",
        )
    )


def newest_rewind(connection: sqlite3.Connection, session_id: str) -> OperationRow | None:
    """The newest rewind of a session that stands and changed something."""
    return _one(
        connection,
        "session_id=? AND kind='rewind' AND state='done'"
        " AND json_extract(intent, '$.effect') IS NOT NULL ORDER BY seq DESC LIMIT 1",
        session_id,
    )


def newest_undone(connection: sqlite3.Connection, session_id: str) -> OperationRow | None:
    """The rewind of a session that was undone last and still is."""
    return _one(
        connection,
        "operation_id = (SELECT undo.target FROM operations undo JOIN operations rewind"
        " ON rewind.operation_id=undo.target AND rewind.kind='rewind' AND rewind.state='undone'"
        " WHERE undo.session_id=? AND undo.kind='undo' ORDER BY undo.seq DESC LIMIT 1)",
        session_id,
    )


def page(
    connection: sqlite3.Connection, session_id: str | None, before: int | None, limit: int
) -> OperationPage:
    """Newest first, of one session (as source or child) or of all, below sequence `before`."""
    where, values = "seq < ?", [before if before is not None else 1 << 62]
    if session_id is not None:
        where += " AND (session_id=? OR new_session_id=?)"
        values += [session_id, session_id]  # type: ignore[list-item]
    found = connection.execute(
        "SELECT seq, operation_id, kind, session_id, new_session_id, state, created_at, summary,"
        " state='done' AND (kind IN ('fork', 'repair') OR (kind='rewind'"
        " AND json_extract(intent, '$.effect') IS NOT NULL))"
        f" FROM operations WHERE {where} ORDER BY seq DESC LIMIT ?",
        (*values, limit + 1),
    ).fetchall()
    return OperationPage(
        operations=[
            Operation(
                operation_id=operation_id.partition("~")[0],
                kind=kind,
                session_id=source,
                new_session_id=child,
                state=state,
                at=at,
                summary=summary,
                undoable=bool(undoable),
            )
            for _, operation_id, kind, source, child, state, at, summary, undoable in found[:limit]
        ],
        next_cursor=str(found[limit - 1]["seq"]) if len(found) > limit else None,
    )


def _transition(
    connection: sqlite3.Connection, operation_id: str, state: str, payload: bytes, at: str
) -> None:
    connection.execute(
        "INSERT INTO transitions (operation_id, state, at, digest) VALUES (?,?,?,?)",
        (operation_id, state, at, hashlib.sha256(payload).hexdigest()),
    )


def _rows(connection: sqlite3.Connection, where: str, *values: Any) -> Iterator[OperationRow]:
    for row in connection.execute(f"SELECT * FROM operations WHERE {where}", values):
        fields = dict(row)
        fields["intent"] = orjson.loads(fields["intent"])
        fields["result"] = None if fields["result"] is None else orjson.loads(fields["result"])
        yield OperationRow(**fields)


def _one(connection: sqlite3.Connection, where: str, *values: Any) -> OperationRow | None:
    # Read to its end: a cursor that is left open would hold on to an old state.
    rows = list(_rows(connection, where, *values))
    return rows[0] if rows else None
