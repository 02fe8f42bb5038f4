"""Commands that only look: sessions, turns, show, branches, operations; and the status."""

from __future__ import annotations

import click

from server.commands import completion, names, options
from server.commands.invocation import Invocation, here
from server.render import checks, words
from server.render import sessions as render
from server.render import turns as render_turns
from server.version import version
from session.ids import AGENTS
from session.model import BranchList, OperationPage, Session, SessionPage, TurnItems, TurnPage
from session.service import Service


@options.command(
    "sessions",
    "turntree sessions",
    "turntree sessions --all --query parser",
    "turntree sessions --json | jq -r '.sessions[].session_id'",
)
@click.option("--all", "everywhere", is_flag=True, help="Those of every directory.")
@options.cwd("Those of DIR and below it.  [default: where you are]")
@click.option(
    "--query", metavar="TEXT", help="Those whose title, first prompt, directory or id holds TEXT."
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    type=click.Choice(AGENTS),
    metavar="AGENT",
    help="Only this agent's.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(names.KINDS),
    help="Which kinds.  [default: main]",
)
@options.staged
@options.limit
@options.cursor
@click.pass_obj
def sessions(
    run: Invocation,
    everywhere: bool,
    cwd: str | None,
    query: str | None,
    agents: tuple[str, ...],
    kinds: tuple[str, ...],
    staged: bool,
    limit: int,
    cursor: str | None,
) -> None:
    """List sessions, newest first.

    Without --all, those of this directory and of the directories below it.
    """
    below = names.place(cwd, everywhere)

    async def work(service: Service) -> SessionPage:
        return await service.list_sessions(
            cwd=below,
            agents=list(agents) or None,
            query=query,
            kinds=list(kinds) or None,
            include_staged=staged,
            limit=limit,
            cursor=cursor,
        )

    result = run.engine(work)
    run.emit(
        result,
        lambda: [
            *render.page(result, below, run.short),
            *checks.hint(result.sessions),
            *render.more(options.again(), result.next_cursor),
        ],
        render.skipped(result),
    )


@options.command("turns", "turntree turns last", "turntree turns 3cb974f6 --newest --limit 5")
@options.session
@click.option("--branch", default="active", metavar="LEAF", help="active, all, or a leaf's id.")
@click.option("--newest", is_flag=True, help="The newest first.")
@options.limit
@options.cursor
@click.pass_obj
def turns(
    run: Invocation, session: str, branch: str, newest: bool, limit: int, cursor: str | None
) -> None:
    """List the turns of a session."""

    async def work(service: Service) -> tuple[str, TurnPage]:
        session_id = await names.session(service, session)
        leaf = await names.branch(service, session_id, branch)
        return leaf, await service.list_turns(
            session_id,
            order="newest" if newest else "oldest",
            branch=leaf,
            limit=limit,
            cursor=cursor,
            report=run.report,
        )

    leaf, result = run.engine(work)
    command = options.again(session=words.short(result.session.session_id))
    run.emit(
        result,
        lambda: [
            *render_turns.page(result, run.short, leaf),
            *checks.hint([result.session]),
            *render.more(command, result.next_cursor),
        ],
    )


@options.command("show", "turntree show last 3", "turntree show 3cb974f6 8f0e21aa --full")
@options.session
@click.argument("turn", shell_complete=completion.turns)
@click.option("--full", is_flag=True, help="All of each tool's output and of each event.")
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    default=1 << 20,
    show_default=True,
    help="At most this much text at once.",
)
@options.cursor
@click.pass_obj
def show(
    run: Invocation, session: str, turn: str, full: bool, max_bytes: int, cursor: str | None
) -> None:
    """Show one turn in full.

    Its prompt, the answers, the tool calls and their results.

    TURN is a turn's number, its id, or a unique prefix of the id.
    """

    async def work(service: Service) -> tuple[Session, TurnItems]:
        session_id = await names.session(service, session)
        turn_id = await names.turn(service, session_id, turn, run.report)
        result = await service.read_turn(session_id, turn_id, max_bytes=max_bytes, cursor=cursor)
        return (await service.get_session(session_id)).session, result

    shown, result = run.engine(work)
    session_id = shown.session_id
    command = options.again(session=words.short(session_id), turn=result.turn.turn_id)
    run.emit(
        result,
        lambda: [
            *render_turns.items(result, session_id, full),
            *checks.hint([shown]),
            *render.more(command, result.next_cursor),
        ],
    )


@options.command("branches", "turntree branches last")
@options.session
@click.pass_obj
def branches(run: Invocation, session: str) -> None:
    """List the branches of a session.

    The active one is what its agent resumes; the others were left behind by rewinding.
    """

    async def work(service: Service) -> tuple[BranchList, dict[str, int]]:
        session_id = await names.session(service, session)
        result = await service.list_branches(session_id)
        starts = {b.forked_at_turn_id for b in result.branches if b.forked_at_turn_id}
        numbers: dict[str, int] = {}
        if starts and not run.json:
            # Ids are the answer; a person counts turns.
            async for turn in names.every_turn(service, session_id, "active", None):
                if turn.turn_id in starts:
                    numbers[turn.turn_id] = turn.turn_number
        return result, numbers

    result, numbers = run.engine(work)
    run.emit(result, lambda: render.branches(result, numbers, run.short))


@options.command("operations", "turntree operations", "turntree operations last --limit 5")
@options.optional_session
@options.limit
@options.cursor
@click.pass_obj
def operations(run: Invocation, session: str | None, limit: int, cursor: str | None) -> None:
    """List forks, rewinds and undos, newest first."""

    async def work(service: Service) -> tuple[str | None, OperationPage]:
        session_id = None if session is None else await names.session(service, session)
        page = await service.list_operations(session_id=session_id, limit=limit, cursor=cursor)
        return session_id, page

    session_id, result = run.engine(work)
    command = options.again(session=words.short(session_id or ""))
    run.emit(
        result,
        lambda: [
            *render.operations(result, run.short),
            *render.more(command, result.next_cursor),
        ],
    )


def status(run: Invocation) -> None:
    """What bare `turntree` prints: the stores, how many sessions they hold, what to try."""

    async def work(service: Service) -> tuple[dict[str, int], int]:
        counts: dict[str, int] = {}
        cursor = None
        while True:
            page = await service.list_sessions(limit=names.PAGE, cursor=cursor)
            for session in page.sessions:
                counts[session.agent] = counts.get(session.agent, 0) + 1
            cursor = page.next_cursor
            if cursor is None:
                break
        below = here()
        nearby = 0
        while below is not None:
            page = await service.list_sessions(cwd=below, limit=names.PAGE, cursor=cursor)
            nearby += len(page.sessions)
            cursor = page.next_cursor
            if cursor is None:
                break
        return counts, nearby

    counts, nearby = run.engine(work)
    agents = Service.agents()
    result = {
        "version": version(),
        "agents": agents,
        "sessions": {"by_agent": counts, "here": nearby},
    }
    run.emit(result, lambda: render.status(version(), agents, counts, nearby))
