"""fork_session, repair_session, promote_session, discard_session: how a child comes to be, or
does not."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from typing import Any

from attrs import evolve

from session import osfile
from session.agents.base import Agent, Built, ForkPlan, History
from session.catalog import Located
from session.context import Context
from session.errors import (
    Cancelled,
    Indeterminate,
    InvalidParams,
    NotStaged,
    SessionDamaged,
    SessionExists,
    SessionNotFound,
    StorageError,
    Unsupported,
)
from session.faults import fault
from session.model import (
    Boundary,
    Change,
    Discarded,
    ForkResult,
    ForkTurns,
    OneSession,
    Repaired,
    RepairResult,
    Repairs,
    Resume,
    Session,
    Warn,
)
from session.osfile import utc
from session.scratch import Scratch, scratch
from session.staging import Stage
from session.store.lineage import ForkRow
from session.store.operations import OperationRow, digest_of
from session.values import fields, value
from session.work import Work

Forked = ForkResult | RepairResult

_REPAIRED = re.compile(r"(?: \(repaired(?: \d+)?\))+$")
_LONGEST_TITLE = 180
"""Of the parent's title in the child's, so that what is added shows in a listing."""


@value
class Order:
    """A fork that was asked for; `request` is what tells a retry from another request.

    With `repairs` it is a repair: a fork of the whole live branch that is mended on the way.
    """

    session_id: str
    child: str
    at: Boundary
    title: str | None
    cwd: str | None
    stage: bool
    bridge_gaps: bool
    request: dict[str, Any]
    repairs: Repairs | None = None

    @property
    def kind(self) -> str:
        return "fork" if self.repairs is None else "repair"

    @property
    def digest(self) -> str:
        return digest_of(self.request)


def require_supported(agent: Agent, workspace: dict[str, Any] | None) -> None:
    mode = (workspace or {}).get("mode", "none")
    if mode != "none":
        raise Unsupported(
            f"A working directory for the fork ({mode}) is not supported by this version; "
            "fork with workspace mode none.",
            agent=agent.name,
            operation="fork_session",
            reason=f"workspace mode {mode} is not built yet",
        )


def asked_for(workspace: dict[str, Any] | None) -> dict[str, Any] | None:
    """The workspace of a request; to ask for none is to ask for nothing."""
    return None if (workspace or {}).get("mode", "none") == "none" else workspace


def plain_title(title: str | None) -> str | None:
    """A title on one line without control characters; a blank one is none."""
    if title is None:
        return None
    shown = "".join(character if character.isprintable() else " " for character in title)
    return " ".join(shown.split()) or None


def real_directory(cwd: str | None) -> str | None:
    if cwd is None:
        return None
    path = osfile.real_path(os.path.expanduser(cwd))
    if not os.path.isabs(os.path.expanduser(cwd)) or not os.path.isdir(path):
        raise InvalidParams(f"cwd: there is no directory {cwd} (an absolute path)", field="cwd")
    return path


async def preview(
    context: Context, order: Order, expect_revision: str | None, work: Work
) -> Forked:
    """What the fork would hold; nothing is written."""
    if (done := await _replayed(context, order)) is not None:
        return done
    with scratch(context.home) as room:
        located, history, plan, _ = await _plan(context, order, expect_revision, room, work)
        size = Warn("copy_size", f"The {order.kind} will be a copy of {plan.bytes:,} bytes.")
        built = Built(plan.records, plan.bytes, [size] if plan.kept else [])
        return _result("preview", None, plan, built, located.agent.resume_of(history, plan))


async def fork(context: Context, order: Order, expect_revision: str | None, work: Work) -> Forked:
    """Intent, stage, validation, publication, record.  The caller holds the child's lock."""
    await context.operations.settle_session(order.child)
    if (done := await _replayed(context, order)) is not None:
        return done
    with scratch(context.home) as room:
        return await _fork(context, order, expect_revision, room, work)


