"""undo and redo: taking a rewind or a fork back, and back again."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from pathlib import Path

from session import effects
from session.agents.base import Cut, History
from session.catalog import Located
from session.changing import PlannedChange, carry_out, recording, require_idle
from session.context import Context
from session.effects import Effect, Move
from session.errors import (
    InvalidParams,
    NothingToUndo,
    SessionNotFound,
)
from session.model import (
    Boundary,
    Change,
    Session,
    UndoResult,
)
from session.store import operations
from session.store.operations import OperationRow, digest_of
from session.values import value
from session.work import Work


@value
class Reversal:
    verb: str
    session_id: str | None
    operation_id: str | None
    request_id: str | None
    expect_revision: str | None


async def guarded_session(context: Context, order: Reversal) -> str:
    """The session whose lock a reversal needs."""
    if order.operation_id is None:
        session_id = order.session_id or ""
        context.catalog.agent_of(session_id, order.verb)
        return session_id
    row = await _target_by_id(context, order)
    if order.session_id not in (None, row.session_id, row.new_session_id):
        raise InvalidParams(
            f"operation_id: {order.operation_id} is an operation of another session.",
            field="operation_id",
        )
    return row.new_session_id or row.session_id


async def reverse(context: Context, order: Reversal, work: Work, *, dry_run: bool) -> UndoResult:
    """Undo or redo one operation.  The caller holds the lock of its session."""
    if not dry_run:
        await context.operations.settle_session(await guarded_session(context, order))
    if order.request_id and (done := await _reversed_before(context, order, work)) is not None:
        return done
    row = await _target(context, order)
    wanted = "done" if order.verb == "undo" else "undone"
    if row.state != wanted:
        return await _answer(context, row, "already_done")
    if row.kind in operations.FORKS:
        return await _reverse_fork(context, order, row, work, dry_run)
    located, history = await context.open_for(
        row.session_id, order.verb, order.expect_revision, work
    )
    if order.verb == "redo":
        actual = history.summary.revision
        if actual != row.intent["revision_before"]:
            raise NothingToUndo(
                f"Session {row.session_id} has changed since the undo; the rewind cannot be done "
                "again by redo. Rewind it anew."
            )
    if dry_run:
        return await _answer(context, row, "preview")
    if order.verb == "undo" and await work.in_thread(history.has_live, row.intent["leaf_before"]):
        # An older rewind was taken back before: an undo never takes turns away.
        return await _undo_nothing(context, order, row)
    require_idle(located, None)
    operation_id = order.request_id or uuid.uuid4().hex
    if order.verb == "undo":
        effect, stage = await _undo_effect(context, located, history, row, operation_id, work)
    else:
        effect, stage = await _redo_effect(context, located, history, row, operation_id, work)
    change = PlannedChange(
        operation_id=operation_id,
        kind=order.verb,
        digest=digest_of({"verb": order.verb, "target": row.operation_id}),
        summary=f"{order.verb} of {row.summary}",
        intent={},
        target=row.operation_id,
    )
    applied, after = await carry_out(context, located, history, change, effect, stage, work)
    undone = order.verb == "undo"
    with recording(f"The {order.verb}", row.session_id, operation_id):
        session = await context.catalog.describe(located, after)
        await context.operations.finish_undo(
            operation_id,
            row.operation_id,
            "undone" if undone else "done",
            intent=None if undone else {**row.intent, "effect": applied.to_json()},
            learnt=context.catalog.learnt(located, after),
            durable=False,
        )
    context.announce(Change([row.session_id], "restored" if undone else "rewound"), located.path)
    return UndoResult(row.operation_id, session, [], "undone" if undone else "redone")


async def _undo_nothing(context: Context, order: Reversal, row: OperationRow) -> UndoResult:
    """The turns that a rewind dropped are there already."""
    operation_id = order.request_id or uuid.uuid4().hex
    await context.operations.intend(
        operation_id=operation_id,
        kind="undo",
        session_id=row.session_id,
        target=row.operation_id,
        digest=digest_of({"verb": "undo", "target": row.operation_id}),
        summary=f"undo of {row.summary}",
        intent={},
    )
    await context.operations.finish_undo(operation_id, row.operation_id, "undone")
    return await _answer(context, row, "undone")


async def _undo_effect(
    context: Context,
    located: Located,
    history: History,
    row: OperationRow,
    operation_id: str,
    work: Work,
) -> tuple[Effect | None, Callable[[], Effect]]:
    done = effects.from_json(row.intent["effect"])
    leaf = row.intent["leaf_before"]
    effect = await work.in_thread(located.agent.quick_undo, history, done, leaf)

    def stage() -> Effect:
        return located.agent.staged_undo(
            history,
            done,
            leaf_before=leaf,
            turns_before=row.intent["turns_before"],
            stage=located.agent.stage_folder(history, operation_id),
            archive=context.operations.archive(row.operation_id) / f"after-{operation_id}",
            work=work,
        )

    return effect, stage


async def _redo_effect(
    context: Context,
    located: Located,
    history: History,
    row: OperationRow,
    operation_id: str,
    work: Work,
) -> tuple[Effect | None, Callable[[], Effect]]:
    def planned() -> tuple[Cut, Effect | None]:
        cut = history.cut(Boundary(turn_number=row.intent["kept"]))
        return cut, located.agent.quick_rewind(history, cut)

    cut, effect = await work.in_thread(planned)

    def stage() -> Effect:
        return located.agent.staged_rewind(
            history,
            cut,
            stage=located.agent.stage_folder(history, operation_id),
            archive=context.operations.archive(row.operation_id) / f"before-{operation_id}",
            verb="redo",
            work=work,
        )

    return effect, stage


async def _reverse_fork(
    context: Context, order: Reversal, row: OperationRow, work: Work, dry_run: bool
) -> UndoResult:
    """Undo a fork: the child leaves the agent's store for the archive; redo brings it back."""
    child = row.new_session_id or ""
    agent, native_id = context.catalog.agent_of(child, order.verb)
    if order.verb == "undo" and order.expect_revision is not None:
        await context.open_for(child, order.verb, order.expect_revision, work)
    if dry_run:
        return await _answer(context, row, "preview")
    operation_id = order.request_id or uuid.uuid4().hex
    archive = context.operations.archive(row.operation_id)
    if order.verb == "undo":
        path = agent.locate(native_id)
        if path is not None:
            require_idle(await context.catalog.find(child, "undo"), None)
        owned = agent.belongings(native_id, path) if path else []
        pairs = [[str(p), str(archive / f"{i}-{p.name}")] for i, p in enumerate(owned)]
        pairs = [pair for pair in pairs if Path(pair[0]).exists()]
        move = Move(pairs, returning=False)
    else:
        pairs = [[b, a] for a, b in row.intent.get("moved", [])]
        move = Move(pairs, returning=True)
    located = Located(child, agent, native_id, None, row)
    target_intent = {**row.intent, "moved": pairs if order.verb == "undo" else []}
    change = PlannedChange(
        operation_id=operation_id,
        kind=order.verb,
        digest=digest_of({"verb": order.verb, "target": row.operation_id}),
        summary=f"{order.verb} of {row.summary}",
        intent={"target_intent": target_intent},
        target=row.operation_id,
    )
    history = located.open(work)
    if pairs:
        await carry_out(context, located, history, change, move, lambda: move, work)
    else:
        await context.operations.intend(
            operation_id=operation_id,
            kind=change.kind,
            session_id=child,
            target=row.operation_id,
            digest=change.digest,
            summary=change.summary,
            intent=change.intent,
        )
    state = "undone" if order.verb == "undo" else "done"
    with recording(f"The {order.verb}", child, operation_id):
        await context.operations.finish_undo(
            operation_id, row.operation_id, state, intent=target_intent
        )
    reason = "removed" if order.verb == "undo" else "restored"
    context.announce(Change([child], reason))
    again = await context.operations.get(row.operation_id)
    return await _answer(context, again or row, "undone" if state == "undone" else "redone")


