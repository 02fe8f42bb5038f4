"""Shell completion: the scripts, and the values they ask for.

A shell starts the program anew for each press of the key, so what is asked stays small;
and nobody wants an error in the middle of a line, so whatever fails answers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click

from server.commands import names
from server.render import words
from session.service import Service
from session.work import at_once

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
INSTALL = {
    "bash": "turntree completion bash > ~/.local/share/bash-completion/completions/turntree",
    "zsh": "echo 'eval \"$(turntree completion zsh)\"' >> ~/.zshrc",
    "fish": "turntree completion fish > ~/.config/fish/completions/turntree.fish",
}
_OFFERED = 50


def script(shell: str) -> str:
    """The completion script of a shell, with how to install it in its first lines."""
    # Only this command and the shells need it.
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    template = {"prog_name": "turntree", "complete_var": "_TURNTREE_COMPLETE"}
    body = kind.source_template % {**template, "complete_func": "_turntree_completion"}
    head = "#compdef turntree\n" if shell == "zsh" else ""
    return f"{head}# Install with:  {INSTALL[shell]}\n{body.removeprefix(head).lstrip()}"


def sessions(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Session ids that begin as typed, with their titles: this directory's, else all."""

    async def ask(service: Service) -> list[tuple[str, str]]:
        out = []
        page = await service.list_sessions(cwd=os.getcwd(), include_staged=True, limit=_OFFERED)
        for one in page.sessions:
            if words.native(one.session_id).startswith(incomplete):
                out.append((words.native(one.session_id), words.line(one.title)))
        if not out:
            async for one in names.every_session(service):
                if words.native(one.session_id).startswith(incomplete):
                    out.append((words.native(one.session_id), words.line(one.title)))
                if len(out) == _OFFERED:
                    break
        return out

    found = _quietly(ask)
    if "last".startswith(incomplete):
        found.append(("last", "the newest in this directory"))
    return _items(found)


def staged(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Ids of staged sessions that begin as typed, with their titles."""

    async def ask(service: Service) -> list[tuple[str, str]]:
        return [
            (words.native(one.session_id), words.line(one.title))
            async for one in names.every_session(service)
            if one.state == "staged" and words.native(one.session_id).startswith(incomplete)
        ]

    return _items(_quietly(ask)[:_OFFERED])


def turns(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Numbers of the newest turns of the session that the line names, with their prompts."""
    # Behind an option that still lacks its value, click leaves the arguments unassigned.
    session = context.params.get("session") or next(iter(context.args), None)
    if not session:
        return []

    async def ask(service: Service) -> list[tuple[str, str]]:
        session_id = await names.session(service, session)
        page = await service.list_turns(session_id, order="newest", limit=_OFFERED)
        return [
            (str(turn.turn_number), words.line(turn.prompt))
            for turn in page.turns
            if str(turn.turn_number).startswith(incomplete)
        ]

    return _items(_quietly(ask))


def operations(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Ids of the newest operations, with what they did."""

    async def ask(service: Service) -> list[tuple[str, str]]:
        page = await service.list_operations(limit=_OFFERED)
        return [
            (operation.operation_id, words.line(operation.summary))
            for operation in page.operations
            if operation.kind in ("fork", "repair", "rewind")
            and operation.operation_id.startswith(incomplete)
        ]

    return _items(_quietly(ask))


def repairs(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Names of repairs, with what they do."""
    return _items([(n, does) for n, does in words.REPAIRS.items() if n.startswith(incomplete)])


def _quietly(
    ask: Callable[[Service], Coroutine[Any, Any, list[tuple[str, str]]]],
) -> list[tuple[str, str]]:
    async def inside() -> list[tuple[str, str]]:
        service = await Service.open(program="turntree")
        try:
            return await ask(service)
        finally:
            await service.close()

    try:
        return at_once(inside())
    except Exception:
        return []


def _items(found: list[tuple[str, str]]) -> list[CompletionItem[str]]:
    # Loaded already when a shell asks; on other starts nothing comes here.
    from click.shell_completion import CompletionItem

    return [CompletionItem(value, help=help[:80] or None) for value, help in found]
