"""rewind, undo and redo: changing which turns a session has, losing none of them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from session import effects, osfile
from session.agents.base import Agent, Cut, History
from session.catalog import Located
from session.context import Context
from session.effects import AFTER, Effect, Move
from session.errors import (
    Indeterminate,
    InvalidParams,
    NothingToUndo,
    SessionBusy,
    SessionNotFound,
    StorageError,
    TurnNotFound,
    Unsupported,
)
from session.faults import fault
from session.model import (
    Boundary,
    Change,
    Holder,
    RewindResult,
    RewindTurns,
    Session,
    Turn,
    UndoResult,
    Warn,
)
from session.store import operations
from session.store.operations import OperationRow, digest_of
from session.values import value
from session.work import Work

SHOWN_DROPPED = 500
"""At most this many dropped turns are listed in a result; `turns.removed` counts all."""


@value
class Order:
    session_id: str
    to: Boundary
    operation_id: str | None
    expect_revision: str | None

    @property
    def digest(self) -> str:
        return digest_of({"session_id": self.session_id, "to": self.to})


def require_supported(agent: Agent, mode: str) -> None:
    if mode != "conversation":
        raise Unsupported(
            f"Rewinding files (mode {mode}) is not supported by this version; "
            "mode conversation is.",
            agent=agent.name,
            operation="rewind",
            reason=f"mode {mode} is not built yet",
        )


async def preview(context: Context, order: Order, work: Work) -> RewindResult:
    """What would be dropped; nothing is written."""
    located, history = await context.open_for(
        order.session_id, "rewind", order.expect_revision, work
    )
    cut = await work.in_thread(_cut, history, order)
    session = await context.catalog.describe(located, history)
    dropped = await work.in_thread(_dropped, history, cut)
    kept_all = cut.kept == history.turn_count
    return _result(
        "already_at_target" if kept_all else "preview", None, session, history, cut, dropped
    )


async def rewind(context: Context, order: Order, work: Work) -> RewindResult:
    """Intent, effect, record.  The caller holds the session's lock."""
    await context.operations.settle_session(order.session_id)
    if order.operation_id and (done := await _replayed(context, order, work)) is not None:
        return done
    located, history = await context.open_for(
        order.session_id, "rewind", order.expect_revision, work
    )
    cut = await work.in_thread(_cut, history, order)
    if cut.kept == history.turn_count:
        session = await context.catalog.describe(located, history)
        return _result("already_at_target", order.operation_id, session, history, cut, [])
    to = Boundary(turn_number=cut.kept) if order.to.by is not None else order.to
    _require_idle(located, to)
    _require_published(located)
    dropped = await work.in_thread(_dropped, history, cut)
    operation_id = order.operation_id or uuid.uuid4().hex
    removed = history.turn_count - cut.kept
    change = _Change(
        operation_id=operation_id,
        kind="rewind",
        digest=order.digest,
        summary=f"rewind to {cut.kept} turn{'' if cut.kept == 1 else 's'}, {removed} dropped",
        intent={
            "kept": cut.kept,
            "turns_before": history.turn_count,
            "leaf_before": history.leaf_id,
            "revision_before": history.summary.revision,
        },
    )
    effect = await work.in_thread(located.agent.quick_rewind, history, cut)

    def stage() -> Effect:
        return located.agent.staged_rewind(
            history,
            cut,
            stage=located.agent.stage_folder(history, operation_id),
            archive=context.operations.archive(operation_id) / "before",
            verb="rewind",
            work=work,
        )

    await _carry_out(context, located, history, change, effect, stage, work)
    after = await work.in_thread(located.open, Work())
    session = await context.catalog.describe(located, after)
    result = _result("rewound", operation_id, session, history, cut, dropped)
    with _recording("The rewind", order.session_id, operation_id):
        await context.operations.advance(operation_id, "done", result=result)
    await context.catalog.remember(located, after)
    context.announce(Change([order.session_id], "rewound"), located.path)
    return result


def _cut(history: History, order: Order) -> Cut:
    cut = history.cut(order.to)
    if getattr(cut, "abandoned", False):
        turn_id = order.to.through_turn or order.to.before_turn
        raise TurnNotFound(
            f"Turn {turn_id} is on another branch of this session: fork at it, or undo the rewind "
            "that left it.",
            turn_id=turn_id,
        )
    return cut


def _dropped(history: History, cut: Cut) -> list[Turn]:
    return history.turns(history.dropped_numbers(cut)[:SHOWN_DROPPED])


