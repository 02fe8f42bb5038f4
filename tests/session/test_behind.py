from __future__ import annotations

import threading

import pytest

from session.osfile import behind


def test_what_is_handed_over_is_taken_in_order_on_another_thread() -> None:
    taken: list[tuple[bytes, bool]] = []
    here = threading.get_ident()
    with behind(lambda value: taken.append((value, threading.get_ident() == here))) as hand:
        for number in range(50):
            hand(b"%d" % number)
    assert taken == [(b"%d" % number, False) for number in range(50)]


def test_after_a_failure_nothing_more_is_taken_and_the_block_raises_it() -> None:
    taken: list[bytes] = []

    def fail_at_three(value: bytes) -> None:
        if value == b"3":
            raise OSError(28, "full")
        taken.append(value)

    with pytest.raises(OSError, match="full"), behind(fail_at_three) as hand:
        for number in range(1000):
            hand(b"%d" % number)
    assert taken == [b"0", b"1", b"2"]


def test_an_error_of_the_block_itself_ends_the_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="mine"), behind(lambda value: None) as hand:
        hand(b"one")
        raise ValueError("mine")
    assert threading.active_count() == before
