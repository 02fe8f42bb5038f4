"""Named fault points: where a test stops a real process in the middle of a durable step.

`TURNTREE_FAULT=<point>` kills the process with SIGKILL when it reaches that point.
`TURNTREE_FAULT=<point>:halt` writes the file `$TURNTREE_FAULT_READY` and then sleeps, so that
a test can look at the world, let another process work, and kill this one.
`TURNTREE_FAULT=<point>:<ERRNO>` (such as ENOSPC) makes the step fail there instead.

Every point is declared in `POINTS`; docs/architecture.md lists what each one proves.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

POINTS = (
    "fork.intended",
    "fork.copied",
    "fork.validated",
    "fork.staged",
    "fork.sidecars",
    "fork.published",
    "repair.intended",
    "repair.copied",
    "repair.validated",
    "repair.staged",
    "repair.sidecars",
    "repair.published",
    "promote.intended",
    "promote.sidecars",
    "promote.published",
    "discard.intended",
    "discard.removed",
    "rewind.staged",
    "rewind.intended",
    "rewind.archived",
    "rewind.applied",
    "undo.staged",
    "undo.intended",
    "undo.archived",
    "undo.applied",
    "redo.staged",
    "redo.intended",
    "redo.archived",
    "redo.applied",
)
BEHIND = ("index.committed", "index.worded")
"""Points of what is done behind a server, for no request."""

_ARMED, _, _ACTION = os.environ.get("TURNTREE_FAULT", "").partition(":")


def fault(point: str) -> None:
    """Does nothing unless the environment armed `point`."""
    if not _ARMED:
        return
    if point not in POINTS + BEHIND:
        raise ValueError(f"undeclared fault point {point!r}")
    if point != _ARMED:
        return
    if _ACTION == "halt":
        Path(os.environ["TURNTREE_FAULT_READY"]).write_text(str(os.getpid()))
        time.sleep(3600)
    elif _ACTION:
        number = getattr(errno, _ACTION)
        raise OSError(number, os.strerror(number), point)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
