"""list_sessions and get_session: which sessions there are, in which order, and which hide."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from session.errors import InvalidParams, SessionNotFound, Unsupported
from session.service import Service
from tests.builders import Transcript, live_session
from tests.session.telling import new_id, prompts, sid, titles, told
from tests.world import World, store_hash

HOURS = ("09", "10", "11", "12")


def at(world: World, hour: str, name: str, *, cwd: str | None = None, **more: object) -> Transcript:
    """A session whose one turn was at an hour of the day."""
    start = f"2026-01-31T{hour}:00:00.000Z"
    t = Transcript(cwd or str(world.cwd), seed=int(hour), start=start, **more)  # type: ignore[arg-type]
    t.turn(name)
    t.write(world.store)
    return t


async def test_sessions_are_listed_by_their_last_message_whatever_the_files_times(
    service: Service, world: World
) -> None:
    paths = [at(world, hour, hour).path(world.store) for hour in HOURS]
    for number, path in enumerate(paths):
        os.utime(path, (2_000_000_000 - number,) * 2)
    with paths[0].open("ab") as file:
        file.write(b'{"type":"ai-title","aiTitle":"named later"}\n')
    assert await titles(service) == ["12", "11", "10", "named later"]


async def test_listing_writes_nothing_in_the_agents_store(service: Service, world: World) -> None:
    for hour in HOURS:
        at(world, hour, hour)
    before = store_hash(world.store)
    await service.list_sessions()
    await service.list_sessions()
    assert store_hash(world.store) == before


async def test_a_session_is_described(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    (session,) = (await service.list_sessions()).sessions
    assert session == (await service.get_session(sid(t))).session
    assert (session.session_id, session.agent, session.kind) == (sid(t), "claude-code", "main")
    assert (session.title, session.cwd, session.last_cwd) == ("one", t.cwd, t.cwd)
    assert (session.turn_count, session.branch_count, session.finding_count) == (2, 1, 0)
    assert (session.created_at, session.updated_at) == (
        "2026-01-31T09:00:00.250Z",
        "2026-01-31T09:00:01.000Z",
    )
    assert (session.state, session.forked_from, session.live) == ("ready", None, None)
    assert session.resume.command == ["claude", "--resume", t.session_id]
    assert (session.resume.cwd, session.resume.env) == (t.cwd, {})
    assert (session.resume.resumable, session.resume.reason) == (True, None)
    assert session.revision


async def test_a_store_that_is_not_the_default_one_is_named_in_how_to_resume(
    configured_world: World,
) -> None:
    t = told(configured_world, "one")
    service = await Service.open(home=configured_world.state)
    try:
        session = (await service.get_session(sid(t))).session
    finally:
        await service.close()
    assert session.resume.env == {"CLAUDE_CONFIG_DIR": str(configured_world.store)}


async def test_an_empty_machine_is_told_where_was_looked(service: Service, world: World) -> None:
    page = await service.list_sessions()
    assert (page.sessions, page.skipped, page.next_cursor) == ([], [], None)
    assert page.searched is not None
    assert [(s.agent, s.store, s.exists) for s in page.searched] == [
        ("claude-code", str(world.store), False)
    ]
    told(world, "one")
    assert (await service.list_sessions()).searched is None
    nothing = await service.list_sessions(query="nowhere to be found")
    assert nothing.searched is not None
    assert nothing.searched[0].exists


# Filters


async def test_sessions_of_a_directory_are_those_in_it_and_below_it(
    service: Service, world: World
) -> None:
    below = world.cwd / "sub"
    beside = world.home / "my project 新聞 2"
    for hour, cwd in zip(HOURS, (world.cwd, below, beside, world.home), strict=True):
        cwd.mkdir(exist_ok=True)
        at(world, hour, cwd.name, cwd=str(cwd))
    assert await titles(service, cwd=str(world.cwd)) == ["sub", world.cwd.name]
    assert await titles(service, cwd=f"{world.cwd}/") == ["sub", world.cwd.name]
    assert await titles(service, cwd=str(below)) == ["sub"]
    assert len(await titles(service, cwd=str(world.home))) == 4
    assert len(await titles(service, cwd="/")) == 4
    assert await titles(service, cwd="/no/such/place") == []


async def test_a_directory_is_known_by_its_real_path(service: Service, world: World) -> None:
    link = world.home / "link"
    link.symlink_to(world.cwd)
    at(world, "09", "by its real path")
    at(world, "10", "by the link", cwd=str(link))
    both = ["by the link", "by its real path"]
    assert await titles(service, cwd=str(world.cwd)) == both
    assert await titles(service, cwd=str(link)) == both


async def test_a_session_is_also_found_where_it_went(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turn("moved")
    t.relocated("/home/ada/elsewhere")
    t.write(world.store)
    assert await titles(service, cwd="/home/ada/elsewhere") == ["moved"]
    assert await titles(service, cwd=str(world.cwd)) == ["moved"]


async def test_a_query_looks_at_titles_first_prompts_directories_and_ids(
    service: Service, world: World
) -> None:
    t = at(world, "09", "Add a Retry")
    t.custom_title("Networking")
    t.write(world.store)
    at(world, "10", "something else", cwd="/home/ada/netbsd")
    assert await titles(service, query="NET") == ["something else", "Networking"]
    assert await titles(service, query="retry") == ["Networking"]
    assert await titles(service, query=t.session_id[:8]) == ["Networking"]
    assert await titles(service, query="straße") == []


async def test_by_default_only_main_sessions_are_listed(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd), seed=1)
    t.prompt("main")
    t.subagent("look", "looked", agent_id="ab12")
    t.answer("done")
    path = t.write(world.store)
    flat = path.with_name("agent-cd34.jsonl")
    shutil.copy(path.with_suffix("") / "subagents" / "agent-ab12.jsonl", flat)
    at(world, "10", "of a library", entrypoint="sdk-py")
    assert await titles(service) == ["main"]
    assert await titles(service, kinds=["sdk"]) == ["of a library"]
    subagents = (await service.list_sessions(kinds=["subagent"])).sessions
    assert {s.session_id for s in subagents} == {
        "claude-code:agent-ab12",
        "claude-code:agent-cd34",
    }
    assert all(s.kind == "subagent" and not s.resume.resumable for s in subagents)
    everything = await service.list_sessions(kinds=["main", "sdk", "subagent"])
    assert len(everything.sessions) == 4
    assert await prompts(service, "claude-code:agent-ab12") == []


async def test_agents_are_filtered_and_one_without_an_adapter_is_unsupported(
    service: Service, world: World
) -> None:
    told(world, "one")
    assert await titles(service, agents=["claude-code"]) == ["one"]
    assert await titles(service, agents=["codex", "claude-code"]) == ["one"]
    with pytest.raises(Unsupported):
        await titles(service, agents=["codex"])
    assert await titles(service, agents=[]) == []


async def test_the_forks_of_a_session_are_listed(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    other = told(world, "other", seed=2)
    await service.fork_session(sid(t), new_id(1), title="first")
    await service.fork_session(sid(t), new_id(2), title="second", stage=True)
    await service.fork_session(new_id(1), new_id(3), title="third")
    await service.fork_session(sid(other), new_id(4), title="fourth")
    assert await titles(service, forked_from=sid(t)) == ["first"]
    assert set(await titles(service, forked_from=sid(t), include_staged=True)) == {
        "first",
        "second",
    }
    assert await titles(service, forked_from=new_id(1)) == ["third"]
    assert await titles(service, forked_from=new_id(3)) == []


async def test_the_agents_own_branches_are_forks_too(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    branch = Transcript(str(world.cwd), seed=2)
    branch.turns(2)
    branch.fork_of(t.session_id)
    branch.write(world.store)
    (session,) = (await service.list_sessions(forked_from=sid(t))).sessions
    assert session.forked_from is not None
    assert session.forked_from.session_id == sid(t)
    assert session.forked_from.turn_number == 2


# Pages


async def test_pages_hold_each_session_once(service: Service, world: World) -> None:
    for seed in range(7):
        t = Transcript(str(world.cwd), seed=seed)
        t.turn(f"p{seed}")
        t.write(world.store)
    seen: list[str | None] = []
    cursor = None
    for expected in (3, 3, 1):
        page = await service.list_sessions(limit=3, cursor=cursor)
        assert len(page.sessions) == expected
        seen += [s.title for s in page.sessions]
        cursor = page.next_cursor
    assert cursor is None
    # All of one time: the id decides, and each is there once.
    assert sorted(map(str, seen)) == [f"p{n}" for n in range(7)]


async def test_a_cursor_of_sessions_never_is_stale(service: Service, world: World) -> None:
    sessions = [at(world, hour, hour) for hour in HOURS]
    page = await service.list_sessions(limit=2)
    assert [s.title for s in page.sessions] == ["12", "11"]
    # One goes, one comes, one that was shown changes.
    sessions[3].path(world.store).unlink()
    at(world, "13", "13")
    sessions[1].wait(7200)
    sessions[1].turn("later")
    sessions[1].write(world.store)
    rest = await service.list_sessions(limit=2, cursor=page.next_cursor)
    assert [s.title for s in rest.sessions] == ["09"]
    assert rest.next_cursor is None


@pytest.mark.parametrize("cursor", ["", "x", "W10=", "WzEsMiwzXQ==", "bnVsbA==", "é"])
async def test_what_is_no_cursor_is_refused(service: Service, world: World, cursor: str) -> None:
    told(world, "one")
    with pytest.raises(InvalidParams, match="cursor"):
        await service.list_sessions(cursor=cursor)


# What is wrong with one hides no other


async def test_files_that_are_no_sessions_are_told_with_a_reason(
    service: Service, world: World
) -> None:
    folder = told(world, "good").path(world.store).parent
    empty, pipe, other, foreign = (folder / f"{new_id(n)[12:]}.jsonl" for n in range(1, 5))
    empty.write_bytes(b"")
    os.mkfifo(pipe)
    other.write_bytes(b'{"type":"mode","mode":"normal"}\n{"a":1}\n')
    foreign.write_bytes("{}\n[1]\nnot JSON\n".encode("utf-16"))
    (folder / "notes.jsonl").write_text("{}\n")
    page = await service.list_sessions()
    assert [s.title for s in page.sessions] == ["good"]
    assert {Path(s.path).name: s.reason for s in page.skipped} == {
        empty.name: "empty file",
        pipe.name: "not a regular file",
        other.name: "no readable message",
        foreign.name: "no readable message",
        "notes.jsonl": "its name is not a session id (a UUID)",
    }
    assert empty.exists()


async def test_a_damaged_session_is_listed_as_one(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    t.drop(t.messages()[1]["uuid"])
    t.append(b'{"torn')
    t.write(world.store)
    (session,) = (await service.list_sessions()).sessions
    assert (session.state, session.finding_count, session.turn_count) == ("damaged", 2, 2)


async def test_two_files_with_one_id_are_one_session_and_it_is_said_which(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")
    copy = world.store / "projects" / "-somewhere-else" / f"{t.session_id}.jsonl"
    copy.parent.mkdir()
    lines = t.path(world.store).read_bytes().split(b"\n")
    copy.write_bytes(b"\n".join(lines[:2]) + b"\n")
    page = await service.list_sessions()
    assert [s.turn_count for s in page.sessions] == [2]
    assert [s.path for s in page.skipped] == [str(copy)]
    assert str(t.path(world.store)) in page.skipped[0].reason
    assert await prompts(service, sid(t)) == ["one", "two"]


async def test_projects_whose_folders_collide_are_told_apart(
    service: Service, world: World
) -> None:
    one, two = world.home / "data-hub", world.home / "data" / "hub"
    one.mkdir()
    two.mkdir(parents=True)
    first = at(world, "09", "first", cwd=str(one))
    second = at(world, "10", "second", cwd=str(two))
    assert first.path(world.store).parent == second.path(world.store).parent
    assert await titles(service, cwd=str(one)) == ["first"]
    assert await titles(service, cwd=str(two)) == ["second"]


async def test_the_agents_own_index_is_not_believed(service: Service, world: World) -> None:
    folder = at(world, "09", "one").path(world.store).parent
    at(world, "10", "two")
    for index in (
        {"version": 1, "entries": [{"sessionId": "gone", "fullPath": "/no/such/file"}]},
        "not an object",
    ):
        (folder / "sessions-index.json").write_text(json.dumps(index))
        assert await titles(service) == ["two", "one"]
    (folder / "sessions-index.json").write_bytes(b"\x00{")
    assert await titles(service) == ["two", "one"]


async def test_a_session_that_was_moved_by_its_folder_is_still_the_session(
    service: Service, world: World
) -> None:
    t = told(world, "one")
    await service.list_sessions()
    folder = t.path(world.store).parent
    folder.rename(folder.with_name("-renamed"))
    assert await titles(service) == ["one"]
    assert await prompts(service, sid(t)) == ["one"]


async def test_a_file_that_goes_is_no_session_any_more(service: Service, world: World) -> None:
    t = told(world, "one")
    assert await titles(service) == ["one"]
    t.path(world.store).unlink()
    assert await titles(service) == []
    with pytest.raises(SessionNotFound):
        await service.get_session(sid(t))


async def test_a_file_that_changes_is_listed_as_it_is_now(service: Service, world: World) -> None:
    t = told(world, "one")
    await service.list_sessions()
    t.turn("two")
    t.custom_title("named")
    t.write(world.store)
    (session,) = (await service.list_sessions()).sessions
    assert (session.title, session.turn_count) == ("named", 2)


async def test_what_a_listing_learnt_outlives_the_process(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    before = (await service.list_sessions()).sessions
    again = await Service.open(home=world.state)
    try:
        assert (await again.list_sessions()).sessions == before
    finally:
        await again.close()
    assert before[0].session_id == sid(t)


async def test_a_large_session_is_listed_at_once_and_counted_when_it_is_asked_for(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("the first", "x" * 200_000)
    for number in range(3):
        t.turn(f"p{number}", "y" * 200_000)
    t.ai_title("named at the end")
    t.write(world.store)
    (session,) = (await service.list_sessions()).sessions
    assert (session.title, session.cwd) == ("named at the end", t.cwd)
    assert session.updated_at == t.messages()[-1]["timestamp"]
    assert (session.turn_count, session.branch_count, session.revision) == (None, None, None)
    assert (await service.get_session(sid(t))).session.turn_count == 4


async def test_a_large_session_of_records_that_are_all_large_is_no_exception(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    for number in range(3):
        t.turn(f"p{number} " + "x" * 300_000, "y" * 300_000)
    t.write(world.store)
    page = await service.list_sessions(cwd=t.cwd)
    assert page.skipped == []
    (session,) = page.sessions
    assert str(session.title).startswith("p0 xxx")
    assert session.updated_at == t.messages()[-1]["timestamp"]


# One session


@pytest.mark.parametrize(
    "session_id",
    ["", "claude-code", "claude-code:", ":x", "vim:1", "0f3c", "claude-code:nothing-like-it"],
)
async def test_what_is_no_session_is_not_found(service: Service, session_id: str) -> None:
    with pytest.raises(SessionNotFound):
        await service.get_session(session_id)


@pytest.mark.parametrize("agent", ["codex", "opencode", "gemini", "pi", "journal"])
async def test_a_session_of_an_agent_that_is_not_supported_yet_is_told_as_that(
    service: Service, agent: str
) -> None:
    with pytest.raises(Unsupported) as caught:
        await service.get_session(f"{agent}:some-id")
    assert caught.value.data["agent"] == agent
    assert caught.value.data["reason"]


async def test_the_program_that_has_a_session_open_is_shown(service: Service, world: World) -> None:
    t = told(world, "one")
    live_session(world.store, os.getpid(), t.session_id)
    for session in (
        (await service.get_session(sid(t))).session,
        (await service.list_sessions()).sessions[0],
    ):
        assert session.live is not None
        assert (session.live.pid, session.live.since) == (os.getpid(), "2026-01-31T09:00:00.000Z")


async def test_the_revision_changes_when_and_only_when_the_history_does(
    service: Service, world: World
) -> None:
    t = told(world, "one", "two")

    async def revision() -> str | None:
        return (await service.get_session(sid(t))).session.revision

    first = await revision()
    assert await revision() == first
    t.ai_title("a title")
    t.write(world.store)
    assert await revision() == first
    t.turn("three")
    t.write(world.store)
    second = await revision()
    assert second != first
    t.rewind_pointer(t.messages()[3]["uuid"])
    t.write(world.store)
    assert await revision() not in (second, None)


async def test_ids_are_allocated_for_agents_that_are_supported(service: Service) -> None:
    allocated = (await service.allocate_session_id("claude-code")).session_id
    assert allocated.startswith("claude-code:")
    with pytest.raises(Unsupported):
        await service.allocate_session_id("codex")
