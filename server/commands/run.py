"""Runs one command line and tells every failure in the one way that was asked for."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import click

from server.commands.group import PROGRAM, turntree
from server.commands.invocation import Invocation, flush, print_error, write_json
from server.render import words
from session.errors import SessionBusy, SessionDamaged, StorageError, TurntreeError

_COMPLETE = f"_{PROGRAM.upper()}_COMPLETE"


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
        with contextlib.suppress(OSError):
            wrong.show()
        return wrong.exit_code
    except TurntreeError as error:
        _fail(invocation, error.code, error.message, error.data, _advice(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        # The engine names its files; what has no name is what this program prints to.
        doing = "The command" if error.filename else "Writing"
        failed = StorageError.from_os(error, doing, error.filename or "standard output")
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
    asked = os.environ.get(_COMPLETE)
    if asked:
        # Only a shell that completes a line gets here.
        from click.shell_completion import shell_complete

        return shell_complete(turntree, {}, PROGRAM, _COMPLETE, asked)
    with turntree.make_context(PROGRAM, arguments, obj=invocation) as context:
        turntree.invoke(context)
    # A full disk shows at the latest here, while it can still become an error.
    flush(sys.stdout)
    return 0


def _fail(
    invocation: Invocation, code: int, message: str, data: dict[str, Any], advice: list[str]
) -> None:
    if invocation.json:
        try:
            write_json({"code": code, "message": message, "data": data})
            return
        except BrokenPipeError:
            raise
        except OSError:
            # Where the result found no room, neither does this.
            advice = []
    # Errors alone are worded anew.
    from server.commands import wording

    print_error("error: " + "\n".join(words.block(wording.of(message))))
    for hint in advice:
        print_error(f"  {hint}")


def _advice(error: TurntreeError) -> list[str]:
    """What to do about an error, where its data says more than its message."""
    data = error.data
    if isinstance(error, SessionBusy) and isinstance(data.get("alternative"), dict):
        params = data["alternative"].get("params") or {}
        if "session_id" in params:
            return [_fork_command(params)]
    if isinstance(error, SessionDamaged):
        hints = []
        for finding in data.get("findings") or []:
            text = getattr(finding, "message", None) or str(finding)
            line = getattr(finding, "line", None)
            said = not line or text.startswith(f"Line {line} ")
            hints.append(words.line(text if said else f"line {line:,}: {text}"))
        return hints[:10]
    return []


def _fork_command(params: dict[str, Any]) -> str:
    command = ["turntree", "fork", words.short(str(params["session_id"]))]
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
