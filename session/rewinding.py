"""rewind: which turns a session goes on from, losing none of them."""

from __future__ import annotations

import uuid

from session.agents.base import Agent, Cut, History
from session.catalog import Located
from session.changing import PlannedChange, carry_out, recording, require_idle
from session.context import Context
from session.effects import Effect
from session.errors import (
    InvalidParams,
    TurnNotFound,
    Unsupported,
)
from session.model import (
    Boundary,
    Change,
    RewindResult,
    RewindTurns,
    Session,
    Turn,
    Warn,
)
from session.store.operations import digest_of
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
    plan = await work.in_thread(_planned, located.agent, history, order)
    session = await context.catalog.describe(located, history)
    return _result("preview" if plan.removed else "already_at_target", None, session, plan)


async def rewind(context: Context, order: Order, work: Work) -> RewindResult:
    """Intent, effect, record.  The caller holds the session's lock."""
    await context.operations.settle_session(order.session_id)
    if order.operation_id and (done := await _replayed(context, order, work)) is not None:
        return done
    located, history = await context.open_for(
        order.session_id, "rewind", order.expect_revision, work
    )
    plan = await work.in_thread(_planned, located.agent, history, order)
    if not plan.removed:
        session = await context.catalog.describe(located, history)
        result = _result("already_at_target", order.operation_id, session, plan)
        if order.operation_id is not None:
            await _record_nothing(context, order, order.operation_id, history, result)
        return result
    kept = plan.cut.kept
    require_idle(located, Boundary(turn_number=kept) if order.to.by is not None else order.to)
    _require_published(located)
    operation_id = order.operation_id or uuid.uuid4().hex
    change = PlannedChange(
        operation_id=operation_id,
        kind="rewind",
        digest=order.digest,
        summary=f"rewind to {kept} turn{'' if kept == 1 else 's'}, {plan.removed} dropped",
        intent={
            "kept": kept,
            "turns_before": history.turn_count,
            "leaf_before": history.leaf_id,
            "revision_before": history.summary.revision,
        },
    )

    def stage() -> Effect:
        return located.agent.staged_rewind(
            history,
            plan.cut,
            stage=located.agent.stage_folder(history, operation_id),
            archive=context.operations.archive(operation_id) / "before",
            verb="rewind",
            work=work,
        )

    _, after = await carry_out(context, located, history, change, plan.effect, stage, work)
    with recording("The rewind", order.session_id, operation_id):
        session = await context.catalog.describe(located, after)
        result = _result("rewound", operation_id, session, plan)
        learnt = context.catalog.learnt(located, after)
        await context.operations.finish_rewind(operation_id, result, learnt)
    context.announce(Change([order.session_id], "rewound"), located.path)
    return result


async def _record_nothing(
    context: Context, order: Order, operation_id: str, history: History, result: RewindResult
) -> None:
    """That a rewind had nothing to do: a retry must not drop turns that came meanwhile."""
    await context.operations.intend(
        operation_id=operation_id,
        kind="rewind",
        session_id=order.session_id,
        digest=order.digest,
        summary="rewind that had nothing to drop",
        intent={"kept": history.turn_count, "turns_before": history.turn_count},
    )
    await context.operations.advance(operation_id, "done", result=result)


@value
class _Plan:
    """What a rewind would do; `effect` is None where a new file must be built for it."""

    cut: Cut
    removed: int
    dropped: list[Turn]
    dropped_prompt: str | None
    effect: Effect | None


def _planned(agent: Agent, history: History, order: Order) -> _Plan:
    """All that a rewind reads of the file, in one blocking step."""
    cut = _cut(history, order)
    removed = history.turn_count - cut.kept
    if not removed:
        return _Plan(cut, 0, [], history.dropped_prompt(cut), None)
    return _Plan(
        cut,
        removed,
        history.turns(history.dropped_numbers(cut)[:SHOWN_DROPPED]),
        history.dropped_prompt(cut),
        agent.quick_rewind(history, cut),
    )


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


def _result(status: str, operation_id: str | None, session: Session, plan: _Plan) -> RewindResult:
    warnings = []
    if plan.removed > len(plan.dropped):
        shown = f"The first {len(plan.dropped)} of {plan.removed} turns are listed."
        warnings.append(Warn("dropped_cut_short", shown))
    return RewindResult(
        status=status,
        operation_id=operation_id,
        session=session,
        turns=RewindTurns(plan.cut.kept, plan.removed),
        dropped=plan.dropped,
        dropped_prompt=plan.dropped_prompt,
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


def _require_published(located: Located) -> None:
    if located.staged or located.path is None:
        raise Unsupported(
            f"Session {located.session_id} is staged; promote it before rewinding it.",
            agent=located.agent.name,
            operation="rewind",
            reason="a staged session is rewound by forking again",
        )
