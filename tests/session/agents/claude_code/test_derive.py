"""The index that a fork makes from its source's is the one that a scan of the child makes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.store import ClaudeStore
from session.agents.claude_code.transcript import Transcript
from session.errors import SessionDamaged
from session.model import Boundary
from session.work import Work
from tests.session.agents.claude_code.stories import Story, stories
from tests.session.agents.claude_code.test_refresh import Writer, columns

CHILD = "00000000-0000-4000-8000-00000000c41d"


def built(folder: Path, path: Path, count: int, cwd: str | None, bridge: bool) -> Transcript | None:
    """The child's index as `build_fork` left it, the child published; None: no fork, no file."""
    agent = ClaudeCode(ClaudeStore(folder))
    history = agent.open(path, native_id=path.stem, work=Work())
    if not 0 < count <= history.turn_count:
        return None
    cut = history.cut(Boundary(turn_number=count))
    try:
        plan = agent.plan_fork(
            history, cut, child_id=CHILD, title="A fork", cwd=cwd, bridge_gaps=bridge
        )
    except SessionDamaged:
        assert not bridge
        return None
    agent.build_fork(history, plan, Work())
    plan.stage.publish("fork")
    assert plan.stage.destination is not None
    return agent.open(plan.stage.destination, native_id=CHILD, work=Work()).transcript


def known(child: Transcript) -> dict[str, Any]:
    """What the index says, but for titles that the child's own title takes precedence over."""
    return {k: v for k, v in columns(child).items() if k not in ("ai_title", "summary")}


def known_by_scan(child: Transcript) -> dict[str, Any]:
    scanned = Transcript(child.path)
    scanned.refresh()
    return known(scanned)


@given(
    stories(),
    st.integers(1, 6),
    st.sampled_from([None, "/elsewhere 新聞"]),
    st.booleans(),
    st.sets(st.integers(0, 30), max_size=2),
    st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=3),
)
def test_the_derived_index_is_that_of_a_scan_also_after_later_appends(
    story: Story,
    count: int,
    cwd: str | None,
    bridge: bool,
    left_out: set[int],
    later: list[tuple[bool, int]],
) -> None:
    story.transcript.records = [
        record for at, record in enumerate(story.transcript.records) if at not in left_out
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = story.transcript.write(folder)
        note(story.outline())
        child = built(folder, path, count, cwd, bridge)
        if child is None:
            return
        assert known(child) == known_by_scan(child)
        writer = Writer(child.path, [])
        for rewinds, a in later:
            (writer.rewind if rewinds else writer.branch)(a)
            child.refresh()
            note(f"{'rewind' if rewinds else 'branch'} {a}")
            assert known(child) == known_by_scan(child)