async def _target(context: Context, order: Reversal) -> OperationRow:
    """The operation to reverse: by id, or the session's newest that can be."""
    if order.operation_id is not None:
        return await _target_by_id(context, order)
    session_id = order.session_id or ""
    await context.catalog.find(session_id, order.verb)
    newest = operations.newest_rewind if order.verb == "undo" else operations.newest_undone
    found = await context.store.read(newest, session_id)
    if found is None:
        made = await context.operations.of_child(session_id)
        by_id = ""
        if made is not None and order.verb == "undo" and made.undoable:
            by_id = f" The {made.kind} that made it is undone by operation_id {made.operation_id}."
        raise NothingToUndo(f"Session {session_id} has no rewind to {order.verb}.{by_id}")
    return found


async def _target_by_id(context: Context, order: Reversal) -> OperationRow:
    row = await context.operations.get(order.operation_id or "")
    if row is not None and row.target is not None:
        row = await context.operations.get(row.target)
    if row is None or not (row.undoable or row.state == "undone"):
        raise NothingToUndo(
            f"No operation {order.operation_id} that could be taken back; list_operations "
            "shows which can."
        )
    return row


async def _reversed_before(context: Context, order: Reversal, work: Work) -> UndoResult | None:
    row = await context.operations.get(order.request_id or "")
    if row is None:
        return None
    target = await context.operations.get(row.target or "")
    asked = await context.operations.get(order.operation_id or "")
    other = asked is not None and row.target not in (asked.operation_id, asked.target)
    elsewhere = order.session_id not in (None, row.session_id)
    if row.kind != order.verb or target is None or row.state != "done" or other or elsewhere:
        raise InvalidParams(
            f"request_id: {order.request_id} was used for another request.", field="request_id"
        )
    return await _answer(context, target, "already_done")


async def _answer(context: Context, row: OperationRow, status: str) -> UndoResult:
    session: Session | None = None
    with contextlib.suppress(SessionNotFound):
        session = await context.describe_now(row.new_session_id or row.session_id)
    return UndoResult(row.operation_id, session, [], status)
