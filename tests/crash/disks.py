"""Small disks that can be full, and servers that file modes apply to."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = 4096
"""What a tmpfs gives room in."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
"""For tests that mount a disk; CI runs them, being root."""


class Disk:
    """A mounted tmpfs.  `fill` takes the room that `free` leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave: int) -> None:
        """Leave this many bytes, in whole pages; more or less while others write there."""
        taken = False
        while not taken:
            self.free()
            room = os.statvfs(self.path).f_bavail * PAGE
            with self._ballast.open("wb") as file, contextlib.suppress(OSError):
                # The server's index may have taken some of the room meanwhile.
                os.posix_fallocate(file.fileno(), 0, max(PAGE, room - leave // PAGE * PAGE))
                taken = True

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def read_only(self, yes: bool) -> None:
        _run("mount", "-o", f"remount,{'ro' if yes else 'rw'}", str(self.path))


@contextmanager
def mounted(path: Path, size: str) -> Iterator[Disk]:
    """A tmpfs of `size` at `path`, gone afterwards."""
    path.mkdir(parents=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "turntree-test", str(path))
    try:
        yield Disk(path)
    finally:
        _run("umount", "--lazy", str(path))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def unprivileged() -> list[str]:
    """What starts a server to which file modes apply.

    Root without its capabilities is a user like any other; another user might not reach
    the interpreter or the test's directory.
    """
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


@contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    """Give `path` these permissions, and its own afterwards."""
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)
