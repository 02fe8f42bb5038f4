"""Files as they are found: torn, glued, filled with what is no text, in odd encodings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from session.agents.claude_code.history import History
from session.agents.claude_code.transcript import Transcript as Index
from tests.builders import Transcript
from tests.chain import to_json
from tests.session.agents.claude_code.opened import items, opened, opened_file, prompts


def two_turns() -> Transcript:
    t = Transcript(seed=3)
    t.turn("one", "first answer")
    t.turn("two", "second answer")
    return t


def of_bytes(folder: Path, data: bytes) -> History:
    path = two_turns().path(folder)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return opened_file(folder, path)


def test_a_line_that_was_cut_by_a_kill_loses_itself_alone(tmp_path: Path) -> None:
    t = two_turns()
    t.append(to_json(t.records[0])[:40])
    t.turn("three")
    history = opened(tmp_path, t)
    assert prompts(history) == ["one", "two", "three"]
    assert history.summary.damaged
    assert history.summary.finding_count == 1


def test_a_record_glued_to_the_stub_of_another_is_read(tmp_path: Path) -> None:
    t = two_turns()
    third = t.prompt("three")
    t.answer("third answer")
    record = t.find(third)
    at = t.records.index(record)
    t.records[at] = b'{"type":"pr-link","sessionId":"x","prNu' + to_json(record)
    history = opened(tmp_path, t)
    assert prompts(history) == ["one", "two", "three"]
    assert history.summary.finding_count == 1
    assert [item.text for item in items(history, third)] == ["three", "third answer"]


def test_a_stub_that_ends_within_a_string_does_not_hide_the_record_after_it(tmp_path: Path) -> None:
    t = two_turns()
    third = t.prompt('three {"type":"user","uuid":"fake"}')
    t.answer("third answer")
    at = t.records.index(t.find(third))
    stub = to_json(t.records[0])
    t.records[at] = stub[: stub.index(b'"one"') + 3] + to_json(t.records[at])
    assert [p[:5] for p in prompts(opened(tmp_path, t))] == ["one", "two", "three"]


def test_two_whole_records_on_one_line_are_both_read(tmp_path: Path) -> None:
    t = two_turns()
    third = t.prompt("three")
    t.answer("third answer")
    at = t.records.index(t.find(third))
    t.records[at : at + 2] = [b"".join(to_json(r) for r in t.records[at : at + 2])]
    history = opened(tmp_path, t)
    assert prompts(history) == ["one", "two", "three"]
    assert [item.text for item in items(history, third)] == ["three", "third answer"]


def test_a_last_line_without_its_newline_counts_when_it_is_whole(tmp_path: Path) -> None:
    data = two_turns().dump()
    history = of_bytes(tmp_path, data[:-1])
    assert history.turns([2])[0].response == "second answer"
    assert not history.summary.damaged


def test_a_last_line_that_is_being_written_is_no_damage_and_is_read_when_whole(
    tmp_path: Path,
) -> None:
    data = two_turns().dump()
    path = tmp_path / "s.jsonl"
    path.write_bytes(data[:-30])
    index = Index(path)
    index.refresh()
    assert (index.turn_count, index.torn_lines) == (2, 0)
    kinds = len(index.kinds)
    path.write_bytes(data)
    index.refresh()
    assert (len(index.kinds), index.torn_lines) == (kinds + 1, 0)


def test_a_byte_order_mark_at_the_start_or_after_gluing_files_is_no_damage(tmp_path: Path) -> None:
    lines = two_turns().dump().split(b"\n")
    lines[0] = b"\xef\xbb\xbf" + lines[0]
    lines[2] = b"\xef\xbb\xbf" + lines[2]
    history = of_bytes(tmp_path, b"\n".join(lines))
    assert prompts(history) == ["one", "two"]
    assert not history.summary.damaged


def test_line_ends_of_windows_are_no_damage(tmp_path: Path) -> None:
    history = of_bytes(tmp_path, two_turns().dump().replace(b"\n", b"\r\n"))
    assert prompts(history) == ["one", "two"]
    assert not history.summary.damaged


def test_blank_lines_and_a_tail_of_nul_bytes_are_no_damage(tmp_path: Path) -> None:
    data = two_turns().dump().replace(b"\n", b"\n\n \t\n") + b"\x00" * 5000
    history = of_bytes(tmp_path, data)
    assert prompts(history) == ["one", "two"]
    assert not history.summary.damaged


def test_a_session_goes_on_after_a_tail_of_nul_bytes(tmp_path: Path) -> None:
    t = two_turns()
    t.append(b"\x00" * 5000)
    third = t.turn("three")
    at = t.records.index(t.find(third))
    t.records[at] = b"\x00" * 70 + to_json(t.records[at])
    assert prompts(opened(tmp_path, t)) == ["one", "two", "three"]


def test_bytes_that_are_no_utf_8_are_shown_as_far_as_they_can_be(tmp_path: Path) -> None:
    t = two_turns()
    third = t.prompt("three CAFE!")
    at = t.records.index(t.find(third))
    t.records[at] = to_json(t.records[at]).replace(b"CAFE!", b"caf\xe9 \xff\xfe")
    t.tool("Bash", {"command": "cat x"}, "RESULT!")
    t.records[-1] = to_json(t.records[-1]).replace(b"RESULT!", b"\x80\x81")
    t.turn("four")
    history = opened(tmp_path, t)
    assert prompts(history) == ["one", "two", "three caf� ��", "four"]
    assert not history.summary.damaged


def test_lone_surrogates_escaped_or_not_are_read(tmp_path: Path) -> None:
    t = two_turns()
    third = t.prompt("three X")
    at = t.records.index(t.find(third))
    t.records[at] = to_json(t.records[at]).replace(b"three X", rb"three \ud83d X \ude00")
    fourth = t.prompt("four \ud800")
    history = opened(tmp_path, t)
    assert [p.encode() for p in prompts(history)][2:] == [
        "three � X �".encode(),
        "four ���".encode(),
    ]
    assert [item.text for item in items(history, third)] == ["three � X �"]
    assert items(history, fourth)[0].text.encode()


def test_a_pair_of_surrogates_in_escapes_is_the_one_character(tmp_path: Path) -> None:
    t = two_turns()
    third = t.prompt("three X")
    at = t.records.index(t.find(third))
    t.records[at] = to_json(t.records[at]).replace(b"three X", rb"three \ud83d\ude00 \u65b0")
    assert prompts(opened(tmp_path, t))[2] == "three 😀 新"


def test_a_file_in_another_encoding_has_no_message(tmp_path: Path) -> None:
    history = of_bytes(tmp_path, two_turns().dump().decode().encode("utf-16"))
    assert history.turn_count == 0


def test_a_line_of_thirteen_million_characters_is_one_record(tmp_path: Path) -> None:
    t = two_turns()
    third = t.prompt("three")
    t.tool("Read", {"file_path": "/big"}, "x" * 13_000_000, structured={"type": "text"})
    t.answer("long")
    history = opened(tmp_path, t)
    assert prompts(history) == ["one", "two", "three"]
    (result,) = [i for i in items_up_to(history, third, 1000) if i.kind == "tool_result"]
    assert (result.bytes, result.truncated) == (13_000_000, True)


def items_up_to(history: History, turn_id: str, size: int):  # type: ignore[no-untyped-def]
    return history.items(turn_id, size, None)[1]


def test_numbers_no_float_holds_and_doubled_keys_are_read_as_any_parser_does(
    tmp_path: Path,
) -> None:
    t = two_turns()
    third = t.prompt("three")
    at = t.records.index(t.find(third))
    t.records[at] = to_json(t.records[at]).replace(
        b'{"parentUuid"', b'{"n":[1e999,-0,12345678901234567890,1e-400],"type":"x","parentUuid"', 1
    )
    t.answer("done")
    assert prompts(opened(tmp_path, t)) == ["one", "two", "three"]


def test_json_that_is_too_deep_to_read_is_a_torn_line_not_a_crash(tmp_path: Path) -> None:
    t = two_turns()
    t.append(b'{"type":"user","uuid":"deep","message":' + b"[" * 200_000 + b"]" * 200_000 + b"}")
    t.turn("three")
    assert prompts(opened(tmp_path, t)) == ["one", "two", "three"]


@pytest.mark.parametrize("line", [b"[]", b"1", b'"text"', b"null", b"not JSON", b"{}", b'{"a":1}'])
def test_other_json_and_text_do_no_harm(tmp_path: Path, line: bytes) -> None:
    t = two_turns()
    t.append(line)
    t.turn("three")
    assert prompts(opened(tmp_path, t)) == ["one", "two", "three"]


def test_records_are_parsed_whatever_their_members_order_or_spacing(tmp_path: Path) -> None:
    t = two_turns()
    for at, record in enumerate(t.records):
        assert isinstance(record, dict)
        t.records[at] = json.dumps(dict(reversed(record.items())), indent=None).encode()
    assert prompts(opened(tmp_path, t)) == ["one", "two"]


def test_findings_name_their_line_as_an_editor_counts_it(tmp_path: Path) -> None:
    t = two_turns()
    t.records[1:1] = [b"", b'{"torn']
    missing = "11111111-1111-4111-8111-111111111111"
    third = t.prompt("three", parent=missing)
    history = opened(tmp_path, t)
    (gap,) = history.gaps()
    assert (gap.missing, gap.line, gap.before_turn_id) == (missing, 7, third)
