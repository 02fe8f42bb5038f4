"""What of a tool's result is read for people: the half of its line that is not said again."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from session.agents.claude_code import records

LONG = "one line of output, with → and “quotes” and a \\ and a \t\n" * 200


def line_of(**members: Any) -> bytes:
    record = {
        "parentUuid": "p",
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"tool_use_id": "t", "type": "tool_result", "content": LONG}],
        },
        "uuid": "u",
        "timestamp": "2026-03-02T09:00:00.000Z",
    }
    return orjson.dumps({**record, **members})


def without_repeat(line: bytes) -> dict[str, Any]:
    record = orjson.loads(line)
    return {k: v for k, v in record.items() if k not in ("toolUseResult", "cwd")}


def test_a_long_result_is_read_without_what_says_it_again() -> None:
    line = line_of(toolUseResult={"stdout": LONG, "stderr": ""}, cwd="/w")
    assert records.parse_said(line) == without_repeat(line)


@pytest.mark.parametrize("before", [{}, {"stderr": LONG}, {"type": "update"}])
def test_a_result_that_names_a_file_is_read_whole(before: dict[str, Any]) -> None:
    line = line_of(toolUseResult={**before, "filePath": "/w/a", "originalFile": LONG}, cwd="/w")
    assert records.parse_said(line) == orjson.loads(line)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line_of(cwd="/w"), id="nothing is said again"),
        pytest.param(b"{" + line_of(toolUseResult=LONG)[1:], id="a text"),
        pytest.param(orjson.dumps({"toolUseResult": LONG, "type": "user"}), id="first"),
        pytest.param(
            orjson.dumps({"type": "user", "uuid": "u", "toolUseResult": LONG, "message": {}}),
            id="before the message",
        ),
        pytest.param(line_of(more={"a": 1, "toolUseResult": LONG}), id="deeper"),
        pytest.param(line_of(more=f',"toolUseResult":{LONG}'), id="in a text"),
        pytest.param(line_of(toolUseResult=LONG)[:-1], id="torn"),
        pytest.param(line_of(toolUseResult=LONG).replace(b'"u"', b'"\\ud800"'), id="surrogate"),
    ],
)
def test_any_other_line_loses_nothing_that_is_shown(line: bytes) -> None:
    whole, said = records.parse(line), records.parse_said(line)
    if whole is None:
        assert said is None or "toolUseResult" not in said
        return
    assert said is not None
    for member in ("message", "uuid", "timestamp", "more"):
        assert said.get(member) == whole.get(member)
