"""Runs the real command line in a world of its own."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from fcntl import ioctl
from pathlib import Path
from typing import Any

from attrs import define

from tests.builders import Transcript
from tests.world import World

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60.0
"""Seconds to wait for output before a test fails."""


def command() -> list[str]:
    """How to start it: the installed script where there is one."""
    script = Path(sys.executable).with_name("turntree")
    if script.exists():
        return [str(script)]
    return [sys.executable, "-c", "from server.cli import main; main()"]


def environment(world: World, **more: str) -> dict[str, str]:
    return {**world.env(), "PYTHONPATH": str(ROOT), "SHELL": "/bin/sh", **more}


@define(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def turntree(
    world: World,
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Ran:
    """Run it to its end with pipes for stdin, stdout and stderr."""
    done = subprocess.run(
        [*command(), *arguments],
        cwd=cwd or world.cwd,
        env=environment(world, **(env or {})),
        input=stdin.encode(),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def result(world: World, *arguments: str, cwd: Path | None = None) -> Any:
    """The JSON of a command that must succeed."""
    ran = turntree(world, *arguments, "--json", cwd=cwd)
    assert ran.code == 0, ran.out + ran.err
    return ran.json


class Terminal:
    """The program on a pty.  A context manager; `text` is what it has printed so far."""

    def __init__(
        self,
        world: World,
        *arguments: str,
        columns: int = 100,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.text = ""
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        settings = {"TERM": "xterm-256color", **(env or {})}
        self.process = subprocess.Popen(
            [*command(), *arguments],
            cwd=world.cwd,
            env=environment(world, **settings),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._master)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, shown: str) -> None:
        """Read until `shown` has been printed."""
        self._read(lambda: shown in self.text)
        assert shown in self.text, self.text

    def end(self) -> int:
        """Read to the end; returns the exit code."""
        self._read(lambda: False)
        return self.process.wait(PATIENCE)

    def _read(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not enough():
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, f"nothing more came after: {self.text}"
            try:
                data = os.read(self._master, 65536)
            except OSError:
                # Linux says EIO when the last program on the pty is gone.
                return
            if not data:
                return
            self.text += data.decode()


def conversation(world: World, turns: int = 5, *, seed: int = 1, cwd: Path | None = None) -> str:
    """A session of "question N" / "answer N" in the world's store; returns its native id."""
    transcript = Transcript(str(cwd or world.cwd), seed=seed)
    transcript.turns(turns)
    transcript.write(world.store)
    return transcript.session_id
