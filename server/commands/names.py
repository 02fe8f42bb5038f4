"""From what a person types to the ids of the protocol.

SESSION: a full id (`claude-code:<uuid>`), a unique prefix of the native id, or `last`.
TURN: a turn id, a unique prefix of one, or a turn number.  Of digits alone, up to seven are
a number; the eight that listings show of an id never are.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator

import click

from server.commands.invocation import here
from server.render import words
from session.errors import InvalidParams, SessionNotFound, TurnNotFound
from session.model import Boundary, Session, Turn
from session.service import Service
from session.work import Report

KINDS = ("main", "subagent", "sdk")
PAGE = 500
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LEAST = 4
"""Characters of an operation's id: what they name is changed at once."""
_SHOWN = 10
"""How many candidates an ambiguous prefix names."""


async def session(service: Service, name: str) -> str:
    """The id of the session that `name` means.

    A full UUID is taken as it is, without a look at the store, so that a script's command
    costs no listing.  Raises `SessionNotFound`, and `InvalidParams` when several match.
    """
    if name == "last":
        return await _newest(service)
    agent, colon, native = name.rpartition(":")
    agents = [info.agent for info in service.agents()]
    if _UUID.fullmatch(native):
        if colon:
            return name
        if len(agents) == 1:
            return f"{agents[0]}:{native}"
    if not native:
        raise SessionNotFound(f"'{name}' names no session", session_id=name)
    found: dict[str, str | None] = {}
    async for candidate in every_session(service, [agent] if colon else None):
        identity = candidate.session_id.partition(":")[2]
        if identity == native:
            return candidate.session_id
        if identity.startswith(native):
            found[candidate.session_id] = candidate.title
    if not found and len(agents) == 1 and agent in ("", agents[0]):
        # What no listing can show can still be checked, and often repaired.
        skipped = (await service.list_sessions(kinds=list(KINDS), limit=1)).skipped
        for id in filter(None, (words.named_after(file.path) for file in skipped)):
            if id.startswith(native):
                found[f"{agents[0]}:{id}"] = "(not readable)"
    if not found:
        raise SessionNotFound(
            f"no session's id begins with '{words.line(name)}'; "
            "`turntree sessions --all` lists them",
            session_id=name,
        )
    if len(found) > 1:
        listed = "".join(
            f"\n  {words.native(id)}  {words.line(title)}"
            for id, title in list(found.items())[:_SHOWN]
        )
        more = f"\n  and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InvalidParams(
            f"'{words.line(name)}' begins the ids of {len(found)} sessions:{listed}{more}",
            field="session_id",
            candidates=list(found),
        )
    return next(iter(found))


async def _newest(service: Service) -> str:
    directory = here()
    if directory is None:
        raise SessionNotFound("this directory no longer exists", session_id="last")
    page = await service.list_sessions(cwd=directory, limit=1)
    if not page.sessions:
        raise SessionNotFound(
            f"no session in {words.path(directory)} or below it; "
            "`turntree sessions --all` lists those of every directory",
            session_id="last",
        )
    return page.sessions[0].session_id


async def every_session(
    service: Service, agents: list[str] | None = None
) -> AsyncIterator[Session]:
    """All sessions of all kinds, staged and archived ones too, newest first."""
    cursor = None
    while True:
        page = await service.list_sessions(
            agents=agents,
            kinds=list(KINDS),
            include_staged=True,
            include_archived=True,
            limit=PAGE,
            cursor=cursor,
        )
        for one in page.sessions:
            yield one
        cursor = page.next_cursor
        if cursor is None:
            return


async def every_turn(
    service: Service, session_id: str, branch: str, report: Report | None
) -> AsyncIterator[Turn]:
    cursor = None
    while True:
        page = await service.list_turns(
            session_id, branch=branch, limit=PAGE, cursor=cursor, report=report
        )
        for turn in page.turns:
            yield turn
        cursor = page.next_cursor
        if cursor is None:
            return


