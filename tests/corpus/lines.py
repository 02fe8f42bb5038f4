"""Lines that were torn, glued to each other, written twice, or left blank."""

from __future__ import annotations

from tests.chain import to_json
from tests.corpus.case import FOUR, Case, case, lines_of, rewritten, told, written
from tests.world import World


@case
def nothing_is_wrong(world: World) -> Case:
    return written(world, told(world, *FOUR))


@case
def a_torn_line(world: World) -> Case:
    """The answer to `two` is cut; what followed it has lost its parent."""
    t = told(world, *FOUR)
    t.records[3] = lines_of(t)[3][:70]
    return written(world, t, [("torn_line", 4), ("missing_parent", 5)], gaps=[5])


@case
def a_torn_line_that_nothing_hangs_on(world: World) -> Case:
    t = told(world, *FOUR)
    t.records.insert(4, b'{"type":"mode","mode":"nor')
    return written(world, t, [("torn_line", 5)])


@case
def a_torn_last_line_with_its_newline(world: World) -> Case:
    t = told(world, *FOUR)
    t.records[7] = lines_of(t)[7][:-40]
    return written(world, t, [("torn_line", 8)])


@case
def a_torn_end(world: World) -> Case:
    """Killed in mid-write: the last line has neither an end nor a newline."""
    t = told(world, *FOUR)
    return rewritten(world, t, t.dump()[:-60], [("torn_end", 8)])


@case
def no_newline_at_the_end(world: World) -> Case:
    t = told(world, *FOUR)
    return rewritten(world, t, t.dump()[:-1])


@case
def f017_a_record_glued_to_a_stub(world: World) -> Case:
    """anthropics/claude-code#52387: a kill in mid-write, and the next append on the same line."""
    t = told(world, *FOUR)
    t.records[4] = (
        b'{"type":"pr-link","sessionId":"%s","prNu' % t.session_id.encode() + (lines_of(t)[4])
    )
    return written(world, t, [("glued_line", 5)])


@case
def f017_a_record_glued_to_forty_bytes_of_another(world: World) -> Case:
    t = told(world, *FOUR)
    lines = lines_of(t)
    t.records[4:6] = [lines[4][:40] + lines[5]]
    findings = [("glued_line", 5), ("missing_parent", 5)]
    return written(world, t, findings, prompts=["one", "two", "four"], gaps=[5])


@case
def two_records_on_one_line(world: World) -> Case:
    t = told(world, *FOUR)
    lines = lines_of(t)
    t.records[2:4] = [lines[2] + lines[3]]
    return written(world, t, [("glued_line", 3)])


@case
def three_records_on_one_line(world: World) -> Case:
    t = told(world, *FOUR)
    lines = lines_of(t)
    t.records[3:6] = [lines[3] + lines[4] + lines[5]]
    return written(world, t, [("glued_line", 4)])


@case
def a_stub_glued_to_a_record(world: World) -> Case:
    t = told(world, *FOUR)
    t.records[3] = lines_of(t)[3] + b'{"type":"mode","mode":"nor'
    return written(world, t, [("glued_line", 4)])


@case
def f019_a_record_cut_in_base64_and_written_again(world: World) -> Case:
    """openai/codex#24425: the torn line has no newline, the repeat follows on the same line."""
    t = told(world, *FOUR)
    record = t.records[3]
    assert isinstance(record, dict)
    record["message"]["content"].insert(0, {"type": "text", "text": "aGVsbG8" * 450})
    whole = to_json(record)
    t.records[3] = whole[:1800] + whole
    return written(world, t, [("glued_line", 4)])


@case
def f026_records_written_twice(world: World) -> Case:
    """anthropics/claude-code#48936: all records again, with no parent, before the next turn."""
    t = told(world, *FOUR[:3])
    t.records += [{**record, "parentUuid": None} for record in t.messages()]
    t.turn("four")
    return written(world, t, [("duplicate_record", 7)])


@case
def records_written_twice_in_two_runs(world: World) -> Case:
    t = told(world, "one", "two")
    t.records += t.messages()[:2]
    t.turn("three")
    t.records += t.messages()[2:3]
    t.turn("four")
    return written(world, t, [("duplicate_record", 5), ("duplicate_record", 9)])


@case
def blank_lines(world: World) -> Case:
    t = told(world, *FOUR)
    t.records.insert(6, b"")
    t.records.insert(2, b"  \t")
    t.records.insert(2, b"")
    return written(world, t, [("blank_lines", 3)])


@case
def a_line_that_is_json_and_no_record(world: World) -> Case:
    t = told(world, *FOUR)
    t.records.insert(2, b"[1,2,3]")
    return written(world, t, [("torn_line", 3)])


@case
def a_line_of_thirteen_million_characters(world: World) -> Case:
    t = told(world, "one", "two")
    t.prompt("three")
    t.tool("Bash", {"command": "cat"}, "x" * 13_000_000)
    t.answer()
    t.turn("four")
    return written(world, t, [("large_outputs", 7)])


@case
def a_line_that_crosses_five_mebibytes(world: World) -> Case:
    """A line that begins before the size at which the program reads in another way."""
    t = told(world, "one", "two")
    t.prompt("three")
    for size in (5_200_000, 100_000):
        t.answer("y" * size)
    t.turn("four")
    assert len(b"\n".join(lines_of(t)[:6])) < 5 << 20 < len(t.dump())
    return written(world, t)


@case
def several_hundred_torn_lines(world: World) -> Case:
    """Listed up to a bound, then counted."""
    t = told(world, *FOUR)
    t.records[4:4] = [b'{"type":"mode","mode":"nor'] * 300
    findings = [("torn_line", line) for line in range(5, 206)]
    return written(world, t, list(findings))
