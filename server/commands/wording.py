"""The engine's errors in the words of the command line.

The engine speaks to programs and names fields and methods of the protocol; a person has typed
options and has commands.  This is the one table between the two, and it is for text alone:
with `--json` the error is printed as the server answers it.
"""

from __future__ import annotations

import re

_SAID = {
    "new_session_id:": "--id:",
    "allocate_session_id makes one": "without --id the fork gets one",
    "Allocate another (allocate_session_id)": "Give another --id, or none for a new one",
    "cwd:": "--cwd:",
    "branch:": "--branch:",
    "list_branches names them": "`turntree branches` names them",
    "list_operations shows which can": "`turntree operations` shows which can",
    "list_turns with branch 'all' names them": "`turntree turns --branch all` names them",
    "check_session says why, and repair_session may bring": (
        "`turntree check` says why, and `turntree repair` may bring"
    ),
    "is undone by operation_id": "is undone by turntree undo --operation",
    "cursor:": "--cursor:",
    "not a cursor of list_sessions": "`turntree sessions` did not print it",
    "not a cursor of list_turns": "`turntree turns` did not print it",
    "not a cursor of read_turn": "`turntree show` did not print it",
    "not a cursor of list_operations": "`turntree operations` did not print it",
    "With bridge_gaps": "With --bridge-gaps",
    "Name bridge_gaps, which joins": "Add --repair bridge_gaps, which joins",
    "or cut_gaps, which keeps": "or --repair cut_gaps, which keeps",
    "fork with workspace mode none": "fork without --workspace",
    "mode conversation is": "rewind without --files and --both",
}
_PHRASE = re.compile("|".join(rf"(?<![\w-]){re.escape(phrase)}" for phrase in _SAID))
_SESSION = re.compile(r"\b[a-z-]+:([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def of(message: str) -> str:
    """`message` with options for fields, commands for methods, and ids as listings show them."""
    return _SESSION.sub(r"\1", _PHRASE.sub(lambda match: _SAID[match[0]], message))
