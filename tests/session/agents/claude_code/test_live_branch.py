"""Which branch of a transcript is the live one, and what is told of the others.

The rules are those of the agent, found by looking at what it sends (docs/claude-code.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Transcript
from tests.session.agents.claude_code.opened import all_turns, items, opened, prompts


def five() -> Transcript:
    t = Transcript(seed=5)
    for number in range(1, 6):
        t.turn(f"p{number}", f"a{number}")
    return t


def end_of(t: Transcript, turn: int) -> str:
    """The last record of a turn of `five`."""
    record = t.messages()[2 * turn - 1]
    return str(record["uuid"])


def test_without_a_pointer_the_newest_record_is_the_leaf(tmp_path: Path) -> None:
    t = five()
    t.branch_from(end_of(t, 2))
    t.turn("p3b")
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3b"]


def test_a_plain_pointer_above_the_newest_record_is_not_followed(tmp_path: Path) -> None:
    t = five()
    t.last_prompt("p2", end_of(t, 2))
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3", "p4", "p5"]


def test_a_plain_pointer_to_another_branch_than_the_newest_is_followed(tmp_path: Path) -> None:
    t = five()
    t.last_prompt("p5")
    t.branch_from(end_of(t, 2))
    t.turn("p3b")
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3", "p4", "p5"]
    t.last_prompt("p3b")
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3b"]


def test_an_explicit_pointer_is_followed(tmp_path: Path) -> None:
    t = five()
    t.rewind_pointer(end_of(t, 2))
    assert prompts(opened(tmp_path, t)) == ["p1", "p2"]


def test_an_explicit_pointer_to_nothing_empties_the_session(tmp_path: Path) -> None:
    t = five()
    t.rewind_pointer(None)
    history = opened(tmp_path, t)
    assert history.turn_count == 0
    assert history.leaf_id is None
    assert [b.active for b in history.branches()] == [True, False]


def test_a_message_after_an_explicit_pointer_takes_it_away(tmp_path: Path) -> None:
    t = five()
    t.rewind_pointer(end_of(t, 2))
    t.branch_from(end_of(t, 5))
    t.turn("p6")
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3", "p4", "p5", "p6"]


def test_what_is_said_after_a_rewind_goes_on_from_there(tmp_path: Path) -> None:
    t = five()
    t.rewind_pointer(end_of(t, 2))
    t.turn("p3b")
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3b"]
    t.rewind_pointer(None)
    t.turn("anew")
    assert prompts(opened(tmp_path, t)) == ["anew"]


def test_a_pointer_to_a_record_that_is_not_there_is_no_pointer(tmp_path: Path) -> None:
    t = five()
    t.rewind_pointer("11111111-1111-4111-8111-111111111111")
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3", "p4", "p5"]


def test_a_pointer_to_a_system_record_means_what_was_said_before_it(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.turn("p1")
    end = t.turn_duration()
    t.turn("p2")
    t.rewind_pointer(end)
    assert prompts(opened(tmp_path, t)) == ["p1"]


def test_side_chains_never_are_the_leaf(tmp_path: Path) -> None:
    t = five()
    last = t.sidechain("look", "looked")
    t.last_prompt("look", last)
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3", "p4", "p5"]


def test_records_before_their_prompt_belong_to_its_turn(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    first = t.prompt("p1")
    answer = t.answer("a1")
    duration = t.turn_duration()
    t.move_before(answer, first)
    t.move_before(duration, first)
    t.turn("p2", "a2")
    turns = all_turns(opened(tmp_path, t))
    assert [(x.prompt, x.response) for x in turns] == [("p1", "a1"), ("p2", "a2")]


def test_equal_and_missing_timestamps_change_no_order(tmp_path: Path) -> None:
    t = five()
    for number, record in enumerate(t.messages()):
        if number % 2:
            del record["timestamp"]
        else:
            record["timestamp"] = "2026-01-31T09:00:00.000Z"
    turns = all_turns(opened(tmp_path, t))
    assert [x.prompt for x in turns] == ["p1", "p2", "p3", "p4", "p5"]
    assert turns[0].started_at == turns[0].ended_at == "2026-01-31T09:00:00.000Z"


def test_the_first_record_with_an_id_wins(tmp_path: Path) -> None:
    t = five()
    again = dict(t.messages()[0])
    again["message"] = {"role": "user", "content": "another text"}
    again["parentUuid"] = t.head
    t.append(again)
    t.turn("p6")
    assert prompts(opened(tmp_path, t))[0] == "p1"
    assert len(prompts(opened(tmp_path, t))) == 6


def test_records_are_found_again_however_far_back_they_are(tmp_path: Path) -> None:
    t = Transcript(seed=6)
    t.turn("p1", "a1")
    first_end = t.head
    before = [dict(record) for record in t.messages()]
    for number in range(2, 4600):
        t.turn(f"p{number}")
    # Written again as after a compaction, and by a program that went on from the end.
    for record in before:
        t.append({**record, "parentUuid": None})
    for record in before:
        t.append({**record, "parentUuid": t.head})
    t.branch_from(first_end)
    t.turn("far")
    t.last_prompt("far")
    history = opened(tmp_path, t)
    assert prompts(history) == ["p1", "far"]
    assert [b.turn_count for b in history.branches()] == [2, 4599]
    assert history.gaps() == []


def test_a_snapshots_id_is_not_a_messages(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("p1")
    record = {"type": "file-history-snapshot", "messageId": "X", "snapshot": {"messageId": "X"}}
    t.append(record)
    t.prompt("p2", uuid="X")
    t.answer("a2")
    turns = all_turns(opened(tmp_path, t))
    assert [(x.prompt, x.turn_id) for x in turns][1] == ("p2", "X")


def test_records_that_form_a_circle_end_somewhere(tmp_path: Path) -> None:
    t = five()
    turn_id = t.prompt("round")
    answer = t.answer("and round")
    t.find(turn_id)["parentUuid"] = answer
    history = opened(tmp_path, t)
    assert "round" in prompts(history)
    assert history.branches()
    assert history.turns_of(history.branch_turns("all"))


def test_a_record_that_is_its_own_parent_ends_there(tmp_path: Path) -> None:
    t = five()
    turn_id = t.prompt("me")
    t.find(turn_id)["parentUuid"] = turn_id
    t.answer("done")
    assert prompts(opened(tmp_path, t))[-1] == "me"


# Branches


def test_every_leaf_is_a_branch_with_its_last_prompt_its_size_and_where_it_left(
    tmp_path: Path,
) -> None:
    t = five()
    turns = list(t.prompts)
    t.branch_from(end_of(t, 3))
    t.turn("p4b", "a4b")
    left = t.head
    t.branch_from(end_of(t, 1))
    t.turn("p2c", "a2c")
    t.last_prompt("p2c")
    active, *others = opened(tmp_path, t).branches()
    assert (active.active, active.turn_count, active.last_prompt) == (True, 2, "p2c")
    assert active.leaf_id == t.head
    told = [(b.turn_count, b.last_prompt, b.forked_at_turn_id, b.active) for b in others]
    assert told == [(5, "p5", turns[0], False), (4, "p4b", turns[0], False)]
    assert others[1].leaf_id == left
    assert others[1].updated_at == t.find(str(left))["timestamp"]


def test_a_branch_within_a_turn_is_no_branch_of_turns(tmp_path: Path) -> None:
    t = Transcript()
    t.prompt("p1")
    call = t.tool("Bash", {}, "ok")
    t.answer("first try")
    t.branch_from(call.result)
    t.answer("second try")
    history = opened(tmp_path, t)
    assert [b.turn_count for b in history.branches()] == [1]
    assert all_turns(history)[0].response == "second try"


def test_a_prompt_that_was_taken_back_before_any_answer_is_a_branch_of_its_own(
    tmp_path: Path,
) -> None:
    t = Transcript(entrypoint="cli")
    t.turn("p1")
    before = t.head
    abandoned = t.prompt("taken back")
    t.branch_from(before)
    t.turn("p2")
    history = opened(tmp_path, t)
    assert prompts(history) == ["p1", "p2"]
    assert [b.leaf_id for b in history.branches()][1:] == [abandoned]
    turns = history.turns_of(history.branch_turns(abandoned))
    assert [(x.prompt, x.turn_number) for x in turns] == [("p1", 1), ("taken back", 2)]
    assert [x.branch for x in turns] == ["active", abandoned]


def test_all_turns_are_listed_in_the_order_of_the_file_with_their_parents(tmp_path: Path) -> None:
    t = five()
    first = t.prompts[:2]
    t.branch_from(end_of(t, 2))
    t.turn("p3b")
    t.last_prompt("p3b")
    history = opened(tmp_path, t)
    turns = history.turns_of(history.branch_turns("all"))
    assert [x.prompt for x in turns] == ["p1", "p2", "p3", "p4", "p5", "p3b"]
    assert [x.turn_number for x in turns] == [1, 2, 3, 4, 5, 3]
    assert [x.parent_turn_id for x in turns][:3] == [None, *first]
    assert turns[5].parent_turn_id == first[1]
    assert len({x.branch for x in turns}) == 2


def test_several_roots_are_several_branches(tmp_path: Path) -> None:
    t = five()
    t.branch_from(None)
    t.turn("q1")
    t.branch_from(None)
    t.turn("r1")
    t.turn("r2")
    history = opened(tmp_path, t)
    assert prompts(history) == ["r1", "r2"]
    assert [b.last_prompt for b in history.branches()] == ["r2", "p5", "q1"]
    assert {b.forked_at_turn_id for b in history.branches()} == {None}


def test_hundreds_of_branch_points_are_all_there(tmp_path: Path) -> None:
    t = Transcript(seed=9)
    ends = []
    for number in range(60):
        t.turn(f"p{number}")
        ends.append(t.head)
    for number in range(275):
        t.branch_from(ends[number * 7 % 60])
        t.turn(f"b{number}")
    t.branch_from(ends[-1])
    t.turn("last")
    t.last_prompt("last")
    history = opened(tmp_path, t)
    assert len(history.branches()) == 276
    assert history.summary.branch_count == 276
    assert prompts(history) == [*(f"p{n}" for n in range(60)), "last"]
    turns = history.turns_of(history.branch_turns("all"))
    assert len(turns) == 60 + 275 + 1
    for branch in history.branches():
        path = history.turns_of(history.branch_turns(branch.leaf_id))
        assert path[-1].prompt == branch.last_prompt
        assert len(path) == branch.turn_count


def test_a_branch_that_is_not_there_is_refused(tmp_path: Path) -> None:
    from session.errors import InvalidParams

    history = opened(tmp_path, five())
    with pytest.raises(InvalidParams, match="no branch ends at nowhere"):
        history.branch_turns("nowhere")


# Missing parents


def test_a_missing_parent_is_a_gap_and_hides_no_turn(tmp_path: Path) -> None:
    t = five()
    missing = end_of(t, 2)
    third = t.prompts[2]
    t.drop(missing)
    history = opened(tmp_path, t)
    assert prompts(history) == ["p1", "p2", "p3", "p4", "p5"]
    (gap,) = history.gaps()
    assert (gap.missing, gap.before_turn_id, gap.line) == (missing, third, 4)
    assert history.summary.damaged
    assert history.summary.finding_count == 1


def test_a_gap_in_the_middle_of_a_turn_names_the_turn_after_it(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("p1")
    t.prompt("p2")
    call = t.tool("Bash", {}, "ok")
    t.answer("a2")
    last = t.turn("p3")
    t.drop(call.use, str(call.result))
    history = opened(tmp_path, t)
    assert prompts(history) == ["p1", "p2", "p3"]
    assert [(g.missing, g.before_turn_id) for g in history.gaps()] == [(call.result, last)]


def test_a_gap_in_the_last_turn_has_no_turn_after_it(tmp_path: Path) -> None:
    t = five()
    t.prompt("p6")
    call = t.tool("Bash", {}, "ok")
    t.answer("a6")
    t.drop(str(call.result))
    history = opened(tmp_path, t)
    assert [g.before_turn_id for g in history.gaps()] == [None]


def test_a_first_record_whose_parent_is_missing_is_told_and_read(tmp_path: Path) -> None:
    t = five()
    t.drop(*[r["uuid"] for r in t.messages()[:2]])
    history = opened(tmp_path, t)
    assert prompts(history) == ["p2", "p3", "p4", "p5"]
    assert len(history.gaps()) == 1


def test_a_parent_on_a_side_chain_is_a_gap(tmp_path: Path) -> None:
    t = five()
    side = t.sidechain("look", "looked")
    sixth = t.prompt("p6", parent=side)
    t.answer("a6")
    history = opened(tmp_path, t)
    assert prompts(history) == ["p1", "p2", "p3", "p4", "p5", "p6"]
    assert [(g.missing, g.before_turn_id) for g in history.gaps()] == [(side, sixth)]


# Compactions


def test_a_compaction_hides_no_turn_before_it(tmp_path: Path) -> None:
    t = five()
    t.compact()
    t.turn("p6")
    turns = all_turns(opened(tmp_path, t))
    assert [x.prompt for x in turns] == ["p1", "p2", "p3", "p4", "p5", "p6"]
    assert [x.compacted for x in turns] == [True] * 5 + [False]


def test_the_turn_in_which_the_program_compacted_is_not_compacted_itself(tmp_path: Path) -> None:
    t = five()
    t.prompt("p6")
    t.compact("auto")
    t.answer("a6")
    turns = all_turns(opened(tmp_path, t))
    assert [x.compacted for x in turns] == [True] * 5 + [False]
    assert turns[5].response == "a6"


def test_a_compaction_in_mid_turn_as_the_terminal_writes_it_loses_nothing(tmp_path: Path) -> None:
    t = five()
    turn_id = t.prompt("p6")
    t.tool("Bash", {"command": "ls"}, "a.py")
    t.compact_in_turn_as_the_tui(answer="a6")
    t.last_prompt("p6")
    t.turn("p7", "a7")
    history = opened(tmp_path, t)
    turns = all_turns(history)
    assert [x.prompt for x in turns] == ["p1", "p2", "p3", "p4", "p5", "p6", "p7"]
    assert (turns[5].response, turns[5].tool_calls) == ("a6", 1)
    assert "a6" in [item.text for item in items(history, turn_id)]


def test_a_pointer_before_a_compaction_that_preserved_records_is_not_followed(
    tmp_path: Path,
) -> None:
    t = five()
    t.compact()
    t.turn("p6")
    t.rewind_pointer(end_of(t, 2))
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3", "p4", "p5", "p6"]


def test_a_pointer_before_a_compaction_that_preserved_nothing_is_followed(tmp_path: Path) -> None:
    t = five()
    t.compact(preserved=[])
    t.turn("p6")
    t.rewind_pointer(end_of(t, 2))
    assert prompts(opened(tmp_path, t)) == ["p1", "p2"]


def test_a_pointer_after_a_compaction_is_followed(tmp_path: Path) -> None:
    t = five()
    t.compact()
    t.turn("p6")
    sixth = t.head
    t.turn("p7")
    t.rewind_pointer(sixth)
    assert prompts(opened(tmp_path, t)) == ["p1", "p2", "p3", "p4", "p5", "p6"]


def test_a_compaction_with_nothing_after_it_counts_already(tmp_path: Path) -> None:
    t = five()
    t.compact()
    history = opened(tmp_path, t)
    assert [x.compacted for x in all_turns(history)] == [True] * 5


def test_a_compaction_on_one_branch_does_not_touch_another(tmp_path: Path) -> None:
    t = five()
    t.compact(preserved=[])
    t.turn("p6")
    t.branch_from(end_of(t, 3))
    t.turn("p4b")
    t.last_prompt("p4b")
    turns = all_turns(opened(tmp_path, t))
    assert [x.prompt for x in turns] == ["p1", "p2", "p3", "p4b"]
    assert not any(x.compacted for x in turns)


def test_two_compactions_are_both_passed(tmp_path: Path) -> None:
    t = five()
    t.compact()
    t.turn("p6")
    t.turn("p7")
    t.compact()
    t.turn("p8")
    turns = all_turns(opened(tmp_path, t))
    assert [x.prompt for x in turns] == [f"p{n}" for n in range(1, 9)]
    assert [x.compacted for x in turns] == [True] * 7 + [False]
