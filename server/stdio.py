"""The process's standard input and output as one connection of frames.

Descriptors are read and written by hand, not through asyncio's streams: one read, one
write and no task a message.  Where the loop cannot wait for a descriptor (regular files,
Windows), a thread reads and writes block.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable

from server.framing import Fault, Framing

_CHUNK = 1 << 16
_BIG_CHUNK = 1 << 20

HIGH_WATER = 8 << 20
"""Bytes waiting for a slow client above which nothing more is read from it."""

_LOW_WATER = 1 << 20


class Stdio:
    """Frames in and bytes out, on the running loop.

    `on_frame` gets each body or fault as it is complete.  `on_end` is called once: with
    False at the end of input, with True when the client no longer reads its end.
    """

    def __init__(
        self,
        source: int,
        target: int,
        on_frame: Callable[[bytes | bytearray | Fault], None],
        on_end: Callable[[bool], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._target = target
        self._on_frame = on_frame
        self._on_end = on_end
        self._framing = Framing()
        self._ended = False
        self._broken = False
        self._selecting = False
        self._paused = False
        self._go_on = threading.Event()
        self._pending: deque[memoryview] = deque()
        self._pending_bytes = 0
        self._flushed = asyncio.Event()
        self._flushed.set()
        self._below = asyncio.Event()
        self._below.set()
        self._blocking = True

    def start(self) -> None:
        if os.name == "posix":
            os.set_blocking(self._target, False)
            self._blocking = False
            if stat.S_ISFIFO(os.fstat(self._target).st_mode):
                # A write end is never readable: this fires when the client closes its end.
                self._loop.add_reader(self._target, self._break)
                _widen(self._target)
        try:
            self._loop.add_reader(self._source, self._readable)
            self._selecting = True
        except (OSError, NotImplementedError):
            threading.Thread(target=self._read_in_thread, name="stdin", daemon=True).start()

    @property
    def congested(self) -> bool:
        """Whether the client is behind with reading what was written to it."""
        return not self._below.is_set()

    async def drained(self) -> None:
        """Wait until the client has caught up, or is gone."""
        await self._below.wait()

    def write(self, data: bytes) -> None:
        """Send `data` after all that was written before; silently nothing to a client gone."""
        if self._broken:
            return
        view = memoryview(data)
        if not self._pending:
            sent = self._write_some(view)
            if sent == len(data) or self._broken:
                return
            view = view[sent:]
            self._loop.add_writer(self._target, self._flush)
            self._flushed.clear()
        self._pending.append(view)
        self._pending_bytes += len(view)
        if self._pending_bytes > HIGH_WATER and self._below.is_set():
            self._below.clear()
            self._pause()

    async def close(self, seconds: float) -> None:
        """Stop reading, send what is pending for at most `seconds`, put the descriptor back."""
        self.stop_reading()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._flushed.wait()
        self._break_quietly()
        if not self._blocking:
            with contextlib.suppress(OSError):
                os.set_blocking(self._target, True)  # a terminal shares it with the shell

    def stop_reading(self) -> None:
        self._ended = True
        if self._selecting:
            self._selecting = False
            self._loop.remove_reader(self._source)

    def _readable(self) -> None:
        size = _CHUNK if self._framing.wanted < _CHUNK else _BIG_CHUNK
        try:
            data = os.read(self._source, size)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # a terminal or socket that is gone
        self._receive(data)

    def _read_in_thread(self) -> None:
        while True:
            try:
                data = os.read(self._source, _CHUNK)
            except OSError:
                data = b""
            self._go_on.clear()
            try:
                self._loop.call_soon_threadsafe(self._receive, data)
            except RuntimeError:
                return  # the loop is closed
            if not data:
                return
            self._go_on.wait()

    def _receive(self, data: bytes) -> None:
        if not data:
            if not self._ended:
                self.stop_reading()
                self._on_end(False)
            return
        self._consume(data)

    def _consume(self, data: bytes) -> None:
        for frame in self._framing.feed(data):
            if self._ended:
                return
            self._on_frame(frame)
            if self._paused:
                return
        self._go_on.set()

    def _pause(self) -> None:
        self._paused = True
        if self._selecting:
            self._loop.remove_reader(self._source)

    def _resume(self) -> None:
        self._paused = False
        self._consume(b"")
        if self._selecting and not self._paused:
            self._loop.add_reader(self._source, self._readable)

    def _write_some(self, view: memoryview) -> int:
        """Write what goes without waiting (all of it, where writes block); how many bytes."""
        sent = 0
        try:
            sent = os.write(self._target, view)
            while self._blocking and sent < len(view):
                sent += os.write(self._target, view[sent:])
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._break()
        return sent

    def _flush(self) -> None:
        while self._pending:
            view = self._pending[0]
            sent = self._write_some(view)
            if self._broken:
                return
            self._pending_bytes -= sent
            if sent < len(view):
                self._pending[0] = view[sent:]
                break
            self._pending.popleft()
        if not self._pending:
            self._loop.remove_writer(self._target)
            self._flushed.set()
        if self._pending_bytes <= _LOW_WATER and not self._below.is_set():
            self._below.set()
            if self._paused and not self._ended:
                self._loop.call_soon(self._resume)

    def _break(self) -> None:
        if not self._broken:
            self._break_quietly()
            self.stop_reading()
            self._on_end(True)

    def _break_quietly(self) -> None:
        self._broken = True
        self._pending.clear()
        self._pending_bytes = 0
        with contextlib.suppress(OSError, NotImplementedError, ValueError):
            self._loop.remove_writer(self._target)
            self._loop.remove_reader(self._target)
        self._flushed.set()
        self._below.set()


def _widen(pipe: int) -> None:
    """Let a pipe take a page of results whole, not in pieces of 64 KiB; only Linux can."""
    if sys.platform == "linux":
        import fcntl  # only here is it needed

        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _BIG_CHUNK)


def take_over() -> tuple[int, int]:
    """Move stdin and stdout to descriptors of our own: (source, target).

    Nothing that prints by mistake can then break a frame, and no child process can eat one.
    Raises `OSError` when one of them is closed.
    """
    source, target = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(null, 1)
    os.close(null)
    sys.stdout = sys.stderr
    return source, target
