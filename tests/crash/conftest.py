"""Lets the checks that several files share say what they found."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "tests.crash.remains", "tests.crash.scene", "tests.crash.forks", "tests.crash.rewinds"
)
