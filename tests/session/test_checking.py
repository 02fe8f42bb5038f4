"""check_session: what is told of every case of the corpus, and that nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from session.errors import SessionNotFound, TurntreeError
from session.model import Finding
from session.service import Service
from tests.corpus import CASES
from tests.session.telling import new_id
from tests.world import World, store_hash

CASE = pytest.mark.parametrize("name", CASES)
BOUND = 200


async def findings(service: Service, session_id: str, **how: Any) -> list[Finding]:
    return (await service.check_session(session_id, **how)).findings


@CASE
async def test_what_is_wrong_is_told_with_its_line_and_nothing_else(
    service: Service, world: World, name: str
) -> None:
    case = CASES[name](world)
    if case.refused:
        with pytest.raises(TurntreeError) as failure:
            await service.check_session(case.session_id)
        assert failure.value.kind == case.refused
        return
    found = await findings(service, case.session_id)
    assert [(finding.code, finding.line) for finding in found] == case.findings
    data = case.path.read_bytes()
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    for finding in found:
        if finding.line is None:
            assert finding.byte_offset is None
        else:
            assert finding.byte_offset == starts[finding.line - 1]
        assert len(finding.message) > 20
        assert finding.message[0].isupper() or finding.message[0].isdigit()
        assert finding.message.endswith((".", "!"))


@CASE
async def test_the_state_and_the_number_of_findings_are_what_a_check_finds_wrong(
    service: Service, world: World, name: str
) -> None:
    case = CASES[name](world)
    if case.refused:
        return
    wrong = [f for f in await findings(service, case.session_id) if f.severity == "error"]
    session = (await service.get_session(case.session_id)).session
    assert (session.state == "damaged") == bool(wrong)
    assert session.finding_count is not None
    if len(wrong) <= BOUND:
        assert session.finding_count == len(wrong)
    else:
        assert session.finding_count >= BOUND


@CASE
async def test_a_check_writes_nothing(service: Service, world: World, name: str) -> None:
    case = CASES[name](world)
    if case.refused:
        return
    await service.list_sessions()
    before = store_hash(world.store)
    await service.check_session(case.session_id)
    assert store_hash(world.store) == before


async def test_an_unknown_session_is_not_found(service: Service) -> None:
    with pytest.raises(SessionNotFound):
        await service.check_session(new_id())
