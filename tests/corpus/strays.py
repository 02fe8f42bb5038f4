"""Records of other sessions in a session's file."""

from __future__ import annotations

from tests.corpus.case import FOUR, Case, case, told, written
from tests.world import World


@case
def f024_every_third_line_is_of_another_session(world: World) -> Case:
    """anthropics/claude-code#26964: two sessions of one project, written into each other."""
    t = told(world, *FOUR)
    other = told(world, *[f"other {number}" for number in range(2)], seed=9)
    for at, record in zip((2, 5, 8, 11), other.messages(), strict=True):
        t.records.insert(at, record)
    return written(world, t, [("foreign_records", 3)])


@case
def f025_the_tail_is_of_another_session(world: World) -> Case:
    """anthropics/claude-code#30802: the program switched sessions and not the file."""
    t = told(world, *FOUR)
    other = told(world, "other 1", "other 2", seed=9)
    other.write(world.store)
    other.turn("other 3")
    t.records += other.records[-2:]
    return written(world, t, [("foreign_records", 9)])


@case
def a_copy_that_kept_the_ids_of_its_source(world: World) -> Case:
    """A file that was copied under another name: its records are its own."""
    t = told(world, *FOUR)
    source = t.session_id
    t.session_id = told(world, "x", seed=5).session_id
    assert all(record["sessionId"] == source for record in t.messages())
    return written(world, t)
