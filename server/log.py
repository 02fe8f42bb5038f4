"""The log: one file under the state directory, shared by all servers; never stdout.

A line is `time level pid operation logger: text`.  The operation is the request that was
being answered, so that the lines of the engine below it can be found too.  Nothing of a
session's content is logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path

from session.home import home

LEVELS = ("debug", "info", "warning", "error")

operation: ContextVar[str] = ContextVar("operation", default="-")
"""What the log calls the request that is being answered."""

_MAX_BYTES = 2 << 20
_KEPT = 3
_LOOK_EVERY_SECONDS = 1.0
_REQUESTS_EVERY_SECONDS = 0.1


def start(level: str | None = None) -> None:
    """Log to `<home>/logs/turntree.log` from now on.

    `level` is one of `LEVELS`; without it `$TURNTREE_LOG`, else info.  Where the directory
    cannot be written the server works on without a log, and says so once on stderr.
    """
    chosen = (level or os.environ.get("TURNTREE_LOG") or "info").lower()
    root = logging.getLogger()
    # Libraries log whole messages and rows below warnings, and those hold prompts.
    root.setLevel(logging.WARNING)
    for ours in ("server", "session"):
        logging.getLogger(ours).setLevel(chosen.upper() if chosen in LEVELS else "INFO")
    try:
        folder = home() / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handler: logging.Handler = SharedLogFile(folder / "turntree.log")
    except OSError as error:
        sys.stderr.write(f"turntree: no log is written: {error}\n")
        handler = logging.NullHandler()
    handler.setFormatter(_Lines())
    root.addHandler(handler)


class SharedLogFile(logging.FileHandler):
    """A file that several servers write at once, moved aside when it is large.

    `logging.handlers` has one that rotates and one that notices when another process has
    rotated, but none that does both; and looking once a second keeps a line cheap.
    """

    def __init__(self, path: Path) -> None:
        self._look_at = 0.0
        self._complained = False
        super().__init__(path, encoding="utf-8", errors="backslashreplace")

    def emit(self, record: logging.LogRecord) -> None:
        if record.created >= self._look_at:
            self._look_at = record.created + _LOOK_EVERY_SECONDS
            with suppress(OSError):
                self._look()
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        # A full disk must not flood stderr with a traceback a line.
        if not self._complained:
            self._complained = True
            sys.stderr.write(f"turntree: the log cannot be written: {sys.exc_info()[1]}\n")

    def _open(self) -> TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(
            self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=private
        )

    def _look(self) -> None:
        if self.stream is None:
            return
        mine = os.fstat(self.stream.fileno())
        try:
            there = os.stat(self.baseFilename)
            moved = (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)
        except FileNotFoundError:
            moved = True
        if not moved and mine.st_size > _MAX_BYTES:
            for number in range(_KEPT - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{self.baseFilename}.{number}", f"{self.baseFilename}.{number + 1}")
            os.replace(self.baseFilename, f"{self.baseFilename}.1")
            moved = True
        if moved:
            stream, self.stream = self.stream, self._open()
            stream.close()


class RequestLog:
    """One line a request at INFO, written a moment later and several at once.

    A log record costs as much as a small answer, and a client may be waiting for the next.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._noted: list[tuple[float, str, str]] = []

    def note(self, operation: str, text: str) -> None:
        if not self._noted:
            if not self._logger.isEnabledFor(logging.INFO):
                return
            asyncio.get_running_loop().call_later(_REQUESTS_EVERY_SECONDS, self.flush)
        self._noted.append((time.time(), operation, text))

    def flush(self) -> None:
        """Write what was noted; the server does so itself, but for the last lines."""
        noted, self._noted = self._noted, []
        if noted:
            name = self._logger.name
            lines = "\n".join(_beginning(t, "INFO", o, name) + text for t, o, text in noted)
            record = logging.LogRecord(name, logging.INFO, "", 0, lines, None, None)
            record.whole = True
            self._logger.handle(record)


class _Lines(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        if hasattr(record, "whole"):
            return record.message
        start = _beginning(record.created, record.levelname, operation.get(), record.name)
        return start + record.message


def _beginning(when: float, level: str, operation: str, name: str) -> str:
    second = int(when)
    milliseconds = int((when - second) * 1000)
    return f"{_shown(second)}.{milliseconds:03d}Z {level} {os.getpid()} {operation} {name}: "


@lru_cache(maxsize=2)
def _shown(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
