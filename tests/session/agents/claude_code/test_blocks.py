"""Content blocks taken out of a record's line, against a parser."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from session.agents.claude_code.repairing import blocks, stripping
from tests.session.agents.spelling import Pairs, Raw, Style, spell

texts = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(
    ['"', "\\", '"type":"thinking"', "新聞", "\ud800", "]}"]
)
found = st.lists(
    st.one_of(
        texts.map(lambda t: {"type": "text", "text": t, "n": Raw("1e2")}),
        st.sampled_from(["", "c2ln"]).map(
            lambda s: {"type": "thinking", "thinking": "x", "signature": s}
        ),
        texts.map(lambda t: {"type": "thinking", "thinking": t}),
    ),
    max_size=5,
)
styles = st.builds(
    Style, gap=st.sampled_from(["", " "]), ascii=st.booleans(), ending=st.sampled_from(["", " "])
)


@given(found, styles)
def test_only_unwanted_blocks_leave_and_the_others_keep_their_bytes(
    content: list[dict[str, Any]], style: Style
) -> None:
    line = spell(
        Pairs([("content", [1]), ("message", Pairs([("a", 1), ("content", content)]))]), style
    )
    kept = [b for b in content if b["type"] == "text" or b.get("signature")]
    changed = blocks.without(line, blocks.is_unsigned_thinking)
    if len(kept) == len(content):
        assert changed == line
        return
    parsed = json.loads(changed, strict=False)
    assert parsed["content"] == [1] and parsed["message"]["a"] == 1
    assert parsed["message"]["content"] == json.loads(spell(kept, style), strict=False)
    assert all(spell(block, Style(style.gap, style.ascii)) in changed for block in kept)


def test_a_text_in_the_place_of_blocks_is_left_alone() -> None:
    line = b'{"message":{"content":"thinking"}}'
    assert blocks.without(line, lambda block: True) == line


def test_a_record_is_marked_as_context_once() -> None:
    line = b' {"type":"user"}'
    once = blocks.as_context(line)
    assert json.loads(once) == {"isMeta": True, "type": "user"}
    assert blocks.as_context(once) == once


@given(st.text(max_size=40), st.integers(1, 60), st.integers(1, 40))
def test_an_output_is_cut_only_when_its_bytes_are_over_the_limit(
    text: str, over: int, times: int
) -> None:
    text *= times
    block = {"type": "tool_result", "tool_use_id": "t", "content": text}
    line = spell({"message": {"content": [block]}, "toolUseResult": {"stdout": text}}, Style())
    changed, count, saved = stripping.strip_outputs(line, over)
    raw = text.encode("utf-8", "surrogatepass")
    assert saved == len(line) - len(changed) and (saved > 0) == (count > 0)
    if len(raw) <= over:
        assert count == 0
    if len(raw) > over + 80:
        assert count == 2
    if not count:
        assert changed == line
        return
    result = json.loads(changed)
    shown = result["toolUseResult"]["stdout"]
    kept, _, note = shown.rpartition("\n")
    assert text.startswith(kept) and len(kept.encode()) <= over and "bytes of output" in note
    assert result["message"]["content"][0]["content"] == shown


def test_an_output_that_was_cut_is_not_cut_again() -> None:
    line = spell({"toolUseResult": {"stdout": "x" * 9000}}, Style())
    once, count, _ = stripping.strip_outputs(line, 600)
    assert count == 1
    assert stripping.strip_outputs(once, 600) == (once, 0, 0)


def test_an_image_that_is_named_and_not_held_stays() -> None:
    line = spell(
        {
            "message": {"content": [{"type": "image", "source": {"type": "url", "url": "x"}}]},
            "toolUseResult": {"type": "image", "file": {"type": "image/png"}},
        },
        Style(),
    )
    assert stripping.strip_images(line) == (line, 0, 0)


def test_an_output_that_is_no_utf_8_is_cut_all_the_same() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 90}
    line = spell({"message": {"content": [block]}}, Style()).replace(b"xx", b"\xff\xfe")
    changed, count, _ = stripping.strip_outputs(line, 10)
    assert count == 1 and b"bytes of output" in changed
