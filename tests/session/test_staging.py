"""Staged children: seen by id, promoted or discarded, once."""

from __future__ import annotations

import pytest

from session.errors import NotStaged, SessionNotFound, StorageError, Unsupported
from session.model import Boundary
from session.service import Service
from tests.builders import Transcript
from tests.session.telling import new_id, prompts, sid, titles, told
from tests.world import World, assert_untouched, store_hash

CHILD = new_id()


async def test_a_staged_child_is_readable_by_its_id_and_no_agent_sees_it(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    result = await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=1), stage=True)
    assert result.status == "staged"
    assert result.session is not None
    assert (result.session.state, result.session.turn_count) == ("staged", 1)
    assert result.session.forked_from is not None
    assert result.session.forked_from.session_id == sid(t)
    assert not result.session.resume.resumable
    assert "promote" in str(result.session.resume.reason)
    assert await prompts(service, CHILD) == ["one"]
    assert await titles(service) == ["one"]
    assert await titles(service, include_staged=True) == ["one (fork)", "one"]
    assert list((world.store / "projects").glob(f"*/{CHILD[12:]}.jsonl")) == []


async def test_promoting_publishes_the_child_and_may_be_repeated(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    before = store_hash(world.store)
    await service.fork_session(sid(t), CHILD, stage=True)
    session = (await service.promote_session(CHILD)).session
    assert (session.state, session.turn_count, session.title) == ("ready", 2, "one (fork)")
    assert session.resume.resumable
    assert (await service.promote_session(CHILD)).session == session
    assert await titles(service) == ["one (fork)", "one"]
    assert_untouched(before, world.store)
    (folder,) = (world.store / "projects").iterdir()
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []
    again = await service.fork_session(sid(t), CHILD, stage=True)
    assert again.status == "already_forked"
    assert again.session == session


async def test_companions_come_with_promotion(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("one")
    t.big_tool("Bash", {}, "large " * 9000, file="kept.txt")
    t.write_file(f"{t.cwd}/a.py", "new", before="old")
    t.answer("done")
    path = t.write(world.store)
    await service.fork_session(sid(t), CHILD, stage=True)
    own = path.with_name(CHILD[12:]) / "tool-results" / "kept.txt"
    assert not own.exists()
    await service.promote_session(CHILD)
    assert own.read_text() == "large " * 9000
    assert len(list((world.store / "file-history" / CHILD[12:]).iterdir())) == 1


async def test_discarding_leaves_nothing_and_may_be_repeated(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    before = store_hash(world.store)
    await service.fork_session(sid(t), CHILD, stage=True)
    discarded = await service.discard_session(CHILD)
    assert (discarded.session_id, discarded.status) == (CHILD, "discarded")
    assert await service.discard_session(CHILD) == discarded
    assert store_hash(world.store) == before
    with pytest.raises(SessionNotFound):
        await service.get_session(CHILD)
    with pytest.raises(NotStaged) as caught:
        await service.promote_session(CHILD)
    assert caught.value.data == {"kind": "not_staged", "session_id": CHILD, "state": "discarded"}
    assert await titles(service, include_staged=True) == ["one"]


async def test_what_is_not_staged_is_neither_promoted_nor_discarded(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    await service.fork_session(sid(t), CHILD)
    for session_id in (sid(t), CHILD):
        for verb in (service.promote_session, service.discard_session):
            with pytest.raises(NotStaged) as caught:
                await verb(session_id)
            assert caught.value.data["state"] == "ready"
    for verb in (service.promote_session, service.discard_session):
        with pytest.raises(SessionNotFound):
            await verb(new_id(9))
    assert await prompts(service, CHILD) == ["one"]


async def test_a_promoted_child_is_not_discarded(service: Service, world: World) -> None:
    t = told(world, "one")
    await service.fork_session(sid(t), CHILD, stage=True)
    await service.promote_session(CHILD)
    with pytest.raises(NotStaged):
        await service.discard_session(CHILD)


async def test_a_staged_child_outlives_its_process(service: Service, world: World) -> None:
    t = told(world, "one")
    await service.fork_session(sid(t), CHILD, stage=True)
    later = await Service.open(home=world.state)
    try:
        await later.sweep()
        assert (await later.get_session(CHILD)).session.state == "staged"
        await later.promote_session(CHILD)
    finally:
        await later.close()
    assert (await service.get_session(CHILD)).session.state == "ready"


async def test_a_staged_child_keeps_what_it_was_while_its_source_goes_on(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    await service.fork_session(sid(t), CHILD, stage=True)
    t.turn("two")
    t.write(world.store)
    t.path(world.store).unlink()
    await service.promote_session(CHILD)
    assert await prompts(service, CHILD) == ["one"]


async def test_a_staged_fork_of_no_turns_is_promoted_to_an_empty_session(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    await service.fork_session(sid(t), CHILD, at=Boundary(turn_number=0), stage=True)
    assert await titles(service) == ["one"]
    session = (await service.promote_session(CHILD)).session
    assert (session.state, session.turn_count) == ("ready", 0)
    assert session.resume.command == ["claude", "--session-id", CHILD[12:]]
    assert set(await titles(service)) == {"one (fork)", "one"}


async def test_a_staged_session_is_not_rewound(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    await service.fork_session(sid(t), CHILD, stage=True)
    with pytest.raises(Unsupported, match="promote it"):
        await service.rewind(CHILD, Boundary(by=1))
    assert await prompts(service, CHILD) == ["one", "two"]


async def test_a_stage_that_someone_removed_is_told(service: Service, world: World) -> None:
    import shutil

    t = told(world, "one")
    await service.fork_session(sid(t), CHILD, stage=True)
    (stage,) = t.path(world.store).parent.glob(".turntree-*")
    shutil.rmtree(stage)
    with pytest.raises(StorageError):
        await service.promote_session(CHILD)
    assert await titles(service, include_staged=True) == ["one"]
    await service.discard_session(CHILD)
