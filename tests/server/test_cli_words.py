"""Single values in words, and the shapes that output is made of."""

from __future__ import annotations

import shlex
import subprocess
from datetime import UTC, datetime
from io import StringIO

import pytest

from server.render import layout, plain, terminal, words
from server.render.layout import Column, Lines, Node, Table
from session.model import Resume

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("2026-01-31T12:00:00.000Z", "just now"),
        ("2026-01-31T11:59:20.000Z", "just now"),
        ("2026-01-31T12:00:30.000Z", "just now"),
        ("2026-01-31T11:59:10.000Z", "1 min ago"),
        ("2026-01-31T11:01:00.000Z", "59 min ago"),
        ("2026-01-31T11:00:00.000Z", "1 h ago"),
        ("2026-01-31T09:00:00.000Z", "3 h ago"),
        ("2026-01-30T12:20:00.000Z", "1 d ago"),
        ("2026-01-20T12:00:00.000Z", "11 d ago"),
        ("2026-01-10T12:00:00.000Z", "3 wk ago"),
        ("2025-06-15T12:00:00.000Z", "2025-06-15"),
        ("2026-03-15T12:00:00.000Z", "2026-03-15"),
        (None, ""),
        ("yesterday\x1b[m", "yesterday␛[m"),
    ],
)
def test_a_time_is_told_relative_to_now(then: str | None, said: str) -> None:
    assert words.ago(then, NOW) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (99_960, "100 kB"),
        (999_600, "1.0 MB"),
        (110_000_000, "110 MB"),
        (2_200_000_000, "2.2 GB"),
    ],
)
def test_a_size_has_two_or_three_digits_and_a_unit(count: int, said: str) -> None:
    assert words.size(count) == said


def test_text_cannot_steer_the_terminal() -> None:
    assert words.line("a\x1b[31mb\x07\x7f\x9bm\u202ec\ud800") == "a␛[31mb␇␡\\u009bm\\u202ec\\ud800"


def test_a_line_is_one_line() -> None:
    assert words.line("  one\r\ntwo\t three\u2028four ") == "one two three four"


def test_a_block_keeps_its_lines_and_expands_tabs() -> None:
    assert words.block("a\tb\r\nc\rd\x1b\n\n") == ["a   b", "c", "d␛"]


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    assert [words.width(text) for text in ("abc", "新聞", "e\u0301", "😀")] == [3, 4, 1, 2]


def test_a_long_text_is_cut_to_its_columns() -> None:
    assert words.head("short", 10) == "short"
    assert words.head("exactly 10", 10) == "exactly 10"
    assert words.head("one two three", 9) == "one two…"
    assert words.head("新聞新聞新聞", 8) == "新聞新…"


def test_ids_are_cut_to_eight_characters_where_that_is_enough() -> None:
    ids = ["0f3c1111-aaaa", "0f3c1111-abbb", "77777777-cccc"]
    assert words.shorten(ids) == {
        "0f3c1111-aaaa": "0f3c1111-aa",
        "0f3c1111-abbb": "0f3c1111-ab",
        "77777777-cccc": "77777777",
    }


def test_an_id_that_begins_another_stays_whole() -> None:
    assert words.shorten(["abcdefghi", "abcdefghijk"]) == {
        "abcdefghi": "abcdefghi",
        "abcdefghijk": "abcdefghij",
    }


def test_a_path_is_relative_below_the_base_and_short_in_the_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert words.path("/home/ada/web/x", "/home/ada/web") == "x"
    assert words.path("/home/ada/website", "/home/ada/web") == "~/website"
    assert words.path("/srv/x", "/home/ada") == "/srv/x"


def test_the_resume_command_pastes_into_a_shell(tmp_path: object) -> None:
    how = Resume(["printf", "%s|", "it's", "a\nb\x1b"], "/", {"A_B": "x y"}, True, None)
    command = words.command(how, str(tmp_path))
    assert "\x1b" not in command and "\n" not in command
    out = subprocess.run(
        ["bash", "-c", f'{command}; printf %s "$PWD"'], capture_output=True, check=True
    ).stdout
    assert out == b"it's|a\nb\x1b|/"


def test_the_resume_command_changes_directory_only_where_it_must() -> None:
    how = Resume(["claude", "--resume", "x"], "/", {"CLAUDE_CONFIG_DIR": "/a b"}, True, None)
    assert words.command(how, "/") == "CLAUDE_CONFIG_DIR='/a b' claude --resume x"
    assert words.command(how, "/usr").startswith("cd / && CLAUDE")


def test_ordinary_words_are_quoted_as_shlex_does() -> None:
    assert [words.quote(w) for w in ("a", "a b", "新")] == [
        shlex.quote(w) for w in ("a", "a b", "新")
    ]


TABLE = Table(
    [Column("ID"), Column("N", right=True), Column("TITLE", elastic=1)],
    [[["a1"], ["5"], [("新聞", "dim")]], [["a22"], ["12,345"], ["long " * 20]]],
)


def test_a_piped_table_is_aligned_and_whole() -> None:
    assert list(plain.lines([TABLE])) == [
        "ID        N  TITLE",
        "a1        5  新聞",
        "a22  12,345  " + ("long " * 20).rstrip(),
    ]


def test_a_column_after_wide_characters_still_aligns() -> None:
    table = Table([Column("A"), Column("B")], [[["新聞"], ["x"]], [["abc"], ["y"]]])
    assert list(plain.lines([table])) == ["A     B", "新聞  x", "abc   y"]


def on_terminal(block: layout.Block, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    out = StringIO()
    terminal.show([block], out)
    return out.getvalue().splitlines()


def test_on_a_terminal_only_the_elastic_column_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(TABLE, 30, monkeypatch)
    assert [row.rstrip() for row in shown] == [
        "ID        N  TITLE",
        "a1        5  新聞",
        "a22  12,345  long long long l…",
    ]


def test_a_tree_says_the_same_on_a_terminal_and_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Node(["a"], [Node(["b"], [Node(["c"])]), Node(["d"])])
    expected = ["a", "├── b", "│   └── c", "└── d"]
    assert list(plain.lines([tree])) == expected
    assert [row.rstrip() for row in on_terminal(tree, 40, monkeypatch)] == expected


def test_a_command_to_paste_is_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "cd /x && claude --resume " + "y" * 60
    assert on_terminal(Lines([[command]], indent=2), 20, monkeypatch) == ["  " + command]