async def _fork(
    context: Context, order: Order, expect_revision: str | None, room: Scratch, work: Work
) -> Forked:
    located, history, plan, title = await _plan(context, order, expect_revision, room, work)
    number = plan.kept if plan.last_number is None else plan.last_number
    operation_id = uuid.uuid4().hex
    parentage = ForkRow(order.child, order.session_id, plan.last_turn, number, utc(), operation_id)
    await context.operations.intend(
        operation_id=operation_id,
        kind=order.kind,
        session_id=order.session_id,
        new_session_id=order.child,
        digest=order.digest,
        summary=f"{order.kind} of {order.session_id.partition(':')[2][:8]} with {plan.kept} of "
        f"{plan.total} turn{'' if plan.total == 1 else 's'}{title and f': {title}'}",
        intent={
            "stage": plan.stage.to_json(),
            "staged": order.stage,
            "title": title,
            "cwd": order.cwd or history.summary.cwd,
            "fork": {
                name: getattr(parentage, name)
                for name in (
                    "child",
                    "parent",
                    "turn_id",
                    "turn_number",
                    "created_at",
                    "operation_id",
                )
            },
        },
    )
    publishing = False
    try:
        fault(f"{order.kind}.intended")
        built = await work.in_thread(located.agent.build_fork, history, plan, work)
        result = _result(
            "staged" if order.stage else "forked",
            operation_id,
            plan,
            built,
            located.agent.resume_of(history, plan),
        )
        work.commit()
        await context.operations.advance(operation_id, "staged", result=result, durable=True)
        fault(f"{order.kind}.staged")
        if not order.stage:
            publishing = True
            await work.in_thread(plan.stage.publish, order.kind)
            await context.operations.finish_fork(operation_id, parentage)
    except (Exception, Cancelled) as error:
        if publishing and plan.stage.published:
            raise Indeterminate.after(f"The {order.kind}", order.child, operation_id) from error
        await _undo_stage(context, plan.stage, operation_id, work)
        raise _as_storage_error(error, f"Writing the {order.kind}") from error
    if not order.stage:
        context.announce(Change([order.child], "forked", order.session_id), plan.stage.destination)
    session = await context.describe_now(order.child)
    return evolve(result, session=session, resume=session.resume)


async def _undo_stage(context: Context, stage: Stage, operation_id: str, work: Work) -> None:
    """After a failure nothing is left; what cannot be removed now is left to the sweep."""
    with contextlib.suppress(OSError, StorageError):
        await work.in_thread(stage.retract)
        await work.in_thread(stage.remove)
        await context.operations.release(operation_id)


def _as_storage_error(error: BaseException, doing: str) -> BaseException:
    return StorageError.from_os(error, doing) if isinstance(error, OSError) else error


async def _plan(
    context: Context, order: Order, expect_revision: str | None, room: Scratch, work: Work
) -> tuple[Located, History, ForkPlan, str]:
    order = evolve(order, cwd=real_directory(order.cwd))
    located, history = await context.open_for(
        order.session_id, f"{order.kind}_session", expect_revision, work
    )
    agent = located.agent
    if history.summary.kind == "subagent":
        raise Unsupported(
            f"A subagent's transcript cannot become a session of its own; {order.kind} its parent "
            "session.",
            agent=agent.name,
            operation=f"{order.kind}_session",
            reason="the agent resumes subagents only through their parent",
        )
    title = order.title
    if title is None:
        own = history.summary.title or (located.row.intent.get("title") if located.row else None)
        taken = await context.catalog.titles(agent, work)
        title = _numbered(own or "Session", "fork" if order.repairs is None else "repaired", taken)
    plan = await work.in_thread(_planned, agent, history, order, title, room, work)
    if plan.kept and not order.stage:
        directory = order.cwd or history.summary.cwd or "its directory"
        child = "fork" if order.repairs is None else "repaired session"
        plan = evolve(
            plan,
            warnings=[
                *plan.warnings,
                Warn(
                    "becomes_latest",
                    f"As the newest session in {directory}, the {child} is what the agent's own "
                    "“continue the last session” picks there.",
                ),
            ],
        )
    return located, history, plan, title


def _planned(
    agent: Agent, history: History, order: Order, title: str, room: Scratch, work: Work
) -> ForkPlan:
    child_id = order.child.partition(":")[2]
    if order.repairs is not None:
        return agent.plan_repair(
            history,
            child_id=child_id,
            title=title,
            cwd=order.cwd,
            wanted=order.repairs,
            scratch=room,
            work=work,
        )
    if order.at.latest and history.turn_count == 0 and history.summary.damaged:
        # An empty child would look as if the session had been kept.
        raise SessionDamaged(
            f"No turn of session {order.session_id} can be read, so that there is nothing to "
            "fork; check_session says why, and repair_session may bring turns back.",
            findings=[],
        )
    return agent.plan_fork(
        history,
        history.cut(order.at),
        child_id=child_id,
        title=title,
        cwd=order.cwd,
        bridge_gaps=order.bridge_gaps,
    )


def _numbered(title: str, word: str, taken: set[str | None]) -> str:
    """`title` with " (word)", or the first " (word N)" that no other session has."""
    if word == "repaired":
        title = _REPAIRED.sub("", title)  # to repair twice says no more than to repair once
    title = title[:_LONGEST_TITLE].rstrip()
    candidate, number = f"{title} ({word})", 1
    while candidate in taken:
        number += 1
        candidate = f"{title} ({word} {number})"
    return candidate


