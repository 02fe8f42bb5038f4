"""What rewind, undo and redo share: a change of a session's file, recorded before it happens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from session import osfile
from session.agents.base import History
from session.catalog import Located
from session.context import Context
from session.effects import AFTER, Effect, Move
from session.errors import (
    Indeterminate,
    SessionBusy,
    StorageError,
)
from session.faults import fault
from session.model import Boundary, Holder, fields_of
from session.values import value
from session.work import Work


def require_idle(located: Located, to: Boundary | None) -> None:
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
                "at": {k: v for k, v in fields_of(to).items() if v is not None},
            },
        }
    way_out = "Close it there, or fork instead." if alternative else "Close it there first."
    raise SessionBusy(
        f"Session {located.session_id} is open in {located.agent.name} (pid {live.pid}). {way_out}",
        holder=Holder(live.pid, osfile.host(), live.since or "", located.agent.name),
        alternative=alternative,
    )


@value
class PlannedChange:
    """The row of an operation that is about to change a session's file."""

    operation_id: str
    kind: str
    digest: str
    summary: str
    intent: dict[str, Any]
    target: str | None = None


async def carry_out(
    context: Context,
    located: Located,
    history: History,
    change: PlannedChange,
    effect: Effect | None,
    stage: Callable[[], Effect],
    work: Work,
) -> tuple[Effect, History]:
    """Record the intent, build what must be built, take the step; on failure nothing is left.

    Returns the step that was taken, and the session after it.
    """
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
        after = await work.in_thread(_applied, effect, change.kind, located)
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
    return effect, after


def _applied(effect: Effect, verb: str, located: Located) -> History:
    effect.apply(verb)
    return located.open(Work())


def _took_place(effect: Effect | None) -> bool:
    """Whether a step that failed did its work all the same."""
    if effect is None:
        return False
    with contextlib.suppress(OSError):
        return effect.state() == AFTER
    return False


@contextlib.contextmanager
def recording(what: str, session_id: str, operation_id: str) -> Iterator[None]:
    """Around the record of something that took place."""
    try:
        yield
    except StorageError as error:
        raise Indeterminate.after(what, session_id, operation_id) from error
