"""What the other sessions of a folder tell of a session: strays, and who shares the folder."""

from __future__ import annotations

import contextlib

from session import osfile
from session.agents.claude_code.checking.findings import Findings, count
from session.agents.claude_code.history import History
from session.agents.claude_code.strays import Sibling, search
from session.work import Work


def look(
    history: History,
    siblings: list[Sibling],
    findings: Findings,
    *,
    done: int,
    total: int,
    work: Work,
) -> None:
    """Tell of each sibling that holds records of the session which its own file lacks."""
    shared: dict[str, int] = {}
    seen: set[str] = set()
    for sibling in siblings:
        with contextlib.suppress(OSError):
            found = search(history, sibling, seen, work, done, total)
            seen.update(stray.id for stray in found.strays)
            if found.strays:
                prompts = sum(stray.is_prompt for stray in found.strays)
                findings.add(
                    "stray_records",
                    f"{count(len(found.strays), 'record')} of this session, with "
                    f"{count(prompts, 'prompt')}, stand in another session's file, from line "
                    f"{found.strays[0].line:,} of {sibling.path} on: a program wrote them into the "
                    "wrong file. They are not shown here; the repair collects them.",
                )
            if found.cwd is not None and sibling.path.parent == history.transcript.path.parent:
                shared[found.cwd] = shared.get(found.cwd, 0) + 1
        done += sibling.size
    _tell_shared(history, shared, findings)


def _tell_shared(history: History, shared: dict[str, int], findings: Findings) -> None:
    t = history.transcript
    own = {osfile.real_path(cwd) for cwd in (t.cwd, t.last_cwd) if cwd}
    others = {cwd: n for cwd, n in shared.items() if osfile.real_path(cwd) not in own}
    if own and others:
        (cwd, _), *more = sorted(others.items(), key=lambda pair: (-pair[1], pair[0]))
        also = f" and {count(len(more), 'other directory', 'other directories')}" if more else ""
        findings.add(
            "shared_folder",
            f"Its folder also holds {count(sum(others.values()), 'session')} of {cwd}{also}: "
            "Claude Code gives both the same folder name. `claude --continue` may pick the other "
            "one; resume by id.",
        )
