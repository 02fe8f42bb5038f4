"""Commands that change something: fork, rewind, promote, discard."""

from __future__ import annotations

import click

from server.commands import names, options
from server.commands.invocation import Invocation, here
from server.render import changes as render
from session.model import Discarded, ForkResult, OneSession, RewindResult
from session.service import Service


@options.command(
    "fork",
    "turntree fork last --at 2",
    "turntree fork 3cb974f6 --before 4 --title 'Another way'",
)
@options.session
@options.at("Keep turns 1 to N; 0 keeps none.")
@options.turn_option("--through", "Keep the turns up to this one.")
@options.turn_option("--before", "Keep the turns before this one.")
@click.option("--id", "new", metavar="NEW", help="The id of the fork.  [default: a new one]")
@click.option("--title", help="Its title.  [default: the session's with ' (fork)']")
@options.cwd("The directory it is resumed in.")
@click.option(
    "--workspace",
    type=click.Choice(["none", "worktree", "copy"]),
    default="none",
    show_default=True,
    help="A working directory of its own, with the files as they were: not in this version yet.",
)
@click.option("--stage", is_flag=True, help="Build it and stop before the agent can see it.")
@click.option("--bridge-gaps", is_flag=True, help="Go on across missing records.")
@options.dry_run
@options.expect_revision
@options.wait_ms
@click.pass_obj
def fork(
    run: Invocation,
    session: str,
    at: int | None,
    through: str | None,
    before: str | None,
    new: str | None,
    title: str | None,
    cwd: str | None,
    workspace: str,
    stage: bool,
    bridge_gaps: bool,
    dry_run: bool,
    expect_revision: str | None,
    wait_ms: int,
) -> None:
    """Fork a session at a turn.

    The fork is a new session that its agent can resume; the old one is not touched.
    Without --at, --through or --before, all of its finished turns are kept.
    """
    names.at_most_one(at, through, before)

    async def work(service: Service) -> tuple[str, ForkResult]:
        source = await names.session(service, session)
        where = await names.boundary(
            service, source, at=at, through=through, before=before, report=run.report
        )
        agent = source.partition(":")[0]
        child = new or (await service.allocate_session_id(agent)).session_id
        return source, await service.fork_session(
            source,
            child,
            at=where,
            title=title,
            cwd=names.existing_directory(cwd),
            workspace=None if workspace == "none" else {"mode": workspace},
            stage=stage,
            bridge_gaps=bridge_gaps,
            dry_run=dry_run,
            expect_revision=expect_revision,
            wait_ms=wait_ms,
            report=run.report,
        )

    source, result = run.engine(work, sweep=True)
    run.emit(result, lambda: render.fork(result, source, here()), result.warnings)


@options.command(
    "rewind",
    "turntree rewind last --by 1",
    "turntree rewind 3cb974f6 --before 4 --dry-run",
)
@options.session
@click.option("--by", type=click.IntRange(0), metavar="K", help="Drop the last K turns.")
@click.option("--to", type=click.IntRange(0), metavar="N", help="Keep turns 1 to N.")
@options.turn_option("--before", "Keep the turns before this one.")
@click.option("--files", is_flag=True, help="Take back the files alone: not in this version yet.")
@click.option("--both", is_flag=True, help="Take back files, too: not in this version yet.")
@options.yes
@options.dry_run
@options.expect_revision
@options.wait_ms
@click.pass_obj
def rewind(
    run: Invocation,
    session: str,
    by: int | None,
    to: int | None,
    before: str | None,
    files: bool,
    both: bool,
    yes: bool,
    dry_run: bool,
    expect_revision: str | None,
    wait_ms: int,
) -> None:
    """Drop the last turns of a session.

    Nothing is lost: `turntree undo` brings them back.
    On a terminal it shows first what it would drop, and asks.
    """
    names.at_most_one(by, to, before)
    if by is None and to is None and before is None:
        raise click.UsageError("Say how far: --by K, --to N or --before TURN.")
    if files and both:
        raise click.UsageError("--both includes --files.")
    mode = "files" if files else "both" if both else "conversation"

    def work(session: str, preview: bool, revision: str | None) -> RewindResult:
        async def inside(service: Service) -> RewindResult:
            session_id = await names.session(service, session)
            return await service.rewind(
                session_id,
                await names.boundary(
                    service, session_id, by=by, at=to, before=before, report=run.report
                ),
                mode=mode,
                dry_run=preview,
                expect_revision=revision,
                wait_ms=wait_ms,
                report=run.report,
            )

        return run.engine(inside, sweep=not preview)

    agreed = False
    if run.person is not None and not yes and not dry_run:
        first = work(session, True, expect_revision)
        if first.status == "preview":
            run.ask("Rewind?", render.rewind(first, asking=True), first.warnings)
            agreed = True
            # What was agreed to is what was shown: a turn added meanwhile refuses, and `last`
            # stays the session it was.
            session, expect_revision = first.session.session_id, first.session.revision
    result = work(session, dry_run, expect_revision)
    run.emit(result, lambda: render.rewind(result, agreed=agreed), result.warnings)


@options.command("promote", "turntree promote 9e1f6ab2")
@options.staged_session
@options.wait_ms
@click.pass_obj
def promote(run: Invocation, session: str, wait_ms: int) -> None:
    """Publish a staged fork to its agent."""

    async def work(service: Service) -> OneSession:
        session_id = await names.session(service, session)
        return await service.promote_session(session_id, wait_ms=wait_ms)

    result = run.engine(work, sweep=True)
    run.emit(result, lambda: render.promoted(result.session, here()))


@options.command("discard", "turntree discard 9e1f6ab2")
@options.staged_session
@options.wait_ms
@click.pass_obj
def discard(run: Invocation, session: str, wait_ms: int) -> None:
    """Drop a staged fork."""

    async def work(service: Service) -> Discarded:
        session_id = await names.session(service, session)
        return await service.discard_session(session_id, wait_ms=wait_ms)

    result = run.engine(work, sweep=True)
    run.emit(result, lambda: render.discarded(result))