def _result(
    status: str,
    operation_id: str | None,
    session: Session,
    history: History,
    cut: Cut,
    dropped: list[Turn],
) -> RewindResult:
    removed = history.turn_count - cut.kept
    warnings = []
    if removed > len(dropped) and dropped:
        warnings.append(
            Warn("dropped_cut_short", f"The first {len(dropped)} of {removed} turns are listed.")
        )
    return RewindResult(
        status=status,
        operation_id=operation_id,
        session=session,
        turns=RewindTurns(cut.kept, removed),
        dropped=dropped,
        dropped_prompt=history.dropped_prompt(cut),
        files=[],
        warnings=warnings,
    )


async def _replayed(context: Context, order: Order, work: Work) -> RewindResult | None:
    """The recorded answer of the same operation id; None when it is new."""
    assert order.operation_id is not None
    row = await context.operations.get(order.operation_id)
    if row is None:
        return None
    if row.kind != "rewind" or row.digest != order.digest:
        raise InvalidParams(
            f"operation_id: {order.operation_id} was used for another request.",
            field="operation_id",
        )
    located, history = await context.open_for(order.session_id, "rewind", None, work)
    fields = row.result or {}
    kept = row.intent["kept"]
    return RewindResult(
        status="already_done",
        operation_id=order.operation_id,
        session=await context.catalog.describe(located, history),
        turns=RewindTurns(kept, row.intent["turns_before"] - kept),
        dropped=[Turn(**turn) for turn in fields.get("dropped", ())],
        dropped_prompt=fields.get("dropped_prompt"),
        files=[],
        warnings=[],
    )


def _require_idle(located: Located, to: Boundary | None) -> None:
    """Refuse while another program has the session open; offer the fork that would do instead."""
    live = located.agent.live().get(located.native_id)
    if live is None:
        return
    alternative = None
    if to is not None:
        child = f"{located.agent.name}:{located.agent.new_id()}"
        alternative = {
            "method": "fork_session",
            "params": {
                "session_id": located.session_id,
                "new_session_id": child,
                "at": {k: v for k, v in _fields_of(to).items() if v is not None},
            },
        }
    raise SessionBusy(
        f"Session {located.session_id} is open in {located.agent.name} (pid {live.pid}). "
        "Close it there, or fork instead.",
        holder=Holder(live.pid, osfile.host(), live.since or "", located.agent.name),
        alternative=alternative,
    )


def _fields_of(boundary: Boundary) -> dict[str, Any]:
    """A boundary's fields."""
    return {
        "latest": boundary.latest,
        "through_turn": boundary.through_turn,
        "before_turn": boundary.before_turn,
        "turn_number": boundary.turn_number,
    }


def _require_published(located: Located) -> None:
    if located.staged or located.path is None:
        raise Unsupported(
            f"Session {located.session_id} is staged; promote it before rewinding it.",
            agent=located.agent.name,
            operation="rewind",
            reason="a staged session is rewound by forking again",
        )


@value
class _Change:
    """The row of an operation that is about to change a session's file."""

    operation_id: str
    kind: str
    digest: str
    summary: str
    intent: dict[str, Any]
    target: str | None = None


async def _carry_out(
    context: Context,
    located: Located,
    history: History,
    change: _Change,
    effect: Effect | None,
    stage: Callable[[], Effect],
    work: Work,
) -> Effect:
    """Record the intent, build what must be built, take the step; on failure nothing is left."""
    intent = dict(change.intent)
    if effect is not None:
        intent["effect"] = effect.to_json()
    else:
        intent["stage"] = str(located.agent.stage_folder(history, change.operation_id))
    await context.operations.intend(
        operation_id=change.operation_id,
        kind=change.kind,
        session_id=located.session_id,
        target=change.target,
        digest=change.digest,
        summary=change.summary,
        intent=intent,
    )
    try:
        if effect is None:
            effect = await work.in_thread(stage)
            intent["effect"] = effect.to_json()
            work.checkpoint()
            await context.operations.advance(
                change.operation_id, "intended", intent=intent, durable=True
            )
        fault(f"{change.kind}.intended")
        work.commit()
        await work.in_thread(effect.apply, change.kind)
    except BaseException as error:
        if isinstance(effect, Move):
            with contextlib.suppress(OSError):
                await work.in_thread(effect.take_back)
        if await work.in_thread(_took_place, effect):
            what = f"The {change.kind}"
            raise Indeterminate.after(what, located.session_id, change.operation_id) from error
        with contextlib.suppress(OSError, StorageError):
            if effect is not None:
                await work.in_thread(effect.clean)
            await context.operations.release(change.operation_id)
        if isinstance(error, OSError):
            raise StorageError.from_os(error, f"The {change.kind}") from error
        raise
    return effect


