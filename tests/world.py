"""A machine of a test's own: HOME, the agent's store, Turntree's state, a project folder."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from attrs import define, evolve


@define(frozen=True)
class World:
    """Where things are.  `config_dir` is CLAUDE_CONFIG_DIR when the world sets it.

    `cwd` has a space and Chinese characters in its name, as real project folders do.
    """

    home: Path
    state: Path
    cwd: Path
    config_dir: Path | None = None

    @classmethod
    def make(cls, root: Path) -> World:
        world = cls(root / "home", root / "state", root / "home" / "my project 新聞")
        world.cwd.mkdir(parents=True)
        return world

    def configured(self) -> World:
        """The same world with CLAUDE_CONFIG_DIR set to a folder beside HOME."""
        return evolve(self, config_dir=self.home.parent / "claude config")

    @property
    def store(self) -> Path:
        """Claude Code's folder: projects/, file-history/, sessions/ are below it."""
        return self.config_dir or self.home / ".claude"

    def env(self) -> dict[str, str]:
        """The environment of a program in this world; nothing of the tests' own but PATH."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TURNTREE_HOME": str(self.state),
        }
        if self.config_dir is not None:
            env["CLAUDE_CONFIG_DIR"] = str(self.config_dir)
        return env


def store_hash(folder: Path) -> dict[str, tuple[object, ...]]:
    """What is below `folder`: path -> digest, mode, mtime (ns) and link count.

    Directories count with their mode alone: a new entry changes their time.
    """
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        if stat.S_ISDIR(info.st_mode):
            found[str(path)] = ("directory", info.st_mode)
            continue
        if stat.S_ISLNK(info.st_mode):
            content = os.readlink(path).encode()
        else:
            content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        found[str(path)] = (digest, info.st_mode, info.st_mtime_ns, info.st_nlink)
    return found


def assert_untouched(before: dict[str, tuple[object, ...]], folder: Path) -> None:
    """Every path of `before` (a `store_hash` of `folder`) is as it was; new paths may be there."""
    after = store_hash(folder)
    changed = {
        path: (was, after.get(path)) for path, was in before.items() if after.get(path) != was
    }
    assert not changed
