"""Commands about the program itself: the server, and completion in a shell."""

from __future__ import annotations

import sys

import click

from server.commands import completion as completing
from server.commands import options


@options.command("serve", "turntree serve --log-level debug", answers=False)
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


@options.command(
    "completion", *(completing.INSTALL[shell] for shell in completing.SHELLS), answers=False
)
@click.argument("shell", type=click.Choice(completing.SHELLS))
def completion(shell: str) -> None:
    """Print a shell's completion script.

    Its first line says how to install it.
    """
    click.echo(completing.script(shell), nl=False)
