"""The transcripts that other tests build have the shapes that the program writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builders import Transcript
from tests.rig.claude import Claude
from tests.rig.model import Model, Reply, Tool
from tests.world import World

# Members that the program leaves out where it has nothing to say.
_OPTIONAL = {"slug", "lastPrompt", "session_id"}


def _shapes(path: Path) -> set[tuple[str, frozenset[str]]]:
    """What kinds of record a file holds: type with subtype or role, and the members."""
    return {_shape(json.loads(line)) for line in path.read_bytes().splitlines()}


def _shape(record: dict[str, Any]) -> tuple[str, frozenset[str]]:
    return (
        f"{record['type']} {record.get('subtype', '')}",
        frozenset(record.keys() - _OPTIONAL),
    )


def test_the_builders_write_records_with_the_members_that_the_program_writes(
    world: World, claude: Claude, model: Model
) -> None:
    path = str(world.cwd / "a.txt")
    summary = "<summary>In short</summary>"
    for aside in (False, True):
        model.script(Reply(summary, match="TEXT ONLY", repeat=True, aside=aside))
    model.script(
        Reply("writing", tools=(Tool("Write", {"file_path": path, "content": "x\n"}),)), "done"
    )
    native_id = claude.talk(world.cwd, "one", "/compact", "two")
    real = next((world.store / "projects").glob(f"*/{native_id}.jsonl"))

    t = Transcript(str(world.cwd))
    t.queue_operation("enqueue", "one")
    t.queue_operation("dequeue")
    turn = t.prompt("one")
    t.attachment()
    t.snapshot(turn)
    t.write_file(path, "x\n")
    t.answer()
    t.last_prompt("one")
    t.mode()
    t.compact()
    t.turn("two")
    built = t.write(world.home / "built")

    assert _shapes(built) <= _shapes(real)
