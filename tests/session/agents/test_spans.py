"""Byte spans of an object's members, against a decoder that keeps no bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from session.agents import spans
from tests.session.agents.spelling import ODD_NUMBERS, Pairs, Raw, Style, members, spell

texts = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    ['"', "\\", '\\"', '{"sessionId":"x"}', "]}", ",", "\\u0022", "\ud800", "新聞😀", "\u2028"]
)
scalars = (
    texts
    | st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([Raw(number) for number in ODD_NUMBERS])
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(st.tuples(texts, inner), max_size=3).map(Pairs)
    ),
    max_leaves=8,
)
objects = st.lists(st.tuples(texts, values), max_size=6).map(Pairs)
styles = st.builds(
    Style,
    gap=st.sampled_from(["", " ", "\t", " \r "]),
    ascii=st.booleans(),
    ending=st.sampled_from(["", "\n", "\r\n", " ", "\r"]),
)


@given(objects, styles)
def test_the_members_of_any_object_are_its_keys_and_the_bytes_of_its_values(
    value: Pairs, style: Style
) -> None:
    line = spell(value, style)
    found = list(spans.members(line))
    expected = members(line)
    assert [(m.value, m.end) for m in found] == [(m.start, m.end) for m in expected]
    assert [json.loads(b'"' + m.key + b'"') for m in found] == [key for key, _ in value.items]


@given(objects, styles)
def test_members_written_back_as_they_stand_leave_every_byte(value: Pairs, style: Style) -> None:
    line = spell(value, style)
    edits = [(m.start, m.end, line[m.start : m.end]) for m in spans.members(line)]
    assert spans.replace(line, edits) == line


@given(objects, styles, st.data())
def test_replacing_one_value_changes_that_value_alone(
    value: Pairs, style: Style, data: st.DataObject
) -> None:
    line = spell(value, style)
    found = list(spans.members(line))
    if not found:
        return
    at = data.draw(st.integers(0, len(found) - 1))
    changed = spans.replace(line, [(found[at].value, found[at].end, b'"new"')])
    pairs = json.loads(changed, object_pairs_hook=Pairs, strict=False).items
    before = json.loads(line, object_pairs_hook=Pairs, strict=False).items
    assert [key for key, _ in pairs] == [key for key, _ in before]
    assert pairs[at][1] == "new"
    rest = [repr(v) for i, (_, v) in enumerate(pairs) if i != at]
    assert rest == [repr(v) for i, (_, v) in enumerate(before) if i != at]


@pytest.mark.parametrize("line", [b"", b"[]", b'"a"', b"null", b"{", b'{"a"', b'{"a":', b'{"a":"b'])
def test_what_is_no_object_is_refused_or_empty(line: bytes) -> None:
    try:
        assert not list(spans.members(line))
    except spans.NotAnObject:
        pass


def test_a_byte_order_mark_before_the_object_is_no_part_of_it() -> None:
    (member,) = spans.members(b'\xef\xbb\xbf{"a": 1}')
    assert member.key == b"a"


@given(st.integers(1, 400))
@example(3000)
def test_depth_is_no_obstacle(depth: int) -> None:
    line = b'{"a":' + b"[" * depth + b"]" * depth + b',"b":2}'
    assert [m.key for m in spans.members(line)] == [b"a", b"b"]


@given(st.lists(values, max_size=5), styles)
def test_the_elements_of_any_array_are_its_values(found: list[Any], style: Style) -> None:
    line = spell([("a", 1), found], style)
    (_, (start, _)) = spans.elements(line, 0)
    inside = [json.loads(line[s:e], strict=False) for s, e in spans.elements(line, start)]
    assert inside == json.loads(spell(found, style), strict=False)


@given(objects, styles)
def test_a_path_leads_to_the_value_that_a_parser_finds_there(value: Pairs, style: Style) -> None:
    line = spell(Pairs([*value.items, ("here", Pairs([("a", Raw("1e2")), *value.items]))]), style)
    parsed = json.loads(line, strict=False)["here"]
    for key in ("a", "nowhere"):
        member = spans.find(line, 0, b"here", key.encode())
        if key not in parsed:
            assert member is None
            continue
        assert member is not None
        assert json.loads(line[member.value : member.end], strict=False) == parsed[key]


def test_a_path_through_what_is_no_object_leads_nowhere() -> None:
    line = b'{"a":[{"b":1}],"c":"d"}'
    assert spans.find(line, 0, b"a", b"b") is None
    assert spans.find(line, 0, b"c", b"b") is None
