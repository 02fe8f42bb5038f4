"""Where Turntree keeps its own state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from session.later import later

if TYPE_CHECKING:
    import platformdirs
else:
    # Whoever chooses a directory does not wait for what would look for one.
    platformdirs = later("platformdirs")


def home() -> Path:
    """`$TURNTREE_HOME`, else the platform's user state directory.  Not created here."""
    chosen = os.environ.get("TURNTREE_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_state_path("turntree")
