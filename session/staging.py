"""Building beside the destination and publishing in one step.

A stage is a directory next to where the new session will appear, under a name that no agent
lists.  It holds the session's file as `session` and companions (directories that belong to
the session) by number.  Publishing moves the companions first and gives the session's file
its public name last: until that step nothing shows the session, after it the session is whole.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import orjson

from session import osfile
from session.errors import SessionExists
from session.faults import fault
from session.values import value

PREFIX = ".turntree-"


@value
class Companion:
    """A staged directory or file and the place it will be moved to."""

    staged: Path
    destination: Path


@value
class Stage:
    """Where a child is built and where it will appear; `destination` None: it has no file."""

    folder: Path
    destination: Path | None
    companions: tuple[Companion, ...] = ()

    @property
    def file(self) -> Path:
        return self.folder / "session"

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "destination": None if self.destination is None else str(self.destination),
            "companions": [[str(c.staged), str(c.destination)] for c in self.companions],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Stage:
        destination = data["destination"]
        return cls(
            Path(data["folder"]),
            None if destination is None else Path(destination),
            tuple(Companion(Path(a), Path(b)) for a, b in data["companions"]),
        )

    def create(self) -> None:
        """Make the directories; whatever an earlier try left there goes."""
        self.remove()
        if self.destination is not None:
            self.destination.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700)

    def remove(self) -> None:
        """Take back everything that is not published; repeating it is fine."""
        for companion in self.companions:
            osfile.remove_tree(companion.staged)
        osfile.remove_tree(self.folder)

    def make_durable(self) -> None:
        """The session's file is durable already; make its companions and the names so."""
        for companion in self.companions:
            if companion.staged.exists():
                osfile.fsync_tree(companion.staged)
                osfile.fsync_directory(companion.staged.parent)
        if self.folder.exists():
            # Which directories are ours, for whoever has to move them back.
            osfile.write_durably(self._inodes, [orjson.dumps(self._staged_inodes())])
            osfile.fsync_directory(self.folder)
            osfile.fsync_directory(self.folder.parent)

    @property
    def _inodes(self) -> Path:
        return self.folder / "companions"

    def _staged_inodes(self) -> list[int]:
        return [os.stat(c.staged).st_ino if c.staged.exists() else 0 for c in self.companions]

    def publish(self, point: str) -> None:
        """Make the session visible.  Each step may have been done by a process that died.

        Raises SessionExists when another session took the name meanwhile.
        """
        if self.destination is None:
            return
        if self.file.exists() and not self.destination.exists():
            for companion in self.companions:
                if companion.staged.exists() and companion.destination.exists():
                    raise _taken(companion.destination, self.destination.stem)
            for companion in self.companions:
                if companion.staged.exists():
                    companion.destination.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    os.rename(companion.staged, companion.destination)
                    osfile.fsync_directory(companion.destination.parent)
            fault(f"{point}.sidecars")
        if self.file.exists():
            self._publish_file()
        osfile.fsync_directory(self.destination.parent)
        fault(f"{point}.published")
        self.remove()

    def _publish_file(self) -> None:
        destination = self.destination
        assert destination is not None
        # A link left by a process that died before it removed the staged name.
        if destination.exists() and os.path.samefile(self.file, destination):
            return
        try:
            osfile.publish(self.file, destination)
        except FileExistsError:
            raise _taken(destination, destination.stem) from None

    @property
    def published(self) -> bool:
        """Whether the session's file has its public name.

        Asked of a stage whose file was made, so a staged file that is gone was published.
        """
        if self.destination is None or not self.destination.exists():
            return False
        return not self.file.exists() or os.path.samefile(self.file, self.destination)

    def retract(self) -> None:
        """After a failed publish: move the companions that were moved back out of the way."""
        with contextlib.suppress(OSError, ValueError):
            inodes = orjson.loads(self._inodes.read_bytes())
            for companion, inode in zip(self.companions, inodes, strict=True):
                if companion.staged.exists() or not companion.destination.exists():
                    continue
                # One that only has the name belongs to another session.
                if os.stat(companion.destination).st_ino == inode:
                    os.rename(companion.destination, companion.staged)


def _taken(path: Path, session_id: str) -> SessionExists:
    return SessionExists(
        f"{path} exists already; nothing was overwritten. Choose another id.",
        session_id=session_id,
    )
