"""undo and redo, and what a person should know before: what was done since goes aside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import click
from attrs import evolve

from server.commands import completion, names, options
from server.commands.invocation import Invocation
from server.render import reversal as render
from server.render.reversal import Aside, Context
from session.errors import SessionNotFound, TurntreeError
from session.model import Operation, UndoResult
from session.service import Service


def _of_operation(function: Callable[..., None]) -> Callable[..., None]:
    """The arguments of undo and redo."""
    for wrap in (
        options.wait_ms,
        options.expect_revision,
        options.dry_run,
        options.yes,
        click.option(
            "--operation",
            metavar="ID",
            help="This operation, instead of a session's.",
            shell_complete=completion.operations,
        ),
        options.optional_session,
    ):
        function = wrap(function)
    return function


@options.command("undo", "turntree undo last", "turntree undo --operation 5f1c2a")
@_of_operation
@click.pass_obj
def undo(
    run: Invocation,
    session: str | None,
    operation: str | None,
    yes: bool,
    dry_run: bool,
    expect_revision: str | None,
    wait_ms: int,
) -> None:
    """Undo the newest rewind of a session.

    Or any operation, forks too, by its id: `turntree operations` lists them.
    Turns added since become a branch.  On a terminal it asks first when there are any.
    """
    _reverse(run, "undo", session, operation, yes, dry_run, expect_revision, wait_ms)


@options.command("redo", "turntree redo last", "turntree redo --operation 5f1c2a")
@_of_operation
@click.pass_obj
def redo(
    run: Invocation,
    session: str | None,
    operation: str | None,
    yes: bool,
    dry_run: bool,
    expect_revision: str | None,
    wait_ms: int,
) -> None:
    """Redo what was undone last in a session.

    Or the operation with this id.
    """
    _reverse(run, "redo", session, operation, yes, dry_run, expect_revision, wait_ms)


def _reverse(
    run: Invocation,
    verb: str,
    session: str | None,
    operation: str | None,
    yes: bool,
    dry_run: bool,
    expect_revision: str | None,
    wait_ms: int,
) -> None:
    if (session is None) == (operation is None):
        raise click.UsageError("Give either SESSION or --operation ID.")

    async def call(
        service: Service, target: tuple[str | None, str | None], preview: bool, revision: str | None
    ) -> UndoResult:
        session_id, operation_id = target
        method = service.undo if verb == "undo" else service.redo
        return await method(
            session_id,
            operation_id=operation_id,
            dry_run=preview,
            expect_revision=revision,
            wait_ms=wait_ms,
        )

    async def only(service: Service) -> UndoResult:
        return await call(
            service, await _target(service, session, operation), dry_run, expect_revision
        )

    if run.json:
        run.emit(run.engine(only, sweep=not dry_run), list)
        return

    async def look(service: Service) -> tuple[UndoResult, Context]:
        target = await _target(service, session, operation)
        result = await call(service, target, True, expect_revision)
        return result, await _context(service, verb, result)

    result, context = run.engine(look, sweep=not dry_run)
    if dry_run or result.status != "preview":
        run.emit(result, lambda: render.reversal(result, verb, context))
        return
    agreed = run.person is not None and not yes and context.worth_asking
    if agreed:
        shown = render.reversal(result, verb, context, asking=True)
        run.ask(f"{verb.capitalize()}?", shown)
        if result.session is not None and expect_revision is None:
            # What was agreed to is what was shown.
            expect_revision = result.session.revision

    async def work(service: Service) -> tuple[UndoResult, Aside | None]:
        before = await _leaf(service, result, context) if verb == "undo" else None
        done = await call(service, (None, result.operation_id), False, expect_revision)
        return done, await _aside(service, done, before)

    done, aside = run.engine(work, sweep=True)
    context = evolve(context, aside=aside)
    run.emit(done, lambda: render.reversal(done, verb, context, agreed=agreed))


async def _target(
    service: Service, session: str | None, operation: str | None
) -> tuple[str | None, str | None]:
    """The session or the operation that undo and redo are about."""
    if session is None:
        return None, await names.operation(service, operation or "")
    try:
        return await names.session(service, session), None
    except SessionNotFound as error:
        # `operations` lists ids of both kinds; what is undone must not depend on a guess.
        if await names.is_operation(service, session):
            raise SessionNotFound(
                f"'{session}' is an operation's id; give it as --operation {session}",
                session_id=session,
            ) from error
        raise


async def _context(service: Service, verb: str, preview: UndoResult) -> Context:
    """What was done to the session since the operation that `preview` would reverse."""
    operation, newer = await _operation(service, preview)
    if operation is None or verb == "redo" or preview.status != "preview":
        return Context(operation)
    added = 0
    if preview.session is not None:
        added = await _added(service, preview.session.session_id, operation.at)
    return Context(operation, added, newer if operation.kind == "rewind" else [])


async def _operation(
    service: Service, result: UndoResult
) -> tuple[Operation | None, list[Operation]]:
    """The operation of a result, and the rewinds of its session that came after it."""
    newer: list[Operation] = []
    session_id = result.session.session_id if result.session else None
    cursor = None
    while True:
        page = await service.list_operations(session_id=session_id, limit=names.PAGE, cursor=cursor)
        for one in page.operations:
            if one.operation_id == result.operation_id:
                return one, newer
            if one.kind == "rewind" and one.state == "done":
                newer.append(one)
        cursor = page.next_cursor
        if cursor is None:
            return None, []


async def _added(service: Service, session_id: str, since: str) -> int:
    """How many turns of the active branch began after `since`."""
    added, cursor = 0, None
    while True:
        page = await service.list_turns(session_id, order="newest", limit=names.PAGE, cursor=cursor)
        for turn in page.turns:
            if not turn.started_at or turn.started_at <= since:
                return added
            added += 1
        cursor = page.next_cursor
        if cursor is None:
            return added


async def _leaf(service: Service, preview: UndoResult, context: Context) -> str | None:
    """Where the session ends before its rewind is undone."""
    if preview.session is None or context.operation is None or context.operation.kind != "rewind":
        return None
    branches = (await service.list_branches(preview.session.session_id)).branches
    return next((branch.leaf_id for branch in branches if branch.active), None)


async def _aside(service: Service, done: UndoResult, leaf: str | None) -> Aside | None:
    """The branch that holds what `leaf` ended, now that the session goes on elsewhere."""
    if leaf is None or done.session is None:
        return None
    session_id = done.session.session_id
    # It is done; that it cannot be described must not make it look as if it were not.
    with contextlib.suppress(TurntreeError):
        for branch in (await service.list_branches(session_id)).branches:
            if branch.leaf_id == leaf and not branch.active:
                turns = [t async for t in names.every_turn(service, session_id, leaf, None)]
                return Aside(leaf, sum(turn.branch == leaf for turn in turns))
    return None
