"""A rewind of a damaged file says what the agent will resume, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from session.errors import SessionDamaged
from session.model import Boundary
from session.service import Service
from tests.builders import Transcript
from tests.world import World


def _told(world: World) -> Transcript:
    t = Transcript(str(world.cwd))
    for prompt in ("one", "two", "three"):
        t.turn(prompt)
    return t


async def test_a_rewind_that_keeps_a_record_of_a_damaged_line_writes_it_anew(
    service: Service, world: World
) -> None:
    t = _told(world)
    path = t.write(world.store)
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"content":"two"' in line)
    lines[at] = lines[at][:60] + lines[at]
    path.write_bytes(b"".join(lines))
    before = path.read_bytes()
    session_id = f"claude-code:{Path(path).stem}"
    result = await service.rewind(session_id, Boundary(turn_number=2))
    assert (result.status, result.turns.kept) == ("rewound", 2)
    assert b'{"parentUuid"' not in [line[1:] for line in path.read_bytes().splitlines()]
    assert all(line.count(b'{"parentUuid"') <= 1 for line in path.read_bytes().splitlines())
    await service.undo(session_id)
    assert path.read_bytes() == before


async def test_a_rewind_across_a_gap_is_refused(service: Service, world: World) -> None:
    t = _told(world)
    t.drop(t.messages()[1]["uuid"])
    path = t.write(world.store)
    before = path.read_bytes()
    with pytest.raises(SessionDamaged):
        await service.rewind(f"claude-code:{Path(path).stem}", Boundary(turn_number=2))
    assert path.read_bytes() == before
