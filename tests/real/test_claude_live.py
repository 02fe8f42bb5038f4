"""Sessions that the real `claude` is writing while Turntree reads and forks them."""

from __future__ import annotations

import threading

import pytest

from tests.client import Client, RpcError, wait_until
from tests.real.asking import asked, before_prompt, fork, new_id, session_id
from tests.rig.claude import Claude
from tests.rig.model import Model, Reply, Tool
from tests.world import World


def test_a_fork_taken_in_mid_turn_ends_before_that_turn(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    source = claude.talk(world.cwd, "one", "two")
    go_on = threading.Event()
    model.script(
        Reply("looking", tools=(Tool("Bash", {"command": "echo x", "description": "say"}),)),
        Reply("third done", hold=go_on),
    )
    running = claude.start("three", world.cwd, resume=source)
    model.wait_for_prompt("three", times=2)

    page = wait_until(
        lambda: _listed(server, source, turns=3), what="the turn in progress is listed"
    )
    assert [t["status"] for t in page["turns"]] == ["complete", "complete", "in_progress"]
    assert page["session"]["live"]["pid"] == running.pid

    open_turn = page["turns"][2]["turn_id"]
    with pytest.raises(RpcError) as refused:
        server.fork_session(
            session_id=session_id(source),
            new_session_id=new_id(),
            at={"through_turn": open_turn},
        )
    assert refused.value.kind == "turn_in_progress"
    assert refused.value.data["turn_id"] == open_turn

    latest = fork(server, source, None)
    assert latest["turns"]["kept"] == 2
    before = server.fork_session(
        session_id=session_id(source), new_session_id=new_id(), at={"before_turn": open_turn}
    )
    assert before["turns"]["kept"] == 2

    go_on.set()
    assert claude.finish(running).text == "third done"
    kept = before_prompt(model.asked("three"))
    for child in (latest, before):
        claude.resume(child["resume"], "in the fork")
        assert model.last().said() == [*kept, asked("in the fork")]
    claude.ask("four", world.cwd, resume=source)
    assert model.last().prompts() == ["one", "two", "three", "four"]


def test_a_turn_whose_program_was_killed_is_interrupted_and_may_be_kept(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    source = claude.talk(world.cwd, "one")
    never = threading.Event()
    model.script(
        Reply("looking", tools=(Tool("Bash", {"command": "echo x", "description": "say"}),)),
        Reply("never", hold=never),
    )
    running = claude.start("two", world.cwd, resume=source)
    model.wait_for_prompt("two", times=2)
    wait_until(lambda: _has_result(server, source), what="the tool's result is written")
    running.kill()
    running.communicate()
    never.set()

    page = server.list_turns(session_id=session_id(source))
    assert [t["status"] for t in page["turns"]] == ["complete", "interrupted"]
    assert page["session"]["live"] is None
    child = fork(server, source, None)
    assert child["turns"]["kept"] == 2
    claude.resume(child["resume"], "go on")
    in_fork = model.last().said()
    assert ("user", "tool_result", "x") in in_fork
    claude.ask("go on", world.cwd, resume=source)
    assert in_fork == model.last().said()


def test_a_rewind_is_refused_while_a_run_has_the_session_open(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    source = claude.talk(world.cwd, "one", "two")
    go_on = threading.Event()
    model.script(Reply("third done", hold=go_on))
    running = claude.start("three", world.cwd, resume=source)
    model.wait_for_prompt("three")
    with pytest.raises(RpcError) as refused:
        server.rewind(session_id=session_id(source), to={"turn_number": 1}, wait_ms=0)
    assert refused.value.kind == "session_busy"
    assert refused.value.data["holder"]["pid"] == running.pid
    go_on.set()
    claude.finish(running)
    claude.ask("four", world.cwd, resume=source)
    assert model.last().prompts() == ["one", "two", "three", "four"]


def test_what_the_program_appends_is_announced_to_clients(
    server: Client, claude: Claude, world: World
) -> None:
    source = claude.talk(world.cwd, "one")
    server.list_sessions()
    claude.ask("two", world.cwd, resume=source)
    server.wait_for_notification(
        "turntree/didChangeSessions",
        lambda change: session_id(source) in change["session_ids"],
    )
    page = server.list_turns(session_id=session_id(source))
    assert [t["prompt"] for t in page["turns"]] == ["one", "two"]


def _has_result(server: Client, source: str) -> bool:
    turns = server.list_turns(session_id=session_id(source))["turns"]
    if len(turns) < 2:
        return False
    items = server.read_turn(session_id=session_id(source), turn_id=turns[1]["turn_id"])["items"]
    return any(item["kind"] == "tool_result" for item in items)


def _listed(server: Client, source: str, *, turns: int) -> object:
    page = server.list_turns(session_id=session_id(source))
    return page if page["total_turns"] == turns else None
