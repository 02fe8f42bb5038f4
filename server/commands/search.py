"""`turntree search`: turns by what was said in them."""

from __future__ import annotations

import os

import click

from server.commands import names, options
from server.commands.completion import sessions as complete_sessions
from server.commands.invocation import Invocation
from server.render import search as render
from server.render import words
from session.errors import StorageError
from session.model import MatchPage
from session.service import Service


@options.command(
    "search",
    "turntree search retry",
    "turntree search '\"exponential backoff\"' --cwd .",
    "turntree search 'pars*' --session last",
)
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--session",
    metavar="SESSION",
    help="Only in this one.",
    shell_complete=complete_sessions,
)
@click.option(
    "--cwd",
    "--dir",
    "cwd",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Only in sessions of DIR and below it.",
)
@options.limit
@options.cursor
@click.pass_obj
def search(
    run: Invocation,
    query: tuple[str, ...],
    session: str | None,
    cwd: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """Find turns by their prompts and answers, the best first.

    All words of QUERY must be there; "quoted words" must follow each other, and word* is how a
    word begins.  Neither case nor accents matter.  Sessions that were never searched are
    indexed first; interrupting that keeps what is done.
    """
    warnings: list[str] = []

    async def work(service: Service) -> tuple[str | None, MatchPage]:
        session_id = None if session is None else await names.session(service, session)
        if session_id is None:
            try:
                await service.index(
                    lambda step: run.count(step.done, step.total, "Indexing sessions")
                )
            except StorageError as error:
                warnings.append(f"not everything could be indexed: {error.message}")
        run.bar.stop()
        return session_id, await service.search_turns(
            " ".join(query),
            cwd=None if cwd is None else os.path.abspath(cwd),
            session_id=session_id,
            limit=limit,
            cursor=cursor,
        )

    session_id, result = run.engine(work)
    again = options.again(query=" ".join(query), session=words.short(session_id or ""))
    run.emit(result, lambda: render.matches(result, run.short, again))
    for warning in warnings:
        run.warn(warning)