async def _replayed(context: Context, order: Order) -> Forked | None:
    """The recorded answer of the same request; None when the id is free.

    Raises SessionExists for an id that is taken, also by a child that is gone.
    """
    agent, native_id = context.catalog.agent_of(order.child)
    row = await context.operations.of_child(order.child)
    if row is None:
        if agent.locate(native_id) is None:
            return None
        raise _exists(order.child, "a session with this id exists already")
    if row.digest != order.digest:
        raise _exists(order.child, "it was asked for with other parameters before")
    if row.state not in ("done", "staged") or row.result is None:
        raise _exists(order.child, f"it was made before and is {row.state} now")
    return _recorded(row, await context.describe_now(order.child))


def _exists(session_id: str, why: str) -> SessionExists:
    return SessionExists(
        f"The id {session_id} is taken: {why}. Allocate another (allocate_session_id).",
        session_id=session_id,
    )


def _recorded(row: OperationRow, session: Session) -> Forked:
    known = dict(row.result or {})
    known.update(
        status="already_forked",
        session=session,
        turns=ForkTurns(**known["turns"]),
        resume=session.resume,
        warnings=[Warn(**warning) for warning in known["warnings"]],
    )
    if "repairs" in known:
        known["repairs"] = [Repaired(**repaired) for repaired in known["repairs"]]
        return RepairResult(**known)
    return ForkResult(**known)


def _result(
    status: str,
    operation_id: str | None,
    plan: ForkPlan,
    built: Built,
    resume: Resume,
) -> Forked:
    result = ForkResult(
        status=status,
        operation_id=operation_id,
        session=None,
        turns=ForkTurns(plan.kept, plan.total),
        records_copied=built.records,
        bytes_copied=built.bytes,
        method="copy",
        dropped_prompt=plan.dropped_prompt,
        resume=resume,
        workspace=None,
        warnings=[*plan.warnings, *built.warnings],
    )
    if plan.repairs is None:
        return result
    return RepairResult(**fields(result), repairs=plan.repairs)


async def promote(context: Context, session_id: str, work: Work) -> OneSession:
    """Publish a staged child; repeating it repeats the answer."""
    await context.store.require_writable()
    row = await _staged_row(context, session_id)
    if row.state == "done" and row.intent["staged"]:
        return OneSession(await context.describe_now(session_id))
    if row.state != "staged":
        raise _not_staged(session_id, "ready" if row.state == "done" else row.state)
    stage = Stage.from_json(row.intent["stage"])
    if stage.destination is not None and not stage.file.exists():
        raise StorageError(
            f"The staged session's file {stage.file} is gone.", path=str(stage.file), errno=2
        )
    work.commit()
    await context.operations.take_over(row, {**row.intent, "promoting": True})
    try:
        fault("promote.intended")
        await work.in_thread(stage.publish, "promote")
        await context.operations.finish_fork(row.operation_id, ForkRow(**row.intent["fork"]))
    except (Exception, Cancelled) as error:
        if stage.published:
            raise Indeterminate.after("The promotion", session_id, row.operation_id) from error
        with contextlib.suppress(OSError, StorageError):
            await work.in_thread(stage.retract)
            await context.operations.take_over(row, row.intent)
        raise _as_storage_error(error, "Promoting the session") from error
    context.announce(Change([session_id], "forked", row.session_id), stage.destination)
    return OneSession(await context.describe_now(session_id))


async def discard(context: Context, session_id: str, work: Work) -> Discarded:
    """Remove a staged child; repeating it repeats the answer."""
    await context.store.require_writable()
    row = await _staged_row(context, session_id)
    if row.state == "discarded":
        return Discarded(session_id)
    if row.state != "staged":
        raise _not_staged(session_id, "ready" if row.state == "done" else row.state)
    work.commit()
    await context.operations.take_over(row, {**row.intent, "discarding": True})
    try:
        fault("discard.intended")
        await work.in_thread(Stage.from_json(row.intent["stage"]).remove)
        fault("discard.removed")
    except OSError as error:
        raise StorageError.from_os(error, "Discarding the session") from error
    await context.operations.advance(row.operation_id, "discarded", durable=True)
    context.announce(Change([session_id], "removed"))
    return Discarded(session_id)


async def _staged_row(context: Context, session_id: str) -> OperationRow:
    row = await context.operations.of_child(session_id)
    begun = row is not None and (row.intent.get("promoting") or row.intent.get("discarding"))
    if row is not None and row.state == "staged" and begun:
        # By a process that did not finish it.
        await context.operations.settle(row)
        row = await context.operations.of_child(session_id)
    if row is not None:
        return row
    agent, native_id = context.catalog.agent_of(session_id)
    if agent.locate(native_id) is not None:
        raise _not_staged(session_id, "ready")
    raise SessionNotFound(f"There is no session {session_id}.", session_id=session_id)


def _not_staged(session_id: str, state: str) -> NotStaged:
    return NotStaged(
        f"Session {session_id} is not staged; it is {state}.", session_id=session_id, state=state
    )
