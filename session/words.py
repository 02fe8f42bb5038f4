"""How text becomes the words that a search compares, and how what was found is shown.

Words are runs of letters and digits, without regard to case and accents.  Scripts that put no
space between words (ideographs, kana, hangul) are taken character by character, and several of
them in a row as a phrase, so that 新聞 is found in 今日の新聞.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence

from session.model import HIT, HIT_END
from session.values import value

_UNSPACED = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b-\u303c\u3041-\u3096"
    "\u309d-\u309f\u30a1-\u30fa\u30fc-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_ONE_UNSPACED = re.compile(f"[{_UNSPACED}]")
# The marks of European scripts; those of kana and of Indian scripts make other letters.
_ACCENT = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")
_PART = re.compile(r'"([^"]+)"(\*?)|(\S+)')
_STRING_END = re.compile('["\0]')
_MOST_TERMS = 64
_BEFORE, _WIDTH = 50, 180


@value
class Term:
    """Words that must follow each other, the last of them perhaps only begun (`prefix`).

    `text` is what they were found in, for the index to find them in its own way.
    """

    words: tuple[str, ...]
    prefix: bool
    text: str


def folded(text: str) -> str:
    """Text without case and accents."""
    if text.isascii():
        return text.lower()
    text = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", text).casefold()


def indexable(text: str) -> str:
    """Text as the index takes it, whose own way of splitting words then finds the same ones."""
    if text.isascii():
        return text
    # ASCII is folded by the index itself, and most of most texts is that.
    return _BEYOND_ASCII.sub(_spaced, text)


def _spaced(match: re.Match[str]) -> str:
    return _ONE_UNSPACED.sub(r" \g<0> ", folded(match[0]))


def parsed(query: str) -> list[Term]:
    """What a query asks for, all of it at once: words, `"phrases"` and `beginnings*`.

    Whatever else stands there only separates words; an empty list for a query without any.
    """
    terms = []
    for phrase, star, word in _PART.findall(query):
        text = phrase or word
        found = tuple(token for _, _, token in _tokens(text))
        if found:
            prefix = bool(star) or (not phrase and text.endswith("*"))
            terms.append(Term(found, prefix, indexable(text)))
    return terms[:_MOST_TERMS]


def expression(terms: Sequence[Term]) -> str:
    """The same in the language of SQLite's FTS5: strings, in which nothing has a meaning."""
    return " AND ".join(
        '"' + _STRING_END.sub(" ", term.text) + '"' + ("*" if term.prefix else "") for term in terms
    )


def snippet(texts: Sequence[str], terms: Sequence[Term]) -> str:
    """A line around the first hit in the first of `texts` that has one, the hits marked."""
    for text in texts:
        hits = _hits(text, terms)
        first = next(hits, None)
        if first is not None:
            return _cut(text, first, hits)
    return _line(texts[0][:_WIDTH]) + ("…" if len(texts[0]) > _WIDTH else "")


def _cut(text: str, first: tuple[int, int], more: Iterator[tuple[int, int]]) -> str:
    begin = max(0, first[0] - _BEFORE)
    end = max(first[1], min(len(text), begin + _WIDTH))
    if begin and (space := text.find(" ", begin, first[0])) >= 0:
        begin = space + 1
    if end < len(text) and (space := text.rfind(" ", first[1], end)) >= 0:
        end = space
    out, at = [], begin
    hit: tuple[int, int] | None = first
    while hit is not None and hit[1] <= end:
        if hit[0] >= at:
            out += [_clean(text[at : hit[0]]), HIT, _clean(text[hit[0] : hit[1]]), HIT_END]
            at = hit[1]
        hit = next(more, None)
    out.append(_clean(text[at:end]))
    line = " ".join("".join(out).split())
    return ("…" if begin else "") + line + ("…" if end < len(text) else "")


def _line(text: str) -> str:
    return " ".join(_clean(text).split())


def _clean(text: str) -> str:
    return text.replace(HIT, "").replace(HIT_END, "")


def _hits(text: str, terms: Sequence[Term]) -> Iterator[tuple[int, int]]:
    """Where in `text` a term stands, in order."""
    longest = max(len(term.words) for term in terms)
    recent: list[tuple[int, int, str]] = []
    for token in _tokens(text):
        recent.append(token)
        del recent[:-longest]
        for term in terms:
            count = len(term.words)
            tail = recent[-count:]
            if len(tail) == count and _fits(term, [word for _, _, word in tail]):
                yield tail[0][0], token[1]
                break


def _fits(term: Term, found: list[str]) -> bool:
    if term.prefix:
        last = found[-1].startswith(term.words[-1])
    else:
        last = found[-1] == term.words[-1]
    return last and tuple(found[:-1]) == term.words[:-1]


def _tokens(text: str) -> Iterator[tuple[int, int, str]]:
    """The words of a text as (start, end, folded)."""
    token = _ASCII_TOKEN if text.isascii() else _token()
    for match in token.finditer(text):
        for word in indexable(folded(match[0])).split():
            yield match.start(), match.end(), word


_ASCII_TOKEN = re.compile("[A-Za-z0-9]+")


@functools.cache
def _token() -> re.Pattern[str]:
    # Python's `\\w` leaves out the vowel signs of many scripts, which are no separators.
    marks = "".join(
        re.escape(chr(code))
        for block in (range(0x300, 0x3100), range(0xA600, 0xAC00))
        for code in block
        if unicodedata.category(chr(code)).startswith("M")
    )
    return re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_]|[{marks}])+")
