"""Stores in which one thing is wrong: a builder each, with the values that are right to tell.

A case is named after its report in the list of known failures (F001 …) where it has one.

    from tests.corpus import CASES

    case = CASES["f017_a_record_glued_to_a_stub"](world)      # builds it in the world's store
    case.session_id, case.path, case.prompts, case.findings    # what is right

The tests of reading, of checking and of repairing all run over the same cases.
"""

from __future__ import annotations

from tests.corpus import chains, conversations, encodings, files, lines, places, strays
from tests.corpus.case import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "chains",
    "conversations",
    "encodings",
    "files",
    "lines",
    "places",
    "strays",
]
