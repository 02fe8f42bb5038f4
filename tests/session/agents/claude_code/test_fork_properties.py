"""What holds for a fork of any transcript at any turn."""

from __future__ import annotations

import tempfile
from pathlib import Path

from attrs import define
from hypothesis import given, note
from hypothesis import strategies as st

from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.history import History
from session.agents.claude_code.store import ClaudeStore
from session.model import Boundary
from session.work import Work
from tests.session.agents.claude_code.slow import Conversation, edited, lines_of
from tests.session.agents.claude_code.stories import MARK, Story, stories
from tests.world import assert_untouched, store_hash

CHILD = "00000000-0000-4000-8000-00000000c41d"
GRANDCHILD = "00000000-0000-4000-8000-0000000c41d2"


@define
class Forking:
    """One store with one session, which is forked."""

    root: Path

    def open(self, path: Path) -> History:
        return ClaudeCode(ClaudeStore(self.root)).open(path, native_id=path.stem, work=Work())

    def fork(
        self, path: Path, at: Boundary, child: str = CHILD, cwd: str | None = None
    ) -> Path | None:
        """The child's file; None for a fork of no turns."""
        agent = ClaudeCode(ClaudeStore(self.root))
        history = agent.open(path, native_id=path.stem, work=Work())
        plan = agent.plan_fork(
            history, history.cut(at), child_id=child, title="A fork", cwd=cwd, bridge_gaps=False
        )
        agent.build_fork(history, plan, Work())
        plan.stage.publish("fork")
        return plan.stage.destination


def all_turns(history: History) -> list[tuple[str, str, int]]:
    turns = history.turns(range(1, history.turn_count + 1))
    return [(t.turn_id, t.prompt, t.tool_calls) for t in turns]


def at_turn(story: Story, data: st.DataObject) -> int:
    return data.draw(st.integers(0, len(Conversation(story).turn_ids)), label="turns kept")


@given(stories())
def test_the_turns_of_any_transcript_are_its_prompts_from_the_root_to_the_leaf(
    story: Story,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = story.transcript.write(folder)
        history = Forking(Path(folder)).open(path)
        slow = Conversation(story)
        note(story.outline())
        assert [turn_id for turn_id, _, _ in all_turns(history)] == slow.turn_ids
        assert history.leaf_id == slow.last_spoken


@given(stories(), st.data())
def test_a_fork_has_the_first_turns_of_its_source_and_every_other_byte_as_it_was(
    story: Story, data: st.DataObject
) -> None:
    count = at_turn(story, data)
    cwd = data.draw(st.sampled_from([None, "/elsewhere 新聞"]), label="cwd")
    with tempfile.TemporaryDirectory() as folder:
        forking = Forking(Path(folder))
        path = story.transcript.write(folder)
        before = store_hash(Path(folder))
        note(story.outline())
        child = forking.fork(path, Boundary(turn_number=count), cwd=cwd)
        assert_untouched(before, Path(folder))
        if child is None:
            assert not count
            return
        slow, made = Conversation(story), child.read_bytes()
        # The same turns.
        source = all_turns(forking.open(path))
        assert all_turns(forking.open(child)) == source[:count]
        # What was said in them, and nothing of what came later.
        lines = lines_of(made)
        present = {line.record.get("uuid") for line in lines}
        assert slow.kept(count) <= present
        assert set(MARK.findall(made)) <= slow.allowed(count)
        # Every result has its call.
        calls = {call for line in lines for call in line.calls}
        assert all(line.results <= calls for line in lines)
        # Every line is one of the source's, but for who and where the session is.
        values = {"sessionId": CHILD}
        if cwd is not None:
            values["cwd"] = cwd
        if any(line.record.get("entrypoint") not in (None, "cli") for line in slow.lines):
            values["entrypoint"] = "cli"
        originals = iter([edited(line.raw, **values) for line in slow.lines])
        assert made.endswith(b"\n")
        copied = [line for line in made.split(b"\n")[:-3] if line.strip()]
        strays = [line for line in copied if line not in originals]
        assert not strays


@given(stories(), st.data())
def test_a_fork_of_a_fork_is_the_fork(story: Story, data: st.DataObject) -> None:
    count = at_turn(story, data)
    more = data.draw(st.integers(count, len(Conversation(story).turn_ids)), label="kept first")
    if not count:
        return
    with tempfile.TemporaryDirectory() as folder:
        forking = Forking(Path(folder))
        path = story.transcript.write(folder)
        note(story.outline())
        direct = forking.fork(path, Boundary(turn_number=count), child=GRANDCHILD)
        assert direct is not None
        expected = direct.read_bytes()
        direct.unlink()
        between = forking.fork(path, Boundary(turn_number=more))
        assert between is not None
        again = forking.fork(between, Boundary(turn_number=count), child=GRANDCHILD)
        assert again is not None
        # The title names the parent, which is another.
        assert again.read_bytes().split(b"\n")[:-3] == expected.split(b"\n")[:-3]


@given(stories(), st.data())
def test_a_fork_at_a_turn_of_any_branch_is_the_path_from_the_root_to_it(
    story: Story, data: st.DataObject
) -> None:
    slow = Conversation(story)
    turn_id = data.draw(st.sampled_from(sorted(story.opening) or [""]), label="turn")
    through = data.draw(st.booleans(), label="through")
    if not turn_id:
        return
    path_to = [uid for uid in slow.path(turn_id) if uid in story.opening]
    with tempfile.TemporaryDirectory() as folder:
        forking = Forking(Path(folder))
        path = story.transcript.write(folder)
        note(story.outline())
        if through:
            child, kept = forking.fork(path, Boundary(through_turn=turn_id)), path_to
        else:
            child, kept = forking.fork(path, Boundary(before_turn=turn_id)), path_to[:-1]
        if child is None:
            assert not kept
            return
        assert [t for t, _, _ in all_turns(forking.open(child))] == kept
        lines = lines_of(child.read_bytes())
        calls = {call for line in lines for call in line.calls}
        assert all(line.results <= calls for line in lines)
        others = story.opening - set(kept)
        prompts = {m for uid in others for m in slow.by_id[uid].marks}
        kept_marks = {m for uid in kept for m in slow.by_id[uid].marks}
        assert not set(MARK.findall(child.read_bytes())) & (prompts - kept_marks)
