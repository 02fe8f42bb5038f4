"""A file that becomes another one between being indexed and being read is told as that."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from session import osfile
from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.history import History
from session.agents.claude_code.store import ClaudeStore
from session.errors import StorageError
from session.model import Boundary, Repairs
from session.scratch import Scratch
from session.work import Work
from tests.builders import Transcript

CHILD = "5e551014-0000-4000-8000-00000000000c"


def _check(agent: ClaudeCode, history: History) -> object:
    return agent.check(history, siblings=False, work=Work())


def _turns(agent: ClaudeCode, history: History) -> object:
    return history.turns(range(1, history.turn_count + 1))


def _fork(agent: ClaudeCode, history: History) -> object:
    plan = agent.plan_fork(
        history,
        history.cut(Boundary(latest=True)),
        child_id=CHILD,
        title="child",
        cwd=None,
        bridge_gaps=True,
    )
    try:
        return agent.build_fork(history, plan, Work())
    finally:
        plan.stage.remove()


def _repair(agent: ClaudeCode, history: History) -> object:
    scratch = Scratch(agent.store.root)
    plan = agent.plan_repair(
        history,
        child_id=CHILD,
        title="child",
        cwd=None,
        wanted=Repairs(),
        scratch=scratch,
        work=Work(),
    )
    try:
        return agent.build_fork(history, plan, Work())
    finally:
        plan.stage.remove()


VERBS = (_turns, _fork, _repair)


def _opened(folder: Path) -> tuple[ClaudeCode, History, Path]:
    t = Transcript()
    t.turns(20)
    # Calls that a repair mends and a gap that a fork joins, so that lines are changed.
    t.prompt("one more")
    t.tool("Bash", {"command": "ls"}, None)
    t.answer()
    t.drop(t.messages()[20]["uuid"])
    path = t.write(folder)
    agent = ClaudeCode(ClaudeStore(folder))
    return agent, agent.open(path, native_id=path.stem, work=Work()), path


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("shift", [1, 150, 700, 5000])
def test_a_file_whose_lines_stand_elsewhere_now_is_said_to_be_rewritten(
    tmp_path: Path, verb: Callable[[ClaudeCode, History], object], shift: int
) -> None:
    agent, history, path = _opened(tmp_path)
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes()[shift:] + b"x" * shift)
    other.replace(path)
    with pytest.raises(StorageError, match=r"rewritten|became shorter"):
        verb(agent, history)


@pytest.mark.parametrize("verb", [*VERBS, _check])
def test_a_read_that_fails_names_its_file(
    tmp_path: Path,
    verb: Callable[[ClaudeCode, History], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, history, path = _opened(tmp_path)

    def fail(fd: int, size: int, offset: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(osfile, "pread", fail)
    with pytest.raises(OSError, match="Input/output error") as failure:
        verb(agent, history)
    assert failure.value.filename == str(path)
