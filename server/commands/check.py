"""`turntree check`: what is wrong with a session, or with all of them."""

from __future__ import annotations

from typing import Any

import click
from attrs import define, field

from server.commands import names, options
from server.commands.invocation import Invocation
from server.render import checks as render
from server.render import sessions as render_sessions
from server.render import words
from session.errors import TurntreeError
from session.model import Finding, FindingList, Session, Skipped, Warn
from session.service import Service
from session.work import Report

_KINDS = ["main", "sdk"]
_FOUND = 3


@define
class _All:
    """What checking every session found: only sessions with findings are kept."""

    checked: int = 0
    found: list[tuple[Session, list[Finding]]] = field(factory=list)
    failed: list[tuple[str, str]] = field(factory=list)
    skipped: list[Skipped] = field(factory=list)

    def answer(self) -> dict[str, Any]:
        return {
            "sessions": [
                {"session_id": session.session_id, "findings": findings}
                for session, findings in self.found
            ],
            "checked": self.checked,
            "failed": [{"session_id": name, "message": message} for name, message in self.failed],
            "skipped": self.skipped,
        }

    def warnings(self) -> list[Warn]:
        unread = [
            Warn("failed", f"{words.short(name)} could not be checked: {message}")
            for name, message in self.failed
        ]
        return unread + render_sessions.skipped_files(self.skipped)


@options.command(
    "check",
    "turntree check last",
    "turntree check 3cb974f6 --json | jq -r '.findings[].code'",
    "turntree check --all",
)
@options.optional_session
@click.option("--all", "everywhere", is_flag=True, help="Every session of every directory.")
@click.option(
    "--exit-code",
    is_flag=True,
    help=f"Leave with {_FOUND} when something is wrong: an error or a warning.",
)
@click.pass_obj
def check(run: Invocation, session: str | None, everywhere: bool, exit_code: bool) -> None:
    """Say what is wrong with a session.

    Damage to its file, turns that its agent loses or its model refuses, and what may happen to
    it.  Without SESSION, the newest of this directory.  Nothing is written.

    With --all, only sessions that something is wrong with are shown, and the files of a folder
    are not searched for records of each other.
    """
    if everywhere:
        if session is not None:
            raise click.UsageError("SESSION and --all exclude each other")
        wrong = _check_all(run)
    else:
        wrong = _check_one(run, session or "last")
    if exit_code and wrong:
        raise click.exceptions.Exit(_FOUND)


def _check_one(run: Invocation, name: str) -> bool:
    async def work(service: Service) -> tuple[Session, FindingList]:
        session_id = await names.session(service, name)
        result = await service.check_session(session_id, report=run.report)
        return (await service.get_session(session_id)).session, result

    session, result = run.engine(work)
    run.emit(result, lambda: render.one(session, result.findings))
    return _is_wrong(result.findings)


def _check_all(run: Invocation) -> bool:
    async def work(service: Service) -> _All:
        every: list[Session] = []
        out = _All()
        cursor = None
        while True:
            page = await service.list_sessions(kinds=_KINDS, limit=names.PAGE, cursor=cursor)
            every += page.sessions
            out.skipped, cursor = page.skipped, page.next_cursor
            if cursor is None:
                break
        for number, session in enumerate(every, 1):
            try:
                result = await service.check_session(
                    session.session_id,
                    include_siblings=False,
                    report=_counted(run, number, len(every)),
                )
            except TurntreeError as error:
                out.failed.append((session.session_id, error.message))
                continue
            out.checked += 1
            if result.findings:
                out.found.append((session, result.findings))
        return out

    result = run.engine(work)
    run.emit(
        result.answer(),
        lambda: render.several(result.found, result.checked, len(result.failed)),
        result.warnings(),
    )
    wrong = any(_is_wrong(findings) for _, findings in result.found)
    return wrong or bool(result.failed)


def _counted(run: Invocation, number: int, count: int) -> Report:
    def report(done: int, total: int, _doing: str) -> None:
        run.report(done, total, f"Checking session {number:,} of {count:,}")

    return report


def _is_wrong(findings: list[Finding]) -> bool:
    return any(finding.severity != "info" for finding in findings)
