"""A built transcript as the adapter opens it, with nothing else in its store."""

from __future__ import annotations

from pathlib import Path

from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.history import History
from session.agents.claude_code.store import ClaudeStore
from session.model import Item, Turn
from session.work import Work
from tests.builders import Transcript


def opened(folder: Path, transcript: Transcript) -> History:
    """Write the transcript into the store at `folder` and open it."""
    return opened_file(folder, transcript.write(folder))


def opened_file(folder: Path, path: Path) -> History:
    agent = ClaudeCode(ClaudeStore(folder))
    return agent.open(path, native_id=path.stem, work=Work())


def all_turns(history: History) -> list[Turn]:
    """The turns of the active branch."""
    return history.turns(range(1, history.turn_count + 1))


def prompts(history: History) -> list[str]:
    return [turn.prompt for turn in all_turns(history)]


def only_turn(folder: Path, transcript: Transcript) -> Turn:
    """The one turn of a transcript."""
    (turn,) = all_turns(opened(folder, transcript))
    return turn


def items(history: History, turn_id: str) -> list[Item]:
    _, found, after = history.items(turn_id, 1 << 20, None)
    assert after is None
    return found
