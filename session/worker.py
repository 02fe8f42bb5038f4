"""The process that indexes behind a server: started by `session.indexing`, ended with it.

It says what it did on stdout, one JSON object a line, and ends when its stdin does: with the
server, however that ends.  Whatever it was at then is done again, what it committed is not.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Any

import orjson

from session.errors import TurntreeError
from session.indexer import Step
from session.service import Service
from session.work import at_once

_NICE = 19


def main(home: str) -> None:
    """Index what is not indexed in the home, once nobody else does, and return.

    Exits with 1 when what it learns cannot be kept.
    """
    with contextlib.suppress(AttributeError, OSError):
        os.nice(_NICE)
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    try:
        at_once(_index(Path(home)))
    except TurntreeError as error:
        sys.exit(error.message)


async def _index(home: Path) -> None:
    service = await Service.open(program="turntree index", home=home)
    try:
        await service.index(_tell)
    finally:
        await service.close()


def _tell(step: Step) -> None:
    _say({"agent": step.agent, "paths": step.paths, "done": step.done, "total": step.total})


def _say(news: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(news) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_the_server() -> None:
    # Not through sys.stdin, whose lock the interpreter wants at its end.
    while os.read(0, 1 << 12):
        pass
    os._exit(0)
