"""The codes of findings: how bad each one is, which repair deals with it, what it means.

docs/protocol.md has the same table; a test compares the two.
"""

from __future__ import annotations

from session.values import value

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)

_RECOVER = "recover_lines"
_BRIDGE = "bridge_gaps"
_CLOSE = "close_calls"


@value
class Code:
    """`repair` is the name of the repair that deals with it, None where none does."""

    severity: str
    repair: str | None


CODES: dict[str, Code] = {
    # What the index itself counts, and what makes a session's state `damaged`.
    "torn_line": Code(ERROR, _RECOVER),
    "glued_line": Code(ERROR, _RECOVER),
    "huge_line": Code(ERROR, _RECOVER),
    "missing_parent": Code(ERROR, _BRIDGE),
    "sidechain_parent": Code(ERROR, _BRIDGE),
    "other_encoding": Code(ERROR, _RECOVER),
    # What costs something, or will.
    "no_records": Code(WARNING, None),
    "torn_end": Code(WARNING, _RECOVER),
    "dangling_call": Code(WARNING, _CLOSE),
    "orphan_result": Code(WARNING, _CLOSE),
    "split_call": Code(WARNING, _CLOSE),
    "unsigned_thinking": Code(WARNING, "drop_thinking"),
    "duplicate_record": Code(WARNING, _RECOVER),
    "foreign_records": Code(WARNING, _RECOVER),
    "stray_records": Code(WARNING, "collect_strays"),
    "parent_circle": Code(WARNING, _BRIDGE),
    "byte_order_mark": Code(WARNING, _RECOVER),
    "nul_bytes": Code(WARNING, _RECOVER),
    "not_utf8": Code(WARNING, _RECOVER),
    "images_dominate": Code(WARNING, "strip_images"),
    "oversized_image": Code(WARNING, "strip_images"),
    "expires_soon": Code(WARNING, None),
    "missing_directory": Code(WARNING, None),
    "second_file": Code(WARNING, None),
    "missing_companion": Code(WARNING, None),
    "untimed_record": Code(WARNING, None),
    # What is worth knowing.
    "crlf": Code(INFO, _RECOVER),
    "blank_lines": Code(INFO, _RECOVER),
    "lone_surrogate": Code(INFO, None),
    "several_roots": Code(INFO, None),
    "parent_below": Code(INFO, None),
    "live_writer": Code(INFO, None),
    "moved_directory": Code(INFO, None),
    "shared_folder": Code(INFO, None),
    "stale_session_index": Code(INFO, None),
    "undelivered_prompt": Code(INFO, None),
    "large_outputs": Code(INFO, "strip_outputs"),
    "over_read_limit": Code(INFO, None),
    "unreadable_pointer": Code(INFO, None),
}
