"""Room for temporary copies of sessions, in Turntree's own directory.

A process that dies leaves its copies; they carry its name, and the next sweep removes them.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from session import osfile


class Scratch:
    """A private folder that is made when it is first asked for."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._made: Path | None = None

    def folder(self) -> Path:
        """Raises OSError where Turntree's directory cannot be written."""
        if self._made is None:
            within = osfile.make_private(self._home / "scratch")
            pid = os.getpid()
            owner = f"{osfile.host()}+{pid}+{osfile.process_start(pid) or ''}"
            path = within / f"{owner}+{uuid.uuid4().hex}"
            path.mkdir(mode=0o700)
            self._made = path
        return self._made

    def remove(self) -> None:
        if self._made is not None:
            osfile.remove_tree(self._made)
            self._made = None


@contextlib.contextmanager
def scratch(home: Path) -> Iterator[Scratch]:
    """Room that is given back when the block ends, however it ends."""
    place = Scratch(home)
    try:
        yield place
    finally:
        place.remove()


def sweep(home: Path) -> None:
    """Remove what dead processes of this host left."""
    with contextlib.suppress(OSError):
        for path in (home / "scratch").iterdir():
            host, pid, start, _ = [*path.name.split("+"), "", "", ""][:4]
            if host == osfile.host() and pid.isdigit() and osfile.process_start(int(pid)) != start:
                osfile.remove_tree(path)
