"""Processes that start: the server up to its first reply, and `turntree sessions` as a whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

from bench.client import Client
from bench.measure import Row, Timed, compared, timed
from bench.world import TURNTREE, Place, World

_LIST = [str(TURNTREE), "sessions", "--all"]
_HEAVY = ("pygls", "lsprotocol")


def rows(world: World) -> Iterator[Row]:
    few, many = world.store(50), world.store(2000)
    yield compared(
        "start to the reply to `initialize`",
        world.rounds,
        _first_reply(many),
        _python(many, "import pygls.lsp.server"),
        'python -c "import pygls.lsp.server"',
        1.1,
    )
    for place, count in ((few, "50"), (many, "2,000")):
        subprocess.run(_LIST, env=place.env, check=True, capture_output=True)  # indexes it
        yield compared(
            f"`turntree sessions` in a warm store of {count}",
            world.rounds,
            _running(place, _LIST),
            _python(place, "import sqlite3, orjson, click"),
            'python -c "import sqlite3, orjson, click"',
            2.0,
        )
    imported = _modules(many)
    heavy = [name for name in imported if name.partition(".")[0] in _HEAVY]
    yield Row(
        "modules of pygls and lsprotocol among those that `turntree sessions` imports",
        len(heavy),
        None,
        "none",
        0,
        unit="",
        note=f"{len(imported)} modules in all",
    )


def _first_reply(place: Place) -> Timed:
    def start() -> float:
        client = Client([str(TURNTREE), "serve"], place.env)
        try:
            client.call("initialize", {"capabilities": {}})
            return client.since_start
        finally:
            client.close()

    return start


def _python(place: Place, code: str) -> Timed:
    return _running(place, [sys.executable, "-c", code])


def _running(place: Place, command: Sequence[str]) -> Timed:
    def run() -> None:
        subprocess.run(
            command, env=place.env, cwd=place.root, check=True, stdout=subprocess.DEVNULL
        )

    return timed(run)


def _modules(place: Place) -> list[str]:
    """What `turntree sessions` imports, as the interpreter itself reports it."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *_LIST],
        env=place.env,
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return [line.rpartition("|")[2].strip() for line in lines[1:]]
