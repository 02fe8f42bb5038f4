"""The arguments and options that several commands share, and the look of their help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from server.commands import completion
from server.commands.invocation import Invocation
from server.render import words

Command = TypeVar("Command", bound=Callable[..., Any])
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 96}


def command(
    name: str, *examples: str, answers: bool = True
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command with `-h`, its examples at the end of the help, and `--json` if it `answers`."""

    def make(function: Callable[..., Any]) -> click.Command:
        epilog = "\b\nExamples:\n" + "".join(f"  {example}\n" for example in examples)
        made = click.command(name, context_settings=HELP, epilog=epilog)(function)
        if answers:
            made.params.append(json())
        return made

    return make


def json() -> click.Option:
    return click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_choose_json,
        help="Print the result as the server answers it.",
    )


def _choose_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Invocation).json = True


def session(function: Command) -> Command:
    return click.argument("session", shell_complete=completion.sessions)(function)


def staged_session(function: Command) -> Command:
    return click.argument("session", shell_complete=completion.staged)(function)


def optional_session(function: Command) -> Command:
    return click.argument("session", required=False, shell_complete=completion.sessions)(function)


def limit(function: Command) -> Command:
    return click.option(
        "--limit",
        type=click.IntRange(1, 500),
        default=50,
        show_default=True,
        metavar="N",
        help="At most this many.",
    )(function)


def cursor(function: Command) -> Command:
    return click.option("--cursor", help="Go on where the page before ended.")(function)


def again(**resolved: str) -> str:
    """The command line that is running, less `--cursor`, to go on with.

    `resolved` gives what stands for a value that may mean something else by then.
    """
    context = click.get_current_context()
    typed = [
        parameter
        for parameter in context.command.params
        if parameter.name in context.params
        and parameter.name != "cursor"
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    arguments, options = [], []
    for parameter in typed:
        name = parameter.name or ""
        value = context.params[name]
        if isinstance(parameter, click.Argument):
            arguments.append(words.quote(resolved.get(name, str(value))))
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            options.append(parameter.opts[0])
        else:
            for one in value if isinstance(value, tuple) else (value,):
                options += [parameter.opts[0], words.quote(resolved.get(name, str(one)))]
    return " ".join([context.command_path, *arguments, *options])


def cwd(help: str) -> Callable[[Command], Command]:
    return click.option("--cwd", type=click.Path(file_okay=False), metavar="DIR", help=help)


def staged(function: Command) -> Command:
    return click.option("--staged", is_flag=True, help="Forks that are staged, too.")(function)


def yes(function: Command) -> Command:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask first.")(function)


class _Count(click.IntRange):
    """How many turns to keep; a turn's id in its place is told where it belongs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not value.lstrip("-").isdigit():
            self.fail(f"'{value}' is no number; --through takes the id of a turn.", param, ctx)
        return super().convert(value, param, ctx)


def at(help: str) -> Callable[[Command], Command]:
    return click.option("--at", type=_Count(0), metavar="N", help=help)


def turn_option(name: str, help: str) -> Callable[[Command], Command]:
    return click.option(
        name, metavar="TURN", help=help, shell_complete=completion.turns, callback=_from_one
    )


def _from_one(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and value.isdigit() and int(value) == 0:
        raise click.BadParameter("turn numbers begin at 1", param=parameter)
    return value


def dry_run(function: Command) -> Command:
    return click.option("--dry-run", is_flag=True, help="Say what would happen and write nothing.")(
        function
    )


def wait_ms(function: Command) -> Command:
    return click.option(
        "--wait-ms",
        type=click.IntRange(0),
        default=2000,
        show_default=True,
        metavar="MS",
        help="How long to wait for another writer of the session.",
    )(function)


def expect_revision(function: Command) -> Command:
    return click.option(
        "--expect-revision",
        metavar="REVISION",
        help="Refuse if the session's history is no longer this one.",
    )(function)