async def turn(service: Service, session_id: str, name: str, report: Report | None = None) -> str:
    """The id of the turn that `name` means, abandoned branches included.

    Raises `TurnNotFound`, and `InvalidParams` when a prefix has several turns.
    """
    if _UUID.fullmatch(name):
        return name
    if _is_number(name):
        async for one in every_turn(service, session_id, "active", report):
            if one.turn_number == int(name):
                return one.turn_id
        raise TurnNotFound(
            f"{words.short(session_id)} has no turn {name}; "
            f"`turntree turns {words.short(session_id)}` lists its turns",
            turn_id=name,
        )
    found: dict[str, Turn] = {}
    async for one in every_turn(service, session_id, "all", report):
        if one.turn_id == name:
            return name
        if one.turn_id.startswith(name):
            found[one.turn_id] = one
    if not found:
        raise TurnNotFound(
            f"no turn of {words.short(session_id)} has an id that begins with "
            f"'{words.line(name)}'; `turntree turns {words.short(session_id)} --branch all` "
            "lists its turns",
            turn_id=name,
        )
    if len(found) > 1:
        listed = "".join(f"\n  {id}  {words.line(t.prompt)}" for id, t in list(found.items())[:10])
        raise InvalidParams(
            f"'{words.line(name)}' begins the ids of {len(found)} turns:{listed}",
            field="turn_id",
            candidates=list(found),
        )
    return next(iter(found))


def _is_number(name: str) -> bool:
    return len(name) < 8 and name.isascii() and name.isdigit()


async def boundary(
    service: Service,
    session_id: str,
    *,
    at: int | None = None,
    through: str | None = None,
    before: str | None = None,
    by: int | None = None,
    report: Report | None = None,
) -> Boundary:
    """The boundary that one of the options names, `latest` where none is given."""
    if by is not None:
        return Boundary(by=by)
    if at is not None:
        return Boundary(turn_number=at)
    name = through if through is not None else before
    if name is None:
        return Boundary(latest=True)
    if _is_number(name):
        return Boundary(turn_number=int(name) - (before is not None))
    turn_id = await turn(service, session_id, name, report)
    if through is not None:
        return Boundary(through_turn=turn_id)
    return Boundary(before_turn=turn_id)


def at_most_one(*options: object) -> None:
    """Options that say where to cut exclude each other."""
    if sum(value is not None for value in options) > 1:
        raise click.UsageError("Only one option can say where to cut.")


async def branch(service: Service, session_id: str, name: str) -> str:
    """`active`, `all`, or the leaf's id that `name` is or begins."""
    if name in ("active", "all") or _UUID.fullmatch(name):
        return name
    leaves = [b.leaf_id for b in (await service.list_branches(session_id)).branches]
    return _one(name, [leaf for leaf in leaves if leaf.startswith(name)], "branch")


async def operation(service: Service, name: str) -> str:
    """The id of the operation that `name` is or begins; a slip of the finger begins none."""
    if _UUID.fullmatch(name):
        return name
    if len(name) < _LEAST:
        raise InvalidParams(
            f"--operation takes at least {_LEAST} characters of an id; "
            "`turntree operations` lists them",
            field="operation_id",
        )
    return _one(name, await _operations(service, name), "operation_id")


async def is_operation(service: Service, name: str) -> bool:
    """Whether `name` is an operation's id or begins one."""
    return len(name) >= _LEAST and bool(await _operations(service, name))


async def _operations(service: Service, name: str) -> list[str]:
    """The ids of operations that `name` is or else begins."""
    found: list[str] = []
    cursor = None
    while True:
        page = await service.list_operations(limit=PAGE, cursor=cursor)
        ids = [op.operation_id for op in page.operations]
        if name in ids:
            return [name]
        found += [id for id in ids if id.startswith(name)]
        cursor = page.next_cursor
        if cursor is None:
            return found


def _one(name: str, found: list[str], field: str) -> str:
    """The only one of `found`; where there is none, `name` itself, for the engine to refuse."""
    if len(found) > 1:
        listed = "".join(f"\n  {words.line(id)}" for id in found[:_SHOWN])
        raise InvalidParams(
            f"'{words.line(name)}' begins {len(found)} ids:{listed}", field=field, candidates=found
        )
    return found[0] if found else name


def directory(name: str | None) -> str | None:
    """An absolute path for a directory option."""
    return None if name is None else os.path.abspath(os.path.expanduser(name))


def existing_directory(name: str | None) -> str | None:
    """`directory` of one that must be there.  Raises `InvalidParams`."""
    path = directory(name)
    if path is not None and not os.path.isdir(path):
        raise InvalidParams(f"--cwd: there is no directory {words.path(path)}", field="cwd")
    return path


def place(cwd: str | None, everywhere: bool) -> str | None:
    """The directory to list below: `--cwd`, else the current one; None for all of them."""
    if everywhere:
        if cwd is not None:
            raise click.UsageError("--all lists every directory; leave out --cwd.")
        return None
    return directory(cwd) or here()
