"""Where Turntree keeps its own state."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_state_path


def home() -> Path:
    """`$TURNTREE_HOME`, else the platform's user state directory.  Not created here."""
    chosen = os.environ.get("TURNTREE_HOME")
    return Path(chosen).expanduser().absolute() if chosen else user_state_path("turntree")
