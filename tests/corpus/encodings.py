"""Bytes that are no UTF-8 text with newlines: marks, carriage returns, NULs, other encodings."""

from __future__ import annotations

from tests.corpus.case import FOUR, Case, case, lines_of, rewritten, told, written
from tests.world import World

MARK = b"\xef\xbb\xbf"


@case
def f020_a_byte_order_mark_at_the_start(world: World) -> Case:
    """openai/codex#28139: an editor wrote EF BB BF before the first record."""
    t = told(world, *FOUR)
    return rewritten(world, t, MARK + t.dump(), [("byte_order_mark", 1)])


@case
def f020_a_byte_order_mark_in_the_middle(world: World) -> Case:
    """Two files of one session were put behind each other."""
    t = told(world, *FOUR)
    t.records[4] = MARK + lines_of(t)[4]
    return written(world, t, [("byte_order_mark", 5)])


@case
def f020_carriage_returns(world: World) -> Case:
    t = told(world, *FOUR)
    return rewritten(world, t, t.dump().replace(b"\n", b"\r\n"), [("crlf", 1)])


@case
def f020_nul_bytes_at_the_end(world: World) -> Case:
    """A power loss: the file's size was written, its last bytes were not."""
    t = told(world, *FOUR)
    return rewritten(world, t, t.dump() + b"\x00" * 4096, [("nul_bytes", 9)])


@case
def nul_bytes_in_the_middle(world: World) -> Case:
    """What followed the power loss was written behind the NULs, on the same line."""
    t = told(world, *FOUR)
    t.records[4] = b"\x00" * 700 + lines_of(t)[4]
    return written(world, t, [("nul_bytes", 5)])


@case
def lines_of_nul_bytes(world: World) -> Case:
    t = told(world, *FOUR)
    t.records[4:4] = [b"\x00" * 512, b"\x00" * 512]
    return written(world, t, [("nul_bytes", 5)])


@case
def nul_bytes_within_a_record(world: World) -> Case:
    t = told(world, *FOUR)
    line = lines_of(t)[3]
    t.records[3] = line[:90] + b"\x00" * 80 + line[170:]
    return written(world, t, [("torn_line", 4), ("missing_parent", 5)], gaps=[5])


@case
def bytes_that_are_no_utf8(world: World) -> Case:
    """The output of a tool, written as it came."""
    t = told(world, *FOUR)
    t.records[3] = lines_of(t)[3].replace(b"answer to two", b"answer \xff\xfe to two")
    return written(world, t, [("not_utf8", 4)])


@case
def half_of_a_surrogate_pair(world: World) -> Case:
    """A text that was cut in the middle of an emoji."""
    t = told(world, *FOUR)
    t.records[3] = lines_of(t)[3].replace(b"answer to two", b"answer \\ud83d")
    return written(world, t, [("lone_surrogate", 4)])


def _encoded(world: World, encoding: str, mark: bytes) -> Case:
    t = told(world, *FOUR)
    data = mark + t.dump().decode().encode(encoding)
    more = {"prompts": [], "branches": 1, "listed": False, "recovered": FOUR}
    return rewritten(world, t, data, [("other_encoding", 1)], **more)


@case
def f020_utf16_little_endian(world: World) -> Case:
    return _encoded(world, "utf-16-le", b"\xff\xfe")


@case
def f020_utf16_big_endian(world: World) -> Case:
    return _encoded(world, "utf-16-be", b"\xfe\xff")


@case
def utf16_without_a_mark(world: World) -> Case:
    return _encoded(world, "utf-16-le", b"")


@case
def utf16_with_utf8_behind_it(world: World) -> Case:
    """A shell rewrote the file, and the program went on in it."""
    t = told(world, *FOUR)
    lines = t.dump().splitlines(keepends=True)
    data = b"\xff\xfe" + b"".join(lines[:4]).decode().encode("utf-16-le") + b"".join(lines[4:])
    # The last UTF-16 newline leaves its second byte on the next line.
    findings = [("other_encoding", 1), ("missing_parent", 5), ("nul_bytes", 5)]
    more = {"prompts": ["three", "four"], "gaps": [5], "recovered": FOUR}
    return rewritten(world, t, data, findings, **more)
