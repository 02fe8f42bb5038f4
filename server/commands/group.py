"""The group of all commands.  Each is loaded when it is called, so that a listing does not wait
for what forks."""

from __future__ import annotations

from importlib import import_module

import click

from server.commands import options
from server.commands.invocation import Invocation
from server.version import version

PROGRAM = "turntree"

_HOMES = {
    "sessions": "look",
    "turns": "look",
    "show": "look",
    "tree": "lineage",
    "branches": "look",
    "check": "check",
    "search": "search",
    "fork": "change",
    "repair": "repair",
    "rewind": "change",
    "undo": "reverse",
    "redo": "reverse",
    "operations": "look",
    "promote": "change",
    "discard": "change",
    "serve": "process",
    "completion": "process",
}
"""The module of each command, in the order in which the help lists them."""


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in _HOMES:
            self.add_command(_load(cmd_name))
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _HOMES:
            # click suggests the nearest of the commands that it knows.
            for name in _HOMES:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


def _load(name: str) -> click.Command:
    command = getattr(import_module(f"server.commands.{_HOMES[name]}"), name)
    assert isinstance(command, click.Command)
    return command


def _version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(f"turntree {version()}")
        context.exit()


@click.group(
    PROGRAM,
    cls=_Lazy,
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

    SESSION is a session's id, a unique prefix of it, or `last`: the newest in this directory
    and below it.  A fork is newer than its source: after `fork`, `last` is the fork.
    TURN is a turn's number, its id, or a unique prefix of the id.
    Without a command: which stores were found, and what to try.
    """
    if context.invoked_subcommand is None:
        # As lazy as the commands.
        from server.commands.look import status

        status(context.ensure_object(Invocation))


turntree.params.append(options.json())
