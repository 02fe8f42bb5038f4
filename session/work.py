"""Blocking work with progress and cancellation, shared between a thread and its request."""

from __future__ import annotations

import threading
from collections.abc import Callable

from session.errors import Cancelled

Report = Callable[[int, int, str], None]
"""Called with (bytes done, bytes in all, what is being done) from the working thread."""


class Work:
    """One request's handle on blocking work.

    The working thread calls `checkpoint` between steps and `commit` right before the step
    that cannot be taken back (the publish step).  The request calls `cancel`, which is
    True when the work will stop, False when it is past that step and will finish.
    """

    def __init__(self, report: Report | None = None) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._cancelled = False
        self._committed = False

    def checkpoint(self, done: int = 0, total: int = 0, doing: str = "") -> None:
        """Report progress; raise `Cancelled` when the request was cancelled."""
        if self._cancelled and not self._committed:
            raise Cancelled
        if self._report is not None and total:
            self._report(done, total, doing)

    def commit(self) -> None:
        """From here on the work finishes whatever happens; raise `Cancelled` if it is too late."""
        with self._lock:
            if self._cancelled:
                raise Cancelled
            self._committed = True

    def cancel(self) -> bool:
        with self._lock:
            if not self._committed:
                self._cancelled = True
            return self._cancelled
