"""How many examples the property tests look at."""

from __future__ import annotations

import os

WANTED = os.environ.get("TURNTREE_EXAMPLES")
"""For a search by hand: this many of each, other ones on every run."""


def examples(count: int) -> int:
    """`count`, unless the search is by hand."""
    return int(WANTED or count)
