"""Every case of the corpus is listed and read as is right, and nothing is written."""

from __future__ import annotations

import pytest

from session.errors import TurntreeError
from session.service import Service
from tests.corpus import CASES
from tests.session.telling import told
from tests.world import World, store_hash


def inodes(world: World) -> dict[str, int]:
    """Which file each path of the agent's store is."""
    return {str(path): path.lstat().st_ino for path in world.store.rglob("*")}


CASE = pytest.mark.parametrize("name", CASES)


@CASE
async def test_the_turns_of_the_active_branch_are_told_with_their_gaps(
    service: Service, world: World, name: str
) -> None:
    case = CASES[name](world)
    if case.refused:
        with pytest.raises(TurntreeError) as failure:
            await service.list_turns(case.session_id)
        assert failure.value.kind == case.refused
        return
    page = await service.list_turns(case.session_id, limit=500)
    assert [turn.prompt for turn in page.turns] == case.prompts
    assert [gap.line for gap in page.gaps] == case.gaps
    assert page.total_turns == page.session.turn_count == len(case.prompts)
    branches = (await service.list_branches(case.session_id)).branches
    assert len(branches) == page.session.branch_count == case.branches
    assert [branch.active for branch in branches] == [True] + [False] * (case.branches - 1)


@CASE
async def test_it_is_listed_or_skipped_and_hides_nothing_else(
    service: Service, world: World, name: str
) -> None:
    case = CASES[name](world)
    good = told(world, "good", seed=100)
    for _ in range(2):
        page = await service.list_sessions()
        listed = {session.session_id: session for session in page.sessions}
        assert f"claude-code:{good.session_id}" in listed
        assert (case.session_id in listed) == case.listed
        assert (str(case.path) in {skip.path for skip in page.skipped}) == (not case.listed)
        # What was read meanwhile changes nothing.
        if not case.refused:
            session = (await service.get_session(case.session_id)).session
            assert not case.listed or session == (await _listed(service, case.session_id))


async def _listed(service: Service, session_id: str) -> object:
    page = await service.list_sessions()
    return next(s for s in page.sessions if s.session_id == session_id)


@CASE
async def test_reading_writes_nothing(service: Service, world: World, name: str) -> None:
    case = CASES[name](world)
    if case.refused:
        return
    before = store_hash(world.store), inodes(world)
    await service.list_sessions()
    page = await service.list_turns(case.session_id, branch="all", limit=500)
    for turn in page.turns[:5]:
        await service.read_turn(case.session_id, turn.turn_id)
    await service.list_branches(case.session_id)
    assert (store_hash(world.store), inodes(world)) == before


@pytest.mark.parametrize(
    "name", ["a_file_of_nul_bytes", "f020_utf16_little_endian", "f047_an_empty_file"]
)
async def test_a_file_in_which_the_agent_finds_no_message_is_not_said_to_be_resumable(
    service: Service, world: World, name: str
) -> None:
    case = CASES[name](world)
    resume = (await service.get_session(case.session_id)).session.resume
    assert (resume.resumable, resume.reason) == (False, "it holds no message")
