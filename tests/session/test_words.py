"""What a query means, and how a hit is shown."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session.model import HIT, HIT_END
from session.words import Term, expression, indexable, parsed, snippet


def marked(text: str) -> str:
    return text.replace(HIT, "[").replace(HIT_END, "]")


def finds(query: str, text: str) -> bool:
    """Whether the query matches the text, by the index's own means."""
    terms = parsed(query)
    if not terms:
        return False
    with sqlite3.connect(":memory:") as database:
        database.execute(
            "CREATE VIRTUAL TABLE w USING fts5(t, content='', tokenize=\"unicode61"
            " remove_diacritics 0 categories 'L* N* Co M*'\")"
        )
        database.execute("INSERT INTO w (rowid, t) VALUES (1, ?)", (indexable(text),))
        found = database.execute("SELECT 1 FROM w WHERE w MATCH ?", (expression(terms),))
        return found.fetchone() is not None


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("retry", "Add a Retry."),
        ("RETRY add", "Add a retry."),
        ("par*", "the parser"),
        ('"the parser"', "see The  Parser here"),
        ('"the pars"*', "see the parser here"),
        ("café", "CAFE"),
        ("cafe", "le cafe\u0301"),
        ("Straße", "STRASSE"),
        ("新聞", "今日の新聞を読む"),
        ("聞", "今日の新聞を読む"),
        ("新聞 読む", "今日の新聞を読む"),
        ("abc新聞", "xyz abc新聞"),
        ("ﾊﾝｶｸ", "ハンカク"),
        ("한국", "한국어"),
        ("हिन्दी", "यह हिन्दी है"),
        ("foo_bar", "call foo_bar(1)"),
        ("don't", "I don't know"),
        ("C++", "in c++ and C"),
        ("a:b", "key a:b"),
        ("-x", "run with -x"),
        ("AND", "this and that"),
        ("NEAR(a b)", "near(a b)"),
        ('say "hi', "he says: say hi"),
        ("naïve", "naive"),
    ],
)
def test_a_query_finds(query: str, text: str) -> None:
    assert finds(query, text)
    shown = snippet([text], parsed(query))
    assert HIT in shown


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("pars", "the parser"),
        ('"parser the"', "the parser"),
        ("新問", "新聞"),
        ("聞新", "新聞"),
        ("か", "が"),
        ("foo bar", "foo"),
        ("NOT b", "a b"),
    ],
)
def test_a_query_does_not_find(query: str, text: str) -> None:
    assert not finds(query, text)


@pytest.mark.parametrize("query", ["", " ", "*", "-", '"', '""', "'", "( ) ^", "\u2068", "。"])
def test_a_query_without_a_word_asks_for_nothing(query: str) -> None:
    assert parsed(query) == []


def test_words_phrases_and_beginnings_are_told_apart() -> None:
    assert parsed('Foo "bar baz" qu* "a b"*') == [
        Term(("foo",), False, "Foo"),
        Term(("bar", "baz"), False, "bar baz"),
        Term(("qu",), True, "qu*"),
        Term(("a", "b"), True, "a b"),
    ]


@given(st.text())
def test_no_query_is_an_error(query: str) -> None:
    finds(query, "some text")


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1))
def test_a_text_is_found_by_itself(text: str) -> None:
    if len(parsed(f'"{text}"')) == 1 and '"' not in text:
        assert finds(f'"{text}"', text)


def test_a_snippet_is_a_line_around_the_first_hit() -> None:
    text = "word " * 100 + "then\n\n\tthe needle is here, a needle" + " word" * 100
    shown = marked(snippet([text], parsed("needle")))
    assert "the [needle] is here, a [needle] word" in shown
    assert shown.startswith("…word") and shown.endswith("word…")
    assert len(shown) < 220


def test_a_snippet_shows_the_side_that_has_the_hit() -> None:
    assert marked(snippet(["nothing", "a hit"], parsed("hit"))) == "a [hit]"
    assert marked(snippet(["both hit", "a hit"], parsed("hit"))) == "both [hit]"
    assert marked(snippet(["neither", "nor"], parsed("hit"))) == "neither"


def test_a_snippets_text_holds_no_marks_of_its_own() -> None:
    shown = snippet([f"a {HIT}false{HIT_END} one and a hit"], parsed("hit"))
    assert marked(shown) == "a false one and a [hit]"


@given(st.text(alphabet='ab 新聞é\n"*', max_size=80), st.text(alphabet='ab新聞é* "', max_size=8))
def test_what_matches_is_marked(text: str, query: str) -> None:
    if finds(query, text):
        shown = snippet([text], parsed(query))
        assert shown.count(HIT) == shown.count(HIT_END) >= 1
