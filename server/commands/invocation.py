"""One run of the program: how it reaches the engine and how its results are printed."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from attrs import define, field

from server.encoding import encode
from server.render import plain, words
from server.render.layout import Block
from session.model import Warn
from session.service import Service
from session.work import at_once

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Result = TypeVar("Result")
_PATIENCE = 1.0
"""Seconds of silence before a progress bar appears."""
_BETWEEN_LINES = 2.0


@define
class Invocation:
    """What click hands to every command: `json` as asked for, and the way to the engine."""

    json: bool = False
    bar: Bar = field(factory=lambda: Bar())

    @property
    def short(self) -> bool:
        """Whether ids are cut down to what a person needs; scripts get them whole."""
        return is_terminal(sys.stdout)

    @property
    def person(self) -> TextIO | None:
        """Where to ask the person at the terminal; None where nobody is, or JSON is wanted.

        stderr before stdout, which may be a file that wants the result alone.
        """
        if self.json or not is_terminal(sys.stdin):
            return None
        return next((s for s in (sys.stderr, sys.stdout) if is_terminal(s)), None)

    def engine(
        self, work: Callable[[Service], Coroutine[Any, Any, Result]], *, sweep: bool = False
    ) -> Result:
        """Run `work` on the opened engine.  `sweep` first: for commands that change something.

        SIGINT cancels what changes something up to its publish step; past that step the
        result is returned and printed as if nothing had happened.
        """

        async def inside() -> Result:
            service = await Service.open(program="turntree")
            try:
                if sweep:
                    await service.sweep()
                return await work(service)
            finally:
                await service.close()

        self.bar.start()
        try:
            if not sweep:
                return at_once(inside())
            # Only what changes something needs an event loop, which takes longer than a listing.
            import asyncio

            return asyncio.run(inside())
        finally:
            self.bar.stop()

    def report(self, done: int, total: int, doing: str) -> None:
        """The `report` of long work: a bar on a terminal's stderr once it takes over a second."""
        self.bar.report(done, total, doing)

    def count(self, done: int, total: int, doing: str) -> None:
        """As `report`, of things in place of bytes; without a terminal a line now and then."""
        self.bar.count(done, total, doing)

    def emit(
        self, result: Any, text: Callable[[], Sequence[Block]], warnings: Iterable[Warn] = ()
    ) -> None:
        """Print a result: as JSON all of it, else as `text`, with its warnings on stderr."""
        if self.json:
            write_json(result)
            return
        write(text(), sys.stdout)
        for warning in warnings:
            self.warn(warning.message)

    def ask(self, question: str, shown: Sequence[Block], warnings: Iterable[Warn] = ()) -> None:
        """Show what would happen and ask for it; what is not agreed to ends the command.

        Only yes is yes; an end of input is a no.  Only where there is a `person`.
        """
        person = self.person
        assert person is not None and sys.stdin is not None
        write(shown, person)
        for warning in warnings:
            self.warn(warning.message)
        person.write(f"\n{question} [y/N] ")
        person.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print_error("Nothing was changed.")
            raise click.exceptions.Exit(1)

    def warn(self, message: str) -> None:
        """A warning beside the text; in JSON the result itself holds it."""
        if not self.json:
            flush(sys.stdout)
            print_error(f"warning: {words.line(message)}")


class Bar:
    """Progress on stderr.  `report` is called from the thread that works."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._said = 0.0

    def start(self) -> None:
        self._since = self._said = time.monotonic()

    def report(self, done: int, total: int, doing: str) -> None:
        if is_terminal(sys.stderr):
            self._draw(done, total, doing, bytes_=True)

    def count(self, done: int, total: int, doing: str) -> None:
        if is_terminal(sys.stderr):
            self._draw(done, total, doing, bytes_=False)
        elif time.monotonic() - self._said >= _BETWEEN_LINES:
            self._said = time.monotonic()
            print_error(f"{doing}: {done:,} of {total:,}")

    def _draw(self, done: int, total: int, doing: str, *, bytes_: bool) -> None:
        if self._since is None or time.monotonic() - self._since < _PATIENCE:
            return
        if self._progress is None:
            # Only long work on a terminal pays for rich here.
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
            )

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn() if bytes_ else MofNCompleteColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(words.line(doing), total=total)
            self._progress.start()
        assert self._task is not None
        self._progress.update(
            self._task, completed=done, total=total, description=words.line(doing)
        )

    def stop(self) -> None:
        self._since = None
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def here() -> str | None:
    """The current directory, None when it no longer exists."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def write(blocks: Sequence[Block], stream: TextIO | None) -> None:
    """Print blocks, through rich only where a person looks."""
    if stream is None:
        return
    if is_terminal(stream):
        # rich doubles the start of a listing, so pipes go without it.
        from server.render import terminal

        terminal.show(blocks, stream)
    else:
        stream.write("".join(line + "\n" for line in plain.lines(blocks)))


def write_json(value: Any) -> None:
    data = encode(value) + b"\n"
    if sys.stdout is None:
        return
    if is_terminal(sys.stdout):
        data = _RAW_CONTROL.sub(lambda match: b"\\u00%02x" % match[0][-1], data)
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


_RAW_CONTROL = re.compile(rb"\xc2[\x80-\x9f]|\x7f")
"""Control characters that JSON may hold as they are; escaped, the value is the same."""


def print_error(message: str) -> None:
    if sys.stderr is not None:
        # Where nothing can be said any more, the exit code has to do.
        with contextlib.suppress(OSError):
            sys.stderr.write(message + "\n")
            sys.stderr.flush()


def flush(stream: TextIO | None) -> None:
    if stream is not None:
        stream.flush()
