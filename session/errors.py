"""Typed errors of the engine: one base class, a `kind` per failure, `data` for programs.

The kinds and codes are those of the wire protocol (docs/protocol.md, "Application
errors").  Messages are for people: they say what is wrong, where, and what to do.
"""

from __future__ import annotations

from typing import Any, ClassVar


class TurntreeError(Exception):
    """A failure that a client can tell apart by `kind` and act on through `data`."""

    kind: ClassVar[str] = "internal"
    code: ClassVar[int] = -32603

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = data

    @property
    def data(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.fields}


class InvalidParams(TurntreeError):
    """A parameter that no state of the store could make right.  Data: `field`."""

    kind = "invalid_params"
    code = -32602


class SessionNotFound(TurntreeError):
    kind, code = "session_not_found", 1001


class SessionExists(TurntreeError):
    kind, code = "session_exists", 1002


class SessionBusy(TurntreeError):
    """Data: `holder {pid, host, since, program}`, `alternative` (a ready request or None)."""

    kind, code = "session_busy", 1003


class BoundaryOutOfRange(TurntreeError):
    kind, code = "boundary_out_of_range", 1004


class TurnNotFound(TurntreeError):
    kind, code = "turn_not_found", 1005


class TurnInProgress(TurntreeError):
    kind, code = "turn_in_progress", 1006


class StaleRevision(TurntreeError):
    kind, code = "stale_revision", 1007


class StaleCursor(TurntreeError):
    kind, code = "stale_cursor", 1008


class SessionDamaged(TurntreeError):
    """Data: `findings`, a list of {code, severity, line, byte_offset, turn_id, message, repair}."""

    kind, code = "session_damaged", 1009


class Unsupported(TurntreeError):
    """Data: `agent`, `operation`, `reason`."""

    kind, code = "unsupported", 1010


class NotStaged(TurntreeError):
    kind, code = "not_staged", 1013


class NothingToUndo(TurntreeError):
    kind, code = "nothing_to_undo", 1014


class StorageError(TurntreeError):
    """The file system or a database refused.  Data: `path`, `errno`."""

    kind, code = "storage_error", 1015

    @classmethod
    def from_os(cls, error: OSError, doing: str, path: str | None = None) -> StorageError:
        where = path or error.filename or ""
        return cls(
            f"{doing} failed: {error.strerror or error} ({where})",
            path=str(where),
            errno=error.errno,
        )


class Indeterminate(TurntreeError):
    """The outcome is not known.  Data: `session_id`, `operation_id`."""

    kind, code = "indeterminate", 1018

    @classmethod
    def after(cls, what: str, session_id: str, operation_id: str) -> Indeterminate:
        """`what` took place, but recording it failed."""
        return cls(
            f"{what} took place, but recording it failed. Nothing is lost; the next start of "
            "Turntree records it.",
            session_id=session_id,
            operation_id=operation_id,
        )


class Cancelled(Exception):
    """Raised inside blocking work whose request was cancelled before its publish step."""
