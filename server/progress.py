"""`$/progress` of one request: nothing before a second has passed, then five times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

_QUIET_SECONDS = 1.0
_INTERVAL_SECONDS = 0.2

Token = str | int


class Progress:
    """Begin, reports and end for the client's `token`.

    `report` may be called from any thread, as often as it likes: it only leaves a value,
    which the loop picks up at its own pace.
    """

    def __init__(self, token: Token, title: str, send: Callable[[Token, Any], None]) -> None:
        self.token = token
        self._title = title
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(_QUIET_SECONDS, self._begin)
        self._begun = False
        self._latest: tuple[int, int, str] | None = None
        self._percentage = 0

    def report(self, done: int, total: int, doing: str) -> None:
        self._latest = (done, total, doing)

    def end(self) -> None:
        """Stop; tell the client so if it was ever told of a beginning."""
        self._timer.cancel()
        if self._begun:
            self._send(self.token, {"kind": "end"})

    def _begin(self) -> None:
        self._begun = True
        value = {"kind": "begin", "title": self._title, "cancellable": True}
        self._send(self.token, value | self._news())
        self._again()

    def _tick(self) -> None:
        news = self._news()
        if news:
            self._send(self.token, {"kind": "report"} | news)
        self._again()

    def _again(self) -> None:
        self._timer = self._loop.call_later(_INTERVAL_SECONDS, self._tick)

    def _news(self) -> dict[str, Any]:
        if self._latest is None:
            return {}
        (done, total, doing), self._latest = self._latest, None
        # LSP wants percentages that never go down, also where the work has several passes.
        self._percentage = max(self._percentage, min(100, done * 100 // max(1, total)))
        return {"message": doing, "percentage": self._percentage}
