"""Parameters: what is taken, and how a fault in them is told."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server import messages
from server.checking import read
from server.errors import error_of
from server.methods import VERBS
from session.errors import InvalidParams, SessionNotFound
from session.model import Boundary

FORK = {"session_id": "claude-code:a", "new_session_id": "b"}
REWIND = {"session_id": "claude-code:a", "to": {"by": 1}}


def fork(**more: Any) -> dict[str, Any]:
    return messages.sent(read(messages.ForkSession, FORK | more))


def fault(kind: type[messages.P], params: Any) -> str:
    with pytest.raises(InvalidParams) as refused:
        read(kind, params)
    assert refused.value.code == -32602
    where, _, what = refused.value.message.partition(": ")
    assert where in ("params", f"params.{refused.value.data['field']}")
    return f"{refused.value.data['field']}: {what}"


def test_only_what_was_sent_is_passed_on_and_null_was_not_sent() -> None:
    assert fork(title=None, stage=False, unheard_of=1) == FORK | {"stage": False}


@pytest.mark.parametrize(
    ("at", "boundary"),
    [
        ({"latest": True}, Boundary(latest=True)),
        ({"through_turn": "t"}, Boundary(through_turn="t")),
        ({"before_turn": "t"}, Boundary(before_turn="t")),
        ({"turn_number": 0}, Boundary(turn_number=0)),
        ({"turn_number": 3, "latest": None}, Boundary(turn_number=3)),
    ],
)
def test_a_boundary_has_exactly_one_field(at: Any, boundary: Boundary) -> None:
    assert fork(at=at)["at"] == boundary


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ({}, "at: expected exactly one of latest, through_turn, before_turn, turn_number; "
             "got none of them"),
        ([], "at: expected exactly one of latest, through_turn, before_turn, turn_number; "
             "got none of them"),
        ({"latest": True, "turn_number": 2}, "at: expected exactly one of latest, through_turn, "
             "before_turn, turn_number; got latest and turn_number"),
        ({"latest": False}, "at.latest: expected true, got false (boolean)"),
        ({"turn_number": True}, "at.turn_number: expected an integer, got true (boolean)"),
        ({"turn_number": 2.0}, "at.turn_number: expected an integer, got 2.0 (number)"),
        ({"turn_number": "2"}, 'at.turn_number: expected an integer, got "2" (string)'),
        ({"through_turn": 2}, "at.through_turn: expected a string, got 2 (number)"),
        ({"by": 1}, "at.by: only rewind takes a boundary by count"),
        (2, "at: expected an object, got 2 (number)"),
        ("latest", 'at: expected an object, got "latest" (string)'),
    ],
)  # fmt: skip
def test_a_boundary_that_is_none_is_told_in_plain_words(at: Any, told: str) -> None:
    assert fault(messages.ForkSession, FORK | {"at": at}) == told


def test_only_rewind_takes_a_boundary_by_count() -> None:
    assert messages.sent(read(messages.Rewind, REWIND))["to"] == Boundary(by=1)


def test_rewind_needs_a_boundary() -> None:
    assert fault(messages.Rewind, {"session_id": "a"}) == "to: required"


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (0, "limit: expected 1 to 500, got 0"),
        (501, "limit: expected 1 to 500, got 501"),
        (-1, "limit: expected 1 to 500, got -1"),
        (1e30, "limit: expected an integer, got 1e+30 (number)"),
        (True, "limit: expected an integer, got true (boolean)"),
        ([5], "limit: expected an integer, got a list"),
        ({}, "limit: expected an integer, got an object"),
    ],
)
def test_a_limit_is_1_to_500(limit: Any, told: str) -> None:
    assert fault(messages.ListSessions, {"limit": limit}) == told


@pytest.mark.parametrize("limit", [1, 500])
def test_both_ends_of_a_limit_are_taken(limit: int) -> None:
    assert messages.sent(read(messages.ListSessions, {"limit": limit})) == {"limit": limit}


@pytest.mark.parametrize(
    ("kind", "params", "told"),
    [
        (messages.ForkSession, FORK | {"wait_ms": -1}, "wait_ms: expected 0 or more, got -1"),
        (messages.ForkSession, FORK | {"stage": 1},
         "stage: expected true or false, got 1 (number)"),
        (messages.ForkSession, FORK | {"unsaved": ["a", 3]},
         "unsaved[1]: expected a string, got 3 (number)"),
        (messages.ForkSession, FORK | {"workspace": {"mode": "clone"}},
         'workspace.mode: expected one of none, worktree, copy; got "clone" (string)'),
        (messages.ForkSession, FORK | {"workspace": {"include_ignored": "yes"}},
         'workspace.include_ignored: expected true or false, got "yes" (string)'),
        (messages.ForkSession, {"session_id": "a"}, "new_session_id: required"),
        (messages.ForkSession, {"session_id": None}, "session_id: required"),
        (messages.ReadTurn, {"session_id": "a", "turn_id": "b", "max_bytes": 0},
         "max_bytes: expected 1 or more, got 0"),
        (messages.ListSessions, {"agents": "claude-code"},
         'agents: expected a list, got "claude-code" (string)'),
        (messages.ListSessions, {"kinds": ["main", "x"]},
         'kinds[1]: expected one of main, subagent, sdk; got "x" (string)'),
        (messages.ListTurns, {"session_id": "a", "order": "random"},
         'order: expected one of oldest, newest; got "random" (string)'),
        (messages.Rewind, REWIND | {"mode": "all"},
         'mode: expected one of conversation, files, both; got "all" (string)'),
        (messages.Undo, {}, "session_id: required, unless operation_id is given"),
        (messages.GetSession, [5], "params: expected an object, got 5 (number)"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_path(kind: Any, params: Any, told: str) -> None:
    assert fault(kind, params) == told


@pytest.mark.parametrize("good", ["a", "0", "a.b_c:d-e", "A" * 128])
def test_an_id_of_the_caller_is_taken(good: str) -> None:
    assert messages.sent(read(messages.Rewind, REWIND | {"operation_id": good}))


@pytest.mark.parametrize("bad", ["", "-a", ".a", "a b", "a/b", "ä", "a\n", "A" * 129, 5])
def test_an_id_of_the_caller_that_is_none_is_refused(bad: Any) -> None:
    assert fault(messages.Rewind, REWIND | {"operation_id": bad}).startswith("operation_id: ")
    assert fault(messages.Undo, {"session_id": "a", "request_id": bad}).startswith("request_id: ")


def test_a_long_value_is_not_repeated_whole() -> None:
    assert len(fault(messages.ListSessions, {"limit": "x" * 100_000})) < 120


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("verb", VERBS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_json_at_all_is_taken_or_refused_with_a_field(verb: str, data: st.DataObject) -> None:
    kind = VERBS[verb].params
    names = [field.name for field in attrs.fields(kind)]
    params = data.draw(JSON | st.dictionaries(st.sampled_from(names), JSON))
    try:
        read(kind, params)
    except InvalidParams as refused:
        assert refused.data["field"]


def test_an_error_repeats_no_more_of_a_parameter_than_a_person_reads() -> None:
    wire = error_of(SessionNotFound("There is no session " + "x" * 10**6, session_id="x"), "r1")
    assert len(wire.on_the_wire()["message"]) < 5000
