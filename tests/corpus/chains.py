"""Records whose place in the conversation is wrong: parents, roots, branches, times, ids."""

from __future__ import annotations

from tests.builders import Transcript
from tests.corpus.case import FOUR, Case, case, told, written
from tests.world import World


@case
def f006_a_parent_that_exists_nowhere(world: World) -> Case:
    """anthropics/claude-code#21617: four records, the third hangs off an unknown id."""
    t = told(world, "one", "two")
    t.messages()[2]["parentUuid"] = "00000000-0000-4000-8000-000000000000"
    return written(world, t, [("missing_parent", 3)], prompts=["one", "two"], gaps=[3])


@case
def f001_three_records_missing(world: World) -> Case:
    """anthropics/claude-code#58554."""
    t = told(world, *FOUR)
    t.drop(*[record["uuid"] for record in t.messages()[2:5]])
    return written(world, t, [("missing_parent", 3)], prompts=["one", "four"], gaps=[3])


@case
def f001_many_missing_parents(world: World) -> Case:
    """Every fifth record of a long session was never written."""
    t = told(world, *[f"p{number}" for number in range(20)])
    t.drop(*[record["uuid"] for record in t.messages()[1::10]])
    prompts = [f"p{number}" for number in range(20)]
    gaps = [2 + 9 * number for number in range(4)]
    return written(
        world, t, [("missing_parent", line) for line in gaps], prompts=prompts, gaps=gaps
    )


@case
def the_first_record_missing(world: World) -> Case:
    t = told(world, *FOUR)
    t.drop(t.messages()[0]["uuid"])
    return written(world, t, [("missing_parent", 1)], prompts=["two", "three", "four"], gaps=[1])


@case
def f002_a_compaction_below_an_unknown_record(world: World) -> Case:
    """anthropics/claude-code#46603: the summary hangs off an id that was never written."""
    t = told(world, "one", "two")
    boundary = t.compact(preserved=[])
    t.find(boundary)["logicalParentUuid"] = "00000000-0000-4000-8000-000000000000"
    t.turn("three")
    t.turn("four")
    return written(world, t, [("missing_parent", 5)], gaps=[5])


@case
def f004_a_side_chain_as_ancestor(world: World) -> Case:
    """anthropics/claude-code#37437: a retry hangs off a subagent's record."""
    t = told(world, "one", "two")
    aside = t.sidechain("look", "seen")
    t.branch_from(aside)
    t.turn("three")
    t.turn("four")
    return written(world, t, [("sidechain_parent", 7)], gaps=[7])


@case
def f004_a_progress_record_as_ancestor(world: World) -> Case:
    """A progress record of the main line is passed through: nothing is wrong."""
    t = told(world, "one", "two")
    t.message({"type": "progress", "data": {"type": "hook_progress"}})
    t.turn("three")
    t.turn("four")
    return written(world, t)


@case
def several_roots(world: World) -> Case:
    t = told(world, "one", "two")
    t.branch_from(None)
    t.turn("three")
    t.turn("four")
    more = {"prompts": ["three", "four"], "branches": 2}
    return written(world, t, [("several_roots", 5)], **more)


@case
def f082_275_branch_points(world: World) -> Case:
    """anthropics/claude-code#24471."""
    t = told(world, "one")
    root = t.head
    for number in range(275):
        t.branch_from(root)
        t.turn(f"branch {number}")
    return written(world, t, prompts=["one", "branch 274"], branches=275)


@case
def a_circle_of_parents(world: World) -> Case:
    t = told(world, "one", "two")
    messages = t.messages()
    messages[0]["parentUuid"] = messages[3]["uuid"]
    return written(world, t, [("parent_circle", 1)], prompts=["one", "two"])


@case
def an_answer_before_its_prompt(world: World) -> Case:
    """As the terminal program writes a session's first turn."""
    t = told(world, *FOUR)
    messages = t.messages()
    t.move_before(messages[1]["uuid"], messages[0]["uuid"])
    return written(world, t, [("parent_below", 1)])


@case
def f005_a_snapshot_with_the_id_of_a_prompt(world: World) -> Case:
    """anthropics/claude-code#24304: ids of snapshots are a space of their own."""
    t = Transcript(str(world.cwd), seed=1)
    for prompt in FOUR:
        turn_id = t.turn(prompt)
        t.snapshot(turn_id)
        t.records.insert(-3, t.records.pop())
    return written(world, t)


@case
def equal_timestamps(world: World) -> Case:
    t = Transcript(str(world.cwd), seed=1, step_ms=0)
    for prompt in FOUR:
        t.turn(prompt)
    return written(world, t)


@case
def times_that_go_backwards(world: World) -> Case:
    t = Transcript(str(world.cwd), seed=1, step_ms=-5000)
    for prompt in FOUR:
        t.turn(prompt)
    return written(world, t)


@case
def records_without_a_timestamp(world: World) -> Case:
    t = told(world, *FOUR)
    for record in t.messages()[2:4]:
        del record["timestamp"]
    return written(world, t, [("untimed_record", 3)])


@case
def timestamps_that_are_none(world: World) -> Case:
    t = told(world, *FOUR)
    for record, stamp in zip(t.messages()[2:6], ("yesterday", 17, None, ""), strict=True):
        record["timestamp"] = stamp
    return written(world, t, [("untimed_record", 3)])


@case
def no_timestamp_anywhere(world: World) -> Case:
    t = told(world, *FOUR)
    for record in t.messages():
        del record["timestamp"]
    return written(world, t, [("untimed_record", 1)])


@case
def a_pointer_to_an_unknown_record(world: World) -> Case:
    t = told(world, *FOUR)
    t.last_prompt("four", "00000000-0000-4000-8000-000000000000")
    return written(world, t, [("unreadable_pointer", 9)])


@case
def a_prompt_that_stayed_in_the_queue(world: World) -> Case:
    """Typed while the program ran, which died before it sent it."""
    t = told(world, *FOUR)
    t.queue_operation(content="and then five")
    return written(world, t, [("undelivered_prompt", 9)])


@case
def prompts_that_left_the_queue(world: World) -> Case:
    """One was sent as a prompt, one within a turn, one was taken back: nothing is wrong."""
    t = told(world, "one")
    t.queue_operation(content="two")
    t.queue_operation("dequeue")
    t.turn("two")
    t.prompt("three")
    t.queue_operation(content="in between")
    t.queue_operation("remove")
    t.queued_prompt("in between")
    t.answer()
    t.queue_operation(content="never mind")
    t.queue_operation("popAll", content="never mind")
    t.turn("four")
    return written(world, t)