def _took_place(effect: Effect | None) -> bool:
    """Whether a step that failed did its work all the same."""
    if effect is None:
        return False
    with contextlib.suppress(OSError):
        return effect.state() == AFTER
    return False


@contextlib.contextmanager
def _recording(what: str, session_id: str, operation_id: str) -> Iterator[None]:
    """Around the record of something that took place."""
    try:
        yield
    except StorageError as error:
        raise Indeterminate.after(what, session_id, operation_id) from error


# Undo and redo


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
    if row.kind == "fork":
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
    _require_idle(located, None)
    operation_id = order.request_id or uuid.uuid4().hex
    if order.verb == "undo":
        effect, stage = await _undo_effect(context, located, history, row, operation_id, work)
    else:
        effect, stage = await _redo_effect(context, located, history, row, operation_id, work)
    change = _Change(
        operation_id=operation_id,
        kind=order.verb,
        digest=digest_of({"verb": order.verb, "target": row.operation_id}),
        summary=f"{order.verb} of {row.summary}",
        intent={},
        target=row.operation_id,
    )
    applied = await _carry_out(context, located, history, change, effect, stage, work)
    if order.verb == "undo":
        with _recording("The undo", row.session_id, operation_id):
            await context.operations.finish_undo(operation_id, row.operation_id, "undone")
        context.announce(Change([row.session_id], "restored"), located.path)
        return await _answer(context, row, "undone")
    redone = {**row.intent, "effect": applied.to_json()}
    with _recording("The redo", row.session_id, operation_id):
        await context.operations.finish_undo(operation_id, row.operation_id, "done", intent=redone)
    context.announce(Change([row.session_id], "rewound"), located.path)
    return await _answer(context, row, "redone")


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
    cut = await work.in_thread(history.cut, Boundary(turn_number=row.intent["kept"]))
    effect = await work.in_thread(located.agent.quick_rewind, history, cut)

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
    if dry_run:
        return await _answer(context, row, "preview")
    operation_id = order.request_id or uuid.uuid4().hex
    archive = context.operations.archive(row.operation_id)
    if order.verb == "undo":
        path = agent.locate(native_id)
        if path is not None:
            _require_idle(await context.catalog.find(child, "undo"), None)
        owned = agent.belongings(native_id, path) if path else []
        pairs = [[str(p), str(archive / f"{i}-{p.name}")] for i, p in enumerate(owned)]
        pairs = [pair for pair in pairs if Path(pair[0]).exists()]
        move = Move(pairs, returning=False)
    else:
        pairs = [[b, a] for a, b in row.intent.get("moved", [])]
        move = Move(pairs, returning=True)
    located = Located(child, agent, native_id, None, row)
    target_intent = {**row.intent, "moved": pairs if order.verb == "undo" else []}
    change = _Change(
        operation_id=operation_id,
        kind=order.verb,
        digest=digest_of({"verb": order.verb, "target": row.operation_id}),
        summary=f"{order.verb} of {row.summary}",
        intent={"target_intent": target_intent},
        target=row.operation_id,
    )
    history = located.open(work)
    if pairs:
        await _carry_out(context, located, history, change, move, lambda: move, work)
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
    with _recording(f"The {order.verb}", child, operation_id):
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
    rows = await context.store.run(lambda c: list(operations.of_session(c, session_id)))
    if order.verb == "undo":
        found = next((r for r in rows if r.kind == "rewind" and r.state == "done"), None)
    else:
        undone = {r.operation_id: r for r in rows if r.kind == "rewind" and r.state == "undone"}
        found = next(
            (undone[r.target] for r in rows if r.kind == "undo" and r.target in undone), None
        )
    if found is None:
        raise NothingToUndo(f"Session {session_id} has no rewind to {order.verb}.")
    return found


async def _target_by_id(context: Context, order: Reversal) -> OperationRow:
    row = await context.operations.get(order.operation_id or "")
    if row is not None and row.target is not None:
        row = await context.operations.get(row.target)
    if row is None or row.state not in ("done", "undone"):
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
    if row.kind != order.verb or target is None or row.state != "done":
        raise InvalidParams(
            f"request_id: {order.request_id} was used for another request.", field="request_id"
        )
    return await _answer(context, target, "already_done")


async def _answer(context: Context, row: OperationRow, status: str) -> UndoResult:
    session: Session | None = None
    with contextlib.suppress(SessionNotFound):
        session = await context.describe_now(row.new_session_id or row.session_id)
    return UndoResult(row.operation_id, session, [], status)
