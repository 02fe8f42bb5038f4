"""Where a boundary cuts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from session import osfile
from session.agents.claude_code.cut import Cut
from session.errors import BoundaryOutOfRange, InvalidParams, TurnInProgress, TurnNotFound
from session.model import Boundary
from tests.builders import Transcript, live_session
from tests.session.agents.claude_code.opened import opened


def five() -> Transcript:
    t = Transcript(seed=5)
    for number in range(1, 6):
        t.turn(f"p{number}", f"a{number}")
    return t


def kept(folder: Path, t: Transcript, **boundary: object) -> Cut:
    cut = opened(folder, t).cut(Boundary(**boundary))  # type: ignore[arg-type]
    assert isinstance(cut, Cut)
    return cut


@pytest.mark.parametrize(
    ("boundary", "count"),
    [
        ({"latest": True}, 5),
        ({"turn_number": 0}, 0),
        ({"turn_number": 1}, 1),
        ({"turn_number": 5}, 5),
        ({"by": 0}, 5),
        ({"by": 2}, 3),
        ({"by": 5}, 0),
    ],
)
def test_numbers_count_turns_from_the_first_or_from_the_last(
    tmp_path: Path, boundary: dict[str, object], count: int
) -> None:
    cut = kept(tmp_path, five(), **boundary)
    assert (cut.kept, cut.total) == (count, 5)


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_turn_is_kept_through_it_and_dropped_before_it(tmp_path: Path, number: int) -> None:
    t = five()
    turn_id = t.prompts[number - 1]
    assert kept(tmp_path, t, through_turn=turn_id).kept == number
    assert kept(tmp_path, t, before_turn=turn_id).kept == number - 1


@pytest.mark.parametrize(
    "boundary",
    [{"turn_number": 6}, {"turn_number": -1}, {"by": 6}, {"by": -1}, {"turn_number": 143}],
)
def test_a_number_that_is_not_there_is_refused_with_how_many_there_are(
    tmp_path: Path, boundary: dict[str, object]
) -> None:
    with pytest.raises(BoundaryOutOfRange, match="the session has 5 turns") as caught:
        kept(tmp_path, five(), **boundary)
    (asked,) = boundary.values()
    assert caught.value.data == {
        "kind": "boundary_out_of_range",
        "requested": asked,
        "turn_count": 5,
    }


def test_one_turn_is_told_as_one(tmp_path: Path) -> None:
    with pytest.raises(
        BoundaryOutOfRange, match=r"^Cannot drop 1 turn: the session has 0 turns\.$"
    ):
        kept(tmp_path, Transcript(seed=6), by=1)


def test_an_unknown_turn_is_named(tmp_path: Path) -> None:
    t = five()
    answer = t.messages()[1]["uuid"]
    for turn_id in ("nothing", answer):
        for name in ("through_turn", "before_turn"):
            with pytest.raises(TurnNotFound) as caught:
                kept(tmp_path, t, **{name: turn_id})
            assert caught.value.data == {"kind": "turn_not_found", "turn_id": turn_id}


@pytest.mark.parametrize(
    "boundary",
    [
        {},
        {"latest": False},
        {"latest": True, "turn_number": 0},
        {"turn_number": 0, "by": 0},
        {"through_turn": "x", "before_turn": "x"},
    ],
)
def test_a_boundary_is_exactly_one_thing(tmp_path: Path, boundary: dict[str, object]) -> None:
    with pytest.raises(InvalidParams, match="exactly one of"):
        kept(tmp_path, five(), **boundary)


def test_the_prompt_after_the_cut_is_told_in_full(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    long = "two \n" + "新聞😀" * 500
    t.turn(long)
    history = opened(tmp_path, t)
    assert history.dropped_prompt(history.cut(Boundary(turn_number=1))) == long
    assert history.dropped_prompt(history.cut(Boundary(turn_number=0))) == "one"
    assert history.dropped_prompt(history.cut(Boundary(latest=True))) is None


def test_a_turn_of_another_branch_cuts_there(tmp_path: Path) -> None:
    t = five()
    third = str(t.messages()[5]["uuid"])
    t.branch_from(third)
    left = t.turn("p4b", "a4b")
    leaf = t.head
    below = t.turn("p5b")
    t.last_prompt("p5", t.messages()[9]["uuid"])
    history = opened(tmp_path, t)
    cut = history.cut(Boundary(through_turn=left))
    assert (cut.kept, cut.abandoned, history.transcript.uuid_at(cut.leaf)) == (4, True, leaf)
    cut = history.cut(Boundary(before_turn=left))
    assert (cut.kept, cut.abandoned, history.transcript.uuid_at(cut.leaf)) == (3, True, third)
    assert history.dropped_prompt(cut) == "p4b"
    assert history.cut(Boundary(through_turn=below)).kept == 5


# A turn that is being written


def being_written(folder: Path) -> tuple[Transcript, str]:
    """Two turns, of which another program (here: this one) writes the second."""
    t = Transcript()
    t.turn("one")
    open_turn = t.prompt("two")
    t.tool("Bash", {}, None)
    live_session(folder, os.getpid(), t.session_id, procStart=osfile.process_start(os.getpid()))
    return t, open_turn


def test_the_latest_boundary_ends_before_a_turn_that_is_being_written(tmp_path: Path) -> None:
    t, _ = being_written(tmp_path)
    assert kept(tmp_path, t, latest=True).kept == 1
    assert kept(tmp_path, t, turn_number=1).kept == 1


def test_a_turn_that_is_being_written_is_not_kept(tmp_path: Path) -> None:
    t, open_turn = being_written(tmp_path)
    for boundary in ({"turn_number": 2}, {"through_turn": open_turn}):
        with pytest.raises(TurnInProgress) as caught:
            kept(tmp_path, t, **boundary)
        assert caught.value.data == {"kind": "turn_in_progress", "turn_id": open_turn}


def test_before_a_turn_that_is_being_written_one_may_cut(tmp_path: Path) -> None:
    t, open_turn = being_written(tmp_path)
    assert kept(tmp_path, t, before_turn=open_turn).kept == 1
    assert kept(tmp_path, t, by=1).kept == 1


def test_an_interrupted_turn_counts_as_any_other(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    turn_id = t.prompt("two")
    t.tool("Bash", {}, None)
    assert kept(tmp_path, t, latest=True).kept == 2
    assert kept(tmp_path, t, through_turn=turn_id).kept == 2


# What lies between two turns


def uuids(folder: Path, t: Transcript, **boundary: object) -> list[str]:
    """The records that a cut keeps."""
    history = opened(folder, t)
    cut = history.cut(Boundary(**boundary))  # type: ignore[arg-type]
    return [str(history.transcript.uuid_at(line)) for line in cut.lines]


def test_a_compaction_by_hand_after_the_kept_turn_is_not_kept(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    kept_end = t.head
    boundary = t.compact()
    t.turn("two")
    assert uuids(tmp_path, t, turn_number=1)[-1] == kept_end
    assert boundary in uuids(tmp_path, t, turn_number=2)


def test_a_compaction_by_itself_goes_with_the_turn_in_which_it_fell(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    kept_end = t.head
    t.prompt("two")
    boundary = t.compact("auto")
    t.answer("a2")
    t.turn("three")
    assert uuids(tmp_path, t, turn_number=1)[-1] == kept_end
    assert boundary in uuids(tmp_path, t, turn_number=2)


def test_what_the_program_writes_ahead_of_a_prompt_goes_with_it(tmp_path: Path) -> None:
    t = Transcript()
    t.turn("one")
    kept_end = t.head
    ahead = t.meta("Continue from where you left off.")
    t.answer("No response requested.", model="<synthetic>")
    t.turn("two")
    t.find(ahead)["promptId"] = t.prompt_id
    assert uuids(tmp_path, t, turn_number=1)[-1] == kept_end


def test_what_the_program_notes_after_a_turn_goes_with_that_turn(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.turn("one")
    duration = t.turn_duration()
    cost = t.slash_command("cost", "0.10")
    t.turn("two")
    assert uuids(tmp_path, t, turn_number=1)[-3:][0] in (duration,)
    assert uuids(tmp_path, t, turn_number=1)[-1] == cost


def test_a_cut_after_an_interruption_keeps_its_marker(tmp_path: Path) -> None:
    t = Transcript(entrypoint="cli")
    t.prompt("one")
    t.tool("Bash", {}, "no", is_error=True)
    marker = t.interrupt(in_tool=True)
    t.turn("two")
    assert uuids(tmp_path, t, turn_number=1)[-1] == marker
