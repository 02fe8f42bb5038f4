"""The one `Service` of this process: opened late, again after a failure, closed at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from session.model import Change
from session.service import Service

logger = logging.getLogger(__name__)


class Engine:
    """Opens the store when it is first needed.

    `on_change` hears of changed sessions once `may_tell` lets it, `on_notice` what a person
    should know of the store.
    """

    def __init__(
        self,
        on_change: Callable[[Change], None],
        on_notice: Callable[[str], None],
        may_tell: Callable[[], Awaitable[None]],
    ) -> None:
        self.opened: Service | None = None
        self._on_change = on_change
        self._on_notice = on_notice
        self._may_tell = may_tell
        self._opening: asyncio.Task[Service] | None = None
        self._behind: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to open the store; a failure is told to whoever asks for the service."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(_seen)

    async def service(self) -> Service:
        """The open service.  Raises why it cannot be opened; the next call tries again."""
        if self._opening is not None and self._opening.done() and self._failed(self._opening):
            self._opening = None
        self.start()
        assert self._opening is not None
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        if self._opening is None:
            return
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await self._opening
        for task in self._behind:
            task.cancel()
        if self._behind:
            await asyncio.wait(self._behind)
        if self.opened is not None:
            await self.opened.close()

    @staticmethod
    def _failed(task: asyncio.Task[Service]) -> bool:
        return task.cancelled() or task.exception() is not None

    async def _open(self) -> Service:
        service = await Service.open(program="turntree serve")
        for work in (self._sweep(service), self._watch(service)):
            task = asyncio.create_task(work)
            self._behind.add(task)
            task.add_done_callback(self._behind.discard)
        service.index_behind()
        self.opened = service
        if service.notice is not None:
            self._on_notice(service.notice)
        return service

    async def _sweep(self, service: Service) -> None:
        try:
            await service.sweep()
        except Exception:
            logger.exception("the sweep at the start failed")

    async def _watch(self, service: Service) -> None:
        try:
            async for change in service.changes():
                # A client that does not read would have them pile up here for nothing.
                await self._may_tell()
                self._on_change(change)
        except Exception:
            logger.exception("changes are no longer announced")


def _seen(task: asyncio.Task[Service]) -> None:
    """Take note of a failure, so that asyncio does not complain that no one did."""
    if not task.cancelled() and task.exception() is not None:
        logger.error("the store cannot be opened", exc_info=task.exception())
