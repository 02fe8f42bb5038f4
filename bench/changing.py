"""Forks and rewinds of a long session, against what the disk alone needs for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from bench.client import Client
from bench.generate import Made
from bench.measure import Row, Timed, alternate, compared, row
from bench.sdk import Sdk
from bench.world import ECHO, World

_TURNS = 10_000
_KEPT = 5_000
_LINE = b'{"type":"last-prompt"' + b" " * 200 + b"}\n"


def rows(world: World) -> Iterator[Row]:
    place, made = world.session(_TURNS)
    with place.server() as server:
        server.call("get_session", {"session_id": made.wire_id})
        preview = server.call("fork_session", {**_fork(made), "dry_run": True})
        prefix = _prefix(made.path, world.root / "prefix", preview["bytes_copied"])
        megabytes = preview["bytes_copied"] / 1e6
        what = f"fork of {_TURNS:,} turns at {_KEPT:,} ({megabytes:.0f} MB)"
        ours, copied = alternate(
            world.rounds, _our_fork(server, made), lambda: _copy(prefix, world.root / "copy")
        )
        yield row(what, ours, copied, "cp + fdatasync of the same bytes", 1.8)
        sdk = Sdk.find(place)
        if sdk is None:
            yield Sdk.missing(what, ours, "forkSession")
        else:
            with sdk:
                yield compared(
                    what,
                    min(world.rounds, 5),
                    _our_fork(server, made),
                    _their_fork(sdk, made),
                    "Agent SDK forkSession",
                    0.04,
                )
        yield from _rewinds(world, server, made)


def _rewinds(world: World, server: Client, made: Made) -> Iterator[Row]:
    line = world.root / "line"
    echo = Client(ECHO, {})
    try:

        def floor() -> float:
            return _append(line) + echo.seconds("echo", {"session_id": made.wire_id})

        yield compared(
            f"rewind of {_TURNS:,} turns by one",
            world.rounds * 3,
            _rewind(server, made),
            floor,
            "one line appended + fdatasync + an echo",
            2.0,
        )
        yield compared("undo of that rewind", world.rounds, _undo(server, made), floor, "the same")
    finally:
        echo.close()


def _fork(made: Made) -> dict[str, object]:
    return {
        "session_id": made.wire_id,
        "new_session_id": str(uuid.uuid4()),
        "at": {"turn_number": _KEPT},
    }


def _our_fork(server: Client, made: Made) -> Timed:
    def fork() -> float:
        seconds, result = server.timed("fork_session", _fork(made))
        assert result["turns"] == {"kept": _KEPT, "source_total": _TURNS}
        _remove(made, result["session"]["session_id"].partition(":")[2])
        return seconds

    return fork


def _their_fork(sdk: Sdk, made: Made) -> Timed:
    def fork() -> float:
        seconds, child = sdk.fork(made.session_id, made.leaves[_KEPT - 1])
        _remove(made, child)
        return seconds

    return fork


def _remove(made: Made, child: str) -> None:
    made.path.with_name(f"{child}.jsonl").unlink()
    shutil.rmtree(made.path.with_name(child), ignore_errors=True)


def _prefix(source: Path, target: Path, size: int) -> Path:
    with source.open("rb") as read, target.open("wb") as write:
        left = size
        while left:
            left -= write.write(read.read(min(left, 1 << 20)))
    return target


def _copy(source: Path, target: Path) -> float:
    began = time.perf_counter()
    subprocess.run(["cp", str(source), str(target)], check=True)
    fd = os.open(target, os.O_RDWR)
    os.fdatasync(fd)
    os.close(fd)
    seconds = time.perf_counter() - began
    target.unlink()
    return seconds


def _append(path: Path) -> float:
    began = time.perf_counter()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, _LINE)
    os.fdatasync(fd)
    os.close(fd)
    return time.perf_counter() - began


def _rewind(server: Client, made: Made) -> Timed:
    def rewind() -> float:
        request = {"session_id": made.wire_id, "to": {"by": 1}}
        seconds, result = server.timed("rewind", request)
        assert result["turns"]["removed"] == 1
        server.call("undo", {"operation_id": result["operation_id"]})
        return seconds

    return rewind


def _undo(server: Client, made: Made) -> Timed:
    def undo() -> float:
        request = {"session_id": made.wire_id, "to": {"by": 1}}
        done = server.call("rewind", request)
        return server.seconds("undo", {"operation_id": done["operation_id"]})

    return undo
