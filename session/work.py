"""Blocking work with progress and cancellation, shared between a thread and its request."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from session.errors import Cancelled
from session.later import later

if TYPE_CHECKING:
    import asyncio
    from concurrent import futures
else:
    # A command that only looks runs without an event loop, on one thread.
    asyncio = later("asyncio")
    futures = later("concurrent.futures")

P = ParamSpec("P")
R = TypeVar("R")

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

    async def in_thread(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run blocking `fn` on a worker thread; a cancelled request waits until it has stopped."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(_pool(), partial(fn, *args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self.cancel()
            with contextlib.suppress(Exception, Cancelled):
                await future
            raise

    async def to_the_end(self, steps: Coroutine[Any, Any, R]) -> R:
        """Run several steps as one: cancelling stops them before `commit`, never after it."""
        task = asyncio.ensure_future(steps)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            stopping = self.cancel()
            try:
                result = await task
            except Cancelled:
                raise asyncio.CancelledError from None
            if stopping and not self._committed:
                raise
            if (current := asyncio.current_task()) is not None:
                current.uncancel()
            return result


_POOL: futures.ThreadPoolExecutor | None = None


def _pool() -> futures.ThreadPoolExecutor:
    # Made when first needed: a command line that reads one row starts no thread.
    global _POOL
    if _POOL is None:
        _POOL = futures.ThreadPoolExecutor(max_workers=8, thread_name_prefix="turntree-work")
    return _POOL
