"""Records of another session in a session's file (F024, F025)."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from session.agents.claude_code import transcript as transcripts
from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.store import ClaudeStore
from session.model import Boundary
from session.work import Work
from tests.builders import Transcript
from tests.session.agents.claude_code.opened import opened, opened_file, prompts


def two(turns: int = 3) -> tuple[Transcript, Transcript]:
    """Two sessions in one directory, at the same time."""
    mine, other = Transcript(seed=1), Transcript(seed=2)
    for n in range(turns):
        mine.turn(f"mine {n}", "my answer")
        other.turn(f"other {n}", "other answer")
    return mine, other


def test_every_third_line_of_another_session_adds_no_turn(tmp_path: Path) -> None:
    mine, other = two(6)
    own = list(mine.records)
    for at, record in enumerate(other.records):
        mine.records.insert(min(3 * at + 2, len(mine.records)), record)
    history = opened(tmp_path, mine)
    assert prompts(history) == [f"mine {n}" for n in range(6)]
    assert history.leaf_id == own[-1]["uuid"]
    assert len(history.branches()) == 1 and not history.gaps()
    assert history.transcript.foreign_lines().keys() == {other.session_id}


def test_a_tail_that_belongs_to_another_session_is_neither_the_leaf_nor_the_latest_time(
    tmp_path: Path,
) -> None:
    mine, other = two()
    last = mine.records[-1]
    assert isinstance(last, dict)
    other.wait(3600)
    other.turn("other, later")
    other.append({"type": "custom-title", "customTitle": "other's", "sessionId": other.session_id})
    other.append({"type": "last-prompt", "leafUuid": other.head, "sessionId": other.session_id})
    other.cwd = "/home/ada/elsewhere"
    other.turn("other, elsewhere")
    mine.records += other.records[3:]
    history = opened(tmp_path, mine)
    assert prompts(history) == ["mine 0", "mine 1", "mine 2"]
    assert history.summary.updated_at == last["timestamp"]
    assert history.summary.title == "mine 0"
    assert history.summary.last_cwd == mine.cwd


def test_a_file_copied_under_another_name_is_listed_whole(tmp_path: Path) -> None:
    mine, other = two()
    path = mine.write(tmp_path)
    copy = path.with_name(f"{other.session_id}.jsonl")
    copy.write_bytes(path.read_bytes())
    history = opened_file(tmp_path, copy)
    assert prompts(history) == ["mine 0", "mine 1", "mine 2"]
    assert not history.transcript.foreign_lines()


def test_records_on_which_own_ones_hang_count_as_the_sessions_own(tmp_path: Path) -> None:
    older, newer = Transcript(seed=1), Transcript(seed=2)
    older.turns(2)
    newer.head = older.head
    newer.turn("went on under a new id")
    newer.records = [*older.records, *newer.records]
    history = opened(tmp_path, newer)
    assert prompts(history) == ["question 1", "question 2", "went on under a new id"]
    assert not history.gaps()


def test_a_record_that_hangs_on_own_ones_is_own_whatever_id_it_carries(tmp_path: Path) -> None:
    mine, _ = two(1)
    mine.session_id, kept = "0c0ffee0-0000-4000-8000-000000000000", mine.session_id
    mine.turn("went on under another id")
    mine.session_id = kept
    assert prompts(opened(tmp_path, mine)) == ["mine 0", "went on under another id"]


def test_a_foreign_record_does_not_stand_for_an_own_one_with_its_id(tmp_path: Path) -> None:
    mine, _ = two(1)
    first = mine.records[0]
    assert isinstance(first, dict)
    theirs = {**first, "sessionId": "0c0ffee0-0000-4000-8000-000000000000"}
    mine.records.insert(0, theirs)
    assert prompts(opened(tmp_path, mine)) == ["mine 0"]


def test_foreign_records_that_are_added_later_change_nothing(tmp_path: Path) -> None:
    mine, other = two()
    path = mine.write(tmp_path)
    agent = ClaudeCode(ClaudeStore(tmp_path))
    before = agent.open(path, native_id=mine.session_id, work=Work())
    with path.open("ab") as file:
        file.write(other.dump())
    after = agent.open(path, native_id=mine.session_id, work=Work())
    assert after.summary.revision == before.summary.revision
    assert prompts(after) == prompts(before)


def test_a_fork_leaves_foreign_records_out(tmp_path: Path) -> None:
    mine, other = two()
    mine.records += other.records
    agent = ClaudeCode(ClaudeStore(tmp_path))
    history = agent.open(mine.write(tmp_path), native_id=mine.session_id, work=Work())
    child_id = agent.new_id()
    plan = agent.plan_fork(
        history,
        history.cut(Boundary(latest=True)),
        child_id=child_id,
        title="child",
        cwd=None,
        bridge_gaps=False,
    )
    agent.build_fork(history, plan, Work())
    lines = [json.loads(line) for line in plan.stage.file.read_bytes().splitlines()]
    assert {line["sessionId"] for line in lines} == {child_id}
    assert len(lines) == 6 + 2


def test_a_fork_of_a_copied_file_carries_its_own_id_in_every_record(tmp_path: Path) -> None:
    mine, other = two()
    path = mine.write(tmp_path)
    copy = path.with_name(f"{other.session_id}.jsonl")
    copy.write_bytes(path.read_bytes())
    agent = ClaudeCode(ClaudeStore(tmp_path))
    history = agent.open(copy, native_id=other.session_id, work=Work())
    child_id = agent.new_id()
    plan = agent.plan_fork(
        history,
        history.cut(Boundary(turn_number=2)),
        child_id=child_id,
        title="child",
        cwd=None,
        bridge_gaps=False,
    )
    agent.build_fork(history, plan, Work())
    lines = [json.loads(line) for line in plan.stage.file.read_bytes().splitlines()]
    assert {line["sessionId"] for line in lines} == {child_id}


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_however_two_sessions_are_interleaved_each_turn_of_one_is_listed_once(
    tmp_path_factory, data: st.DataObject
) -> None:
    mine, other = two(data.draw(st.integers(1, 4)))
    wanted = [f"mine {n}" for n in range(len(mine.prompts))]
    theirs = list(other.records)
    own = list(mine.records)
    mine.records = []
    while own or theirs:
        take_own = own and (not theirs or data.draw(st.booleans()))
        mine.records.append((own if take_own else theirs).pop(0))
    path = tmp_path_factory.mktemp("mixed") / f"{mine.session_id}.jsonl"
    path.write_bytes(mine.dump())
    whole = transcripts.Transcript(path)
    whole.refresh()
    found = [whole.uuid_at(whole.chain[at]) for at in whole.turn_starts]
    assert found == mine.prompts and len(found) == len(wanted)

    # Indexed in two steps it is the same.
    cut = data.draw(st.integers(0, len(mine.records)))
    stepped = transcripts.Transcript(path)
    lines = mine.dump().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:cut]))
    stepped.refresh()
    with path.open("ab") as file:
        file.write(b"".join(lines[cut:]))
    stepped.refresh()
    assert stepped.kinds == whole.kinds and stepped.chain == whole.chain
