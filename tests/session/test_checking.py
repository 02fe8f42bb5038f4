"""check_session: what is told of every case of the corpus, and that nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from session.errors import SessionNotFound, TurntreeError
from session.model import Boundary, Finding
from session.service import Service
from tests.builders import Transcript
from tests.chain import to_json
from tests.corpus import CASES
from tests.session.telling import new_id
from tests.session.test_corpus import inodes
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
    before = store_hash(world.store), inodes(world)
    await service.check_session(case.session_id)
    assert (store_hash(world.store), inodes(world)) == before


async def test_an_unknown_session_is_not_found(service: Service) -> None:
    with pytest.raises(SessionNotFound):
        await service.check_session(new_id())


async def test_forks_and_rewinds_that_turntree_made_are_well(
    service: Service, world: World
) -> None:
    case = CASES["a_session_with_all_of_its_companions"](world)
    staged, child = new_id(1), new_id(2)
    await service.fork_session(case.session_id, staged, stage=True)
    await service.fork_session(case.session_id, child)
    await service.rewind(child, Boundary(by=1))
    for session_id in (case.session_id, staged, child):
        assert await findings(service, session_id) == []
    await service.promote_session(staged)
    assert await findings(service, staged) == []


async def test_a_fork_that_has_no_file_yet_has_nothing_wrong(
    service: Service, world: World
) -> None:
    case = CASES["a_torn_line"](world)
    await service.fork_session(case.session_id, new_id(), at=Boundary(turn_number=0))
    assert await findings(service, new_id()) == []


async def test_a_subagents_transcript_can_be_checked(service: Service, world: World) -> None:
    case = CASES["a_session_with_all_of_its_companions"](world)
    (path,) = case.path.with_suffix("").glob("subagents/*.jsonl")
    session_id = f"claude-code:{path.stem}"
    assert await findings(service, session_id) == []
    with path.open("ab") as file:
        file.write(b'{"torn\n')
    assert [f.code for f in await findings(service, session_id)] == ["torn_line"]


async def test_a_check_is_of_the_file_as_it_is_now(service: Service, world: World) -> None:
    case = CASES["nothing_is_wrong"](world)
    assert await findings(service, case.session_id) == []
    with case.path.open("ab") as file:
        file.write(b'{"type":"mode","mo')
    assert [f.code for f in await findings(service, case.session_id)] == ["torn_end"]
    with case.path.open("ab") as file:
        file.write(b'de":"normal"}\n')
    assert await findings(service, case.session_id) == []


async def test_a_call_without_a_name_for_it_is_nothing_that_a_repair_could_close(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question 1")
    call = t.tool("Bash", {"command": "ls"}, "a.py")
    assert call.result is not None
    t.find(call.use)["message"]["content"][0]["id"] = [1]
    t.find(call.result)["message"]["content"][0]["tool_use_id"] = None
    t.answer()
    t.write(world.store)
    assert await findings(service, f"claude-code:{t.session_id}") == []


async def test_a_record_that_strayed_into_two_files_is_told_and_collected_once(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd), seed=1)
    t.turn("one")
    t.turn("two")
    strays = t.records[2:]
    del t.records[2:]
    path = t.write(world.store)
    # A copy under another name, in which the session went on, is nobody's own.
    name = "00000000-0000-4000-8000-000000000000"
    path.with_name(f"{name}.jsonl").write_bytes(b"".join(map(to_json_line, [*t.records, *strays])))
    for seed in (2, 3):
        other = Transcript(str(world.cwd), seed=seed)
        other.turn("of the other")
        other.records += strays
        other.write(world.store)
    session_id = f"claude-code:{t.session_id}"
    told = [f for f in await findings(service, session_id) if f.code == "stray_records"]
    assert [f.message[:34] for f in told] == ["2 records of this session, with 1 "]
    repaired = await service.repair_session(session_id, new_id(), dry_run=True)
    assert [(r.repair, r.count) for r in repaired.repairs] == [("collect_strays", 2)]


async def test_long_outputs_are_weighed_in_bytes_and_each_as_the_repair_cuts_it(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("one")
    short = [{"type": "text", "text": "x" * 10_000} for _ in range(200)]
    t.tool("Bash", {"command": "a"}, short)
    t.tool("Bash", {"command": "b"}, "新聞" * 200_000)
    t.answer()
    t.write(world.store)
    session_id = f"claude-code:{t.session_id}"
    [told] = await findings(service, session_id)
    assert (told.code, told.line) == ("large_outputs", 5)
    assert told.message.startswith("1 output of tools over 16 KiB makes up 1.2 MB;")


def to_json_line(record: object) -> bytes:
    return to_json(record) + b"\n"
