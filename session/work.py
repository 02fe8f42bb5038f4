"""Blocking work with progress and cancellation, shared between a thread and its request."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from session.errors import Cancelled
from session.later import later

if TYPE_CHECKING:
    import asyncio
    from concurrent import futures
else:
    # See `at_once`.
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
        if not has_loop():
            return fn(*args, **kwargs)
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


def at_once(steps: Coroutine[Any, Any, R]) -> R:
    """Run verbs that only look, from start to end on the calling thread, without an event loop.

    To import asyncio takes longer than a listing.  Such verbs wait for nothing but their own
    blocking work, which is then done where it is asked for, so that they never suspend.
    What changes sessions waits for locks, and needs a loop.
    """
    try:
        steps.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    raise RuntimeError("a verb that waits for others needs an event loop")


def has_loop() -> bool:
    """Whether an event loop runs the caller; if not, `at_once` does."""
    # Where nobody has imported asyncio, nobody runs a loop.
    if "asyncio" not in sys.modules:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def pause(seconds: float) -> None:
    """Wait, letting other requests go on where there can be any."""
    if has_loop():
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)


_POOL: futures.ThreadPoolExecutor | None = None


def _pool() -> futures.ThreadPoolExecutor:
    # Made when first needed: a command line that reads one row starts no thread.
    global _POOL
    if _POOL is None:
        _POOL = futures.ThreadPoolExecutor(max_workers=8, thread_name_prefix="turntree-work")
    return _POOL
