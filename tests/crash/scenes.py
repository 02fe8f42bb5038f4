"""All scenes."""

from __future__ import annotations

from tests.crash.forks import (
    Discard,
    Fork,
    ForkElsewhere,
    ForkOfNothing,
    Promote,
    RedoFork,
    StagedFork,
    UndoFork,
)
from tests.crash.repairs import Repair, StagedRepair
from tests.crash.rewinds import (
    Redo,
    RedoAfterNewTurns,
    RedoOfSwap,
    RedoOfSwapAfterNewTurns,
    Rewind,
    RewindBySwap,
    RewindPastCompaction,
    RewindToNothing,
    Undo,
    UndoAfterNewTurns,
    UndoOfSwap,
    UndoOfSwapAfterNewTurns,
)
from tests.crash.scene import Scene

SCENES: tuple[type[Scene], ...] = (
    Fork,
    ForkElsewhere,
    ForkOfNothing,
    StagedFork,
    Promote,
    Discard,
    UndoFork,
    RedoFork,
    Repair,
    StagedRepair,
    Rewind,
    RewindBySwap,
    RewindPastCompaction,
    RewindToNothing,
    Undo,
    UndoOfSwap,
    UndoAfterNewTurns,
    UndoOfSwapAfterNewTurns,
    Redo,
    RedoOfSwap,
    RedoAfterNewTurns,
    RedoOfSwapAfterNewTurns,
)
