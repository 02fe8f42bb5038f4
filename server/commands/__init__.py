"""The commands of `turntree`: what is typed becomes one call of the engine, its result text.

`look` and `change` hold the commands, `options` what they share, `names` finds out which
session or turn is meant, `invocation` reaches the engine and prints.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from server.commands import change, completion, look, names, options
from server.commands.invocation import Invocation, flush, here, print_error, write_json
from server.render import sessions as render
from server.render import words
from server.version import version
from session.errors import SessionBusy, SessionDamaged, StorageError, TurntreeError
from session.service import Service

_PROGRAM = "turntree"


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit code.  `BrokenPipeError`, `KeyboardInterrupt` pass."""
    invocation = Invocation()
    if sys.stdout is not None:
        # A lone surrogate in a file name, or a prompt in a Latin-1 terminal, is no failure.
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return _invoke(arguments, invocation)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except TurntreeError as error:
        _fail(invocation, error.code, error.message, error.data, _advice(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        failed = StorageError.from_os(error, "The command")
        _fail(invocation, failed.code, failed.message, failed.data, [])
    except Exception as error:
        if os.environ.get("TURNTREE_LOG", "").lower() == "debug":
            raise
        message = f"internal error: {type(error).__name__}: {error}"
        advice = ["TURNTREE_LOG=debug shows where it happened"]
        _fail(invocation, -32603, message, {"kind": "internal"}, advice)
    return 1


def _invoke(arguments: list[str], invocation: Invocation) -> int:
    """What click's own `main` does, but every failure stays an exception of its own kind."""
    asked = os.environ.get(f"_{_PROGRAM.upper()}_COMPLETE")
    if asked:
        # Only a shell that completes a line gets here.
        from click.shell_completion import shell_complete

        return shell_complete(turntree, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE", asked)
    with turntree.make_context(_PROGRAM, arguments, obj=invocation) as context:
        turntree.invoke(context)
    # A full disk shows at the latest here, while it can still become an error.
    flush(sys.stdout)
    return 0


def _fail(
    invocation: Invocation, code: int, message: str, data: dict[str, Any], advice: list[str]
) -> None:
    if invocation.json:
        write_json({"code": code, "message": message, "data": data})
        return
    print_error("error: " + "\n".join(words.block(message)))
    for hint in advice:
        print_error(f"  {hint}")


def _advice(error: TurntreeError) -> list[str]:
    """What to do about an error, where its data says more than its message."""
    data = error.data
    if isinstance(error, SessionBusy) and isinstance(data.get("alternative"), dict):
        params = data["alternative"].get("params") or {}
        if "session_id" in params:
            return [f"fork it instead: {_fork_command(params)}"]
    if isinstance(error, SessionDamaged):
        hints = []
        for finding in data.get("findings") or []:
            text = getattr(finding, "message", None) or str(finding)
            line = getattr(finding, "line", None)
            hints.append(words.line(f"line {line:,}: {text}" if line else text))
        return [*hints[:10], "`turntree fork --bridge-gaps` goes on across missing records"]
    return []


def _fork_command(params: dict[str, Any]) -> str:
    command = ["turntree", "fork", render.short(str(params["session_id"]))]
    at = params.get("at")
    for field, option in (
        ("turn_number", "--at"),
        ("through_turn", "--through"),
        ("before_turn", "--before"),
    ):
        value = at.get(field) if isinstance(at, dict) else getattr(at, field, None)
        if value is not None:
            command += [option, words.quote(str(value))]
    return " ".join(command)


def _version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(f"turntree {version()}")
        context.exit()


class _InOrder(click.Group):
    """Lists its commands as they were added, the ones that look before those that change."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    _PROGRAM,
    cls=_InOrder,
    invoke_without_command=True,
    context_settings=options.HELP,
    epilog="\b\nExamples:\n  turntree sessions\n  turntree fork last --at 2\n"
    "  turntree rewind last --by 1\n",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Print the version and leave.",
)
@click.pass_context
def turntree(context: click.Context) -> None:
    """List, fork and rewind the sessions of coding agents.

    SESSION is a session's id, a unique prefix of it, or `last`: the newest in this directory.
    TURN is a turn's number, its id, or a unique prefix of the id.
    Without a command: which stores were found, and what to try.
    """
    if context.invoked_subcommand is None:
        _status(context.ensure_object(Invocation))


turntree.params.append(options.json())


def _status(run: Invocation) -> None:
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


@options.command("serve", "turntree serve --log-level debug")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="How much goes into the log file.",
)
def serve(log_level: str | None) -> None:
    """Speak JSON-RPC with an editor over stdin and stdout."""
    # The protocol's libraries take 0.4 s to import, and only the server needs them.
    from server.app import main

    sys.exit(main(log_level))


@options.command("completion", *(completion.INSTALL[shell] for shell in completion.SHELLS))
@click.argument("shell", type=click.Choice(completion.SHELLS))
@click.pass_obj
def completion_script(run: Invocation, shell: str) -> None:
    """Print a shell's completion script.

    Its first line says how to install it.
    """
    text = completion.script(shell)
    if run.json:
        write_json({"shell": shell, "script": text, "install": completion.INSTALL[shell]})
    else:
        click.echo(text, nl=False)


for _command in (
    look.sessions,
    look.turns,
    look.show,
    look.tree,
    look.branches,
    change.fork,
    change.rewind,
    change.undo,
    change.redo,
    look.operations,
    change.promote,
    change.discard,
    serve,
    completion_script,
):
    turntree.add_command(_command)
