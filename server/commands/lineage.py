"""`turntree tree`: sessions with their forks and ancestors, from the verbs that list them."""

from __future__ import annotations

import click
from attrs import define, evolve

from server.commands import names, options
from server.commands.invocation import Invocation
from server.render import sessions as render_sessions
from server.render import tree as render
from session.errors import SessionNotFound
from session.model import Branch, Session, SessionPage, Turn
from session.service import Service
from session.work import Report


@define(frozen=True)
class Family:
    """One session with what it comes from and what came from it.

    `ancestors` begins with the parent; `forks` are the children and theirs, in any depth;
    `turns` are those of all branches.
    """

    session: Session
    ancestors: list[Session]
    forks: list[Session]
    branches: list[Branch]
    turns: list[Turn]


async def forest(service: Service, below: str | None, staged: bool) -> SessionPage:
    """Every session of `below` (None: of every directory) as one page; `staged`: those too."""
    page = await service.list_sessions(cwd=below, include_staged=staged, limit=names.PAGE)
    sessions, skipped, cursor = list(page.sessions), list(page.skipped), page.next_cursor
    while cursor is not None:
        following = await service.list_sessions(
            cwd=below, include_staged=staged, limit=names.PAGE, cursor=cursor
        )
        sessions += following.sessions
        cursor = following.next_cursor
    return evolve(page, sessions=sessions, skipped=skipped, next_cursor=None)


async def family(service: Service, session_id: str, staged: bool, report: Report) -> Family:
    """Raises `SessionNotFound` for `session_id` itself; ancestors that are gone end the line."""
    first = await service.list_turns(session_id, branch="all", limit=names.PAGE, report=report)
    turns, cursor = list(first.turns), first.next_cursor
    while cursor is not None:
        page = await service.list_turns(session_id, branch="all", limit=names.PAGE, cursor=cursor)
        turns += page.turns
        cursor = page.next_cursor
    branches = (await service.list_branches(session_id)).branches
    return Family(
        session=first.session,
        ancestors=await _ancestors(service, first.session),
        forks=await _forks(service, session_id, staged),
        branches=branches,
        turns=turns,
    )


async def _ancestors(service: Service, session: Session) -> list[Session]:
    out: list[Session] = []
    seen = {session.session_id}
    origin = session.forked_from
    while origin is not None and origin.session_id not in seen:
        seen.add(origin.session_id)
        try:
            parent = (await service.get_session(origin.session_id)).session
        except SessionNotFound:
            break
        out.append(parent)
        origin = parent.forked_from
    return out


async def _forks(service: Service, session_id: str, staged: bool) -> list[Session]:
    out: list[Session] = []
    seen, waiting = {session_id}, [session_id]
    while waiting:
        parent, cursor = waiting.pop(), None
        while True:
            page = await service.list_sessions(
                forked_from=parent,
                kinds=list(names.KINDS),
                include_staged=staged,
                include_archived=True,
                limit=names.PAGE,
                cursor=cursor,
            )
            for child in page.sessions:
                if child.session_id not in seen:
                    seen.add(child.session_id)
                    out.append(child)
                    waiting.append(child.session_id)
            cursor = page.next_cursor
            if cursor is None:
                break
    return out


@options.command("tree", "turntree tree", "turntree tree last", "turntree tree --all")
@options.optional_session
@click.option("--all", "everywhere", is_flag=True, help="The sessions of every directory.")
@options.cwd("The sessions of DIR.  [default: where you are]")
@options.staged
@click.pass_obj
def tree(
    run: Invocation, session: str | None, everywhere: bool, cwd: str | None, staged: bool
) -> None:
    """Show which session was forked from which.

    With SESSION also its turns and the branches that leave them.  With --json the session's
    form is {session, ancestors, forks, branches, turns}, else it is a list of sessions.
    """
    if session is None:
        below = names.place(cwd, everywhere)
        result = run.engine(lambda service: forest(service, below, staged))
        run.emit(
            result,
            lambda: render.forest(result, below) or render_sessions.page(result, below, run.short),
            render_sessions.skipped(result),
        )
        return
    if everywhere or cwd is not None:
        raise click.UsageError("--all and --cwd choose sessions; leave out SESSION.")

    async def work(service: Service) -> Family:
        session_id = await names.session(service, session)
        return await family(service, session_id, staged, run.report)

    found = run.engine(work)
    run.emit(
        found,
        lambda: render.family(
            found.session, found.ancestors, found.forks, found.branches, found.turns
        ),
    )
