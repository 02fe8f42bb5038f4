"""The command that makes a working session of a damaged one."""

from __future__ import annotations

import click

from server.commands import completion, names, options
from server.commands.invocation import Invocation, here
from server.render import repair as render
from session.model import REPAIRS, RepairResult
from session.service import Service


@options.command(
    "repair",
    "turntree repair last",
    "turntree repair 3cb974f6 --repair cut_gaps --repair drop_calls --dry-run",
)
@options.session
@click.option(
    "--repair",
    "repairs",
    type=click.Choice(REPAIRS),
    multiple=True,
    metavar="NAME",
    shell_complete=completion.repairs,
    help="Only this repair; may be given several times.  [default: all that take nothing away]",
)
@click.option(
    "--strip-outputs-over",
    type=click.IntRange(1),
    metavar="BYTES",
    help="What strip_outputs takes for long.  [default: 16384]",
)
@click.option("--id", "new", metavar="NEW", help="The id of the new session.  [default: a new one]")
@click.option("--title", help="Its title.  [default: the session's with ' (repaired)']")
@options.cwd("The directory it is resumed in.")
@click.option("--stage", is_flag=True, help="Build it and stop before the agent can see it.")
@options.yes
@options.dry_run
@options.expect_revision
@options.wait_ms
@click.pass_obj
def repair(
    run: Invocation,
    session: str,
    repairs: tuple[str, ...],
    strip_outputs_over: int | None,
    new: str | None,
    title: str | None,
    cwd: str | None,
    stage: bool,
    yes: bool,
    dry_run: bool,
    expect_revision: str | None,
    wait_ms: int,
) -> None:
    """Make a working session of a damaged one.

    The repaired session is a new one that its agent can resume; the old one is not touched.
    On a terminal it shows first what it would do, and asks.
    """

    def work(
        session: str, preview: bool, revision: str | None
    ) -> tuple[str, str | None, RepairResult]:
        async def inside(service: Service) -> tuple[str, str | None, RepairResult]:
            source = await names.session(service, session)
            agent = source.partition(":")[0]
            result = await service.repair_session(
                source,
                new or (await service.allocate_session_id(agent)).session_id,
                repairs=list(repairs) or None,
                strip_outputs_over=strip_outputs_over,
                title=title,
                cwd=names.existing_directory(cwd),
                stage=stage,
                dry_run=preview,
                expect_revision=revision,
                wait_ms=wait_ms,
                report=run.report,
            )
            now = (await service.get_session(source)).session.revision if asking else None
            return source, now, result

        return run.engine(inside, sweep=True)

    asking = run.person is not None and not yes and not dry_run
    if asking:
        source, revision, first = work(session, True, expect_revision)
        if first.status == "preview":
            run.ask(
                "Repair?",
                render.repair(first, source, here(), asking=True, named=bool(repairs)),
                first.warnings,
            )
            # What was agreed to is what was shown: a turn added meanwhile refuses.
            session, expect_revision = source, expect_revision or revision
        asking = False
    source, _, result = work(session, dry_run, expect_revision)
    run.emit(
        result, lambda: render.repair(result, source, here(), named=bool(repairs)), result.warnings
    )
