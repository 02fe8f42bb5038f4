"""Framing by itself: bytes in, bodies and faults out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.framing import MAX_BODY, MAX_SKIPPED, Fault, Framing

BODY = b'{"jsonrpc":"2.0"}'
FRAME = b"Content-Length: 17\r\n\r\n" + BODY


def read(*parts: bytes) -> list[bytes | Fault]:
    framing = Framing()
    return [
        bytes(found) if not isinstance(found, Fault) else found
        for part in parts
        for found in framing.feed(part)
    ]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 17\r\n\r\n",
        b"content-length: 17\r\n\r\n",
        b"CONTENT-LENGTH:17\r\n\r\n",
        b"Content-Length: 17\n\n",
        b"Content-Length : 17 \t\r\n\r\n",
        b"Content-Length: 0000000017\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 17\r\n\r\n",
        b"Content-Length: 17\r\nX-Other: a: b\r\n\r\n",
        b"Content-Length: 17\r\nContent-Length: 17\r\n\r\n",
        b"\r\n\n  \r\nContent-Length: 17\r\n\r\n",
    ],
)
def test_a_header_in_any_accepted_form_brings_its_body(header: bytes) -> None:
    assert read(header + BODY + FRAME) == [BODY, BODY]


@pytest.mark.parametrize(
    "junk",
    [
        b"hello\r\n\r\n",
        b"X-Nothing: here\r\n\r\n",
        b"Content-Length: -17\r\n\r\n",
        b"Content-Length: 17.0\r\n\r\n",
        b"Content-Length: +17\r\n\r\n",
        b"Content-Length: 1_7\r\n\r\n",
        "Content-Length: \N{ARABIC-INDIC DIGIT ONE}\r\n\r\n".encode(),
        b"Content-Length:\r\n\r\n",
        b'{"jsonrpc":"2.0","id":1,"method":"list_sessions"}\n',
        b"X-Nothing: here\r\n\r\n" + BODY,
        b"\xff\xfe\x00binary\n",
        b"x" * 100_000 + b"\n",
        b"x" * 100_000,
    ],
)
def test_junk_is_answered_once_and_the_next_message_is_read(junk: bytes) -> None:
    fault, body = read(junk + FRAME)
    assert isinstance(fault, Fault)
    assert not fault.fatal
    assert body == BODY


def test_each_header_without_a_length_is_a_fault_of_its_own() -> None:
    first, second, body = read(b"A: 1\r\n\r\nB: 2\r\n\r\n" + FRAME)
    assert isinstance(first, Fault)
    assert isinstance(second, Fault)
    assert body == BODY


def test_of_contradicting_lengths_the_smaller_one_is_skipped() -> None:
    fault, body = read(b"Content-Length: 99\r\nContent-Length: 17\r\n\r\n" + BODY + FRAME)
    assert isinstance(fault, Fault)
    assert body == BODY


def test_an_empty_body_is_a_body() -> None:
    assert read(b"Content-Length: 0\r\n\r\n" + FRAME) == [b"", BODY]


def test_a_body_over_the_limit_is_a_fault_before_it_arrives_and_then_skipped() -> None:
    framing = Framing()
    (fault,) = framing.feed(b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1))
    assert fault == Fault(f"A body of {MAX_BODY + 1} bytes is over the limit of {MAX_BODY} bytes.")
    for _ in range(64):
        assert not list(framing.feed(b"z" * (1 << 20)))
    assert list(framing.feed(b"z" + FRAME)) == [BODY]


@pytest.mark.parametrize("zeros", [10, 12, 30, 5000])
def test_a_body_that_is_too_long_to_skip_is_fatal(zeros: int) -> None:
    assert MAX_SKIPPED < 10**10
    (fault,) = read(b"Content-Length: 1" + b"0" * zeros + b"\r\n\r\n")
    assert isinstance(fault, Fault)
    assert fault.fatal


def test_reading_goes_on_where_a_reader_stopped() -> None:
    framing = Framing()
    assert next(framing.feed(FRAME * 3)) == BODY
    assert list(framing.feed(b"")) == [BODY, BODY]


def test_an_endless_line_takes_no_memory() -> None:
    framing = Framing()
    for _ in range(100):
        assert not list(framing.feed(b"x" * (1 << 20)))
    assert len(framing._buffer) < 1 << 16


PIECES = st.sampled_from(
    [
        FRAME,
        b"content-length: 2\n\n{}",
        b"Content-Length: 3\r\nContent-Type: x\r\n\r\n\xff\r\n",
        b"Content-Length: 0\r\n\r\n",
        b"\r\n",
        b"X: y\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 17\r\nContent-Length: 4\r\n\r\nabcd",
    ]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=8), st.lists(st.integers(1, 40), max_size=200))
def test_fragments_of_any_size_read_the_same_as_the_whole(
    pieces: list[bytes], cuts: list[int]
) -> None:
    whole = b"".join(pieces)
    parts, at = [], 0
    for cut in cuts:
        parts.append(whole[at : at + cut])
        at += cut
    assert read(*parts, whole[at:]) == read(whole)


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_at_all_keep_the_next_messages_from_being_read(junk: bytes) -> None:
    # A length in the junk itself may take the bytes after it for its body.
    rescue = b"\n" * 2 + FRAME * 2
    if b"content-length" not in junk.lower():
        assert read(junk + rescue)[-1] == BODY
