"""Real sessions through a real server process: size, concurrency, cancelling, news."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from session.locks import Locks
from tests.builders import Transcript
from tests.client import PATIENCE, Client, RpcError, wait_until
from tests.server.pipes import RawServer, notification, request
from tests.world import World

MEGABYTE = 1 << 20


@pytest.fixture
def transcript(world: World) -> Transcript:
    """A session of five turns on the disk."""
    transcript = Transcript(cwd=str(world.cwd), seed=11)
    transcript.turns(5)
    transcript.write(world.store)
    return transcript


@pytest.fixture
def source(transcript: Transcript) -> str:
    return f"claude-code:{transcript.session_id}"


@pytest.fixture
def held(world: World, source: str) -> Iterator[None]:
    """Another program holds the session's writer lock for the length of the test."""
    free, got = threading.Event(), threading.Event()

    async def hold() -> None:
        async with Locks(world.state, "another program").hold(source, 0):
            got.set()
            await asyncio.to_thread(free.wait, PATIENCE)

    holder = threading.Thread(target=asyncio.run, args=(hold(),))
    holder.start()
    assert got.wait(PATIENCE)
    yield
    free.set()
    holder.join()


def large(world: World) -> tuple[str, str]:
    """A session with a turn of over a megabyte: (session_id, turn_id)."""
    transcript = Transcript(cwd=str(world.cwd), seed=12)
    turn_id = transcript.prompt("say much")
    transcript.answer("y" * MEGABYTE)
    transcript.write(world.store)
    return f"claude-code:{transcript.session_id}", turn_id


def test_a_result_of_over_a_megabyte_arrives_whole(world: World) -> None:
    session_id, turn_id = large(world)
    with RawServer(world.env()) as server:
        server.initialize()
        params = {"session_id": session_id, "turn_id": turn_id, "max_bytes": 4 * MEGABYTE}
        server.send(request(1, "read_turn", params))
        texts = [item["text"] for item in server.reply(1)["result"]["items"]]
        assert "y" * MEGABYTE in texts
        assert server.works()


def test_a_client_that_asks_much_and_reads_nothing_does_not_fill_the_memory(world: World) -> None:
    session_id, turn_id = large(world)
    params = {"session_id": session_id, "turn_id": turn_id, "max_bytes": 4 * MEGABYTE}
    with RawServer(world.env()) as server:
        server.initialize()
        server.send(request("first", "read_turn", params))
        server.reply("first")
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        server.reading.clear()
        for number in range(300):
            server.send(request(number, "read_turn", params))
        wait_until(lambda: at_rest(process), what="the server waits for its client")
        assert process.memory_info().rss - before < 150 * MEGABYTE
        server.reading.set()
        answers = [server.message() for _ in range(300)]
        assert {answer["id"] for answer in answers} == set(range(300))
        assert all("result" in answer for answer in answers)


def at_rest(process: psutil.Process) -> bool:
    before = process.cpu_times()
    time.sleep(0.3)
    return process.cpu_times() == before


def test_requests_overtake_one_that_waits_for_a_lock(world: World, source: str, held: None) -> None:
    with RawServer(world.env()) as server:
        server.initialize()
        waiting = {"session_id": source, "to": {"by": 1}, "wait_ms": 600_000}
        server.send(request("waits", "rewind", waiting))
        for number in range(5):
            server.send(request(number, "list_turns", {"session_id": source}))
            assert server.reply(number)["result"]["total_turns"] == 5
        server.send(notification("$/cancelRequest", {"id": "waits"}))
        assert server.error("waits")["code"] == -32800
        assert server.works()


def test_long_work_tells_its_progress_and_is_cancelled_by_it(
    world: World, source: str, held: None
) -> None:
    with RawServer(world.env()) as server:
        server.initialize()
        waiting = {"session_id": source, "to": {"by": 1}, "wait_ms": 600_000}
        server.send(request("waits", "rewind", waiting | {"workDoneToken": 77}))
        begin = server.message()
        assert begin["method"] == "$/progress"
        assert begin["params"]["token"] == 77
        assert begin["params"]["value"]["kind"] == "begin"
        assert begin["params"]["value"]["title"] == "Rewind"
        server.send(notification("window/workDoneProgress/cancel", {"token": 77}))
        assert server.message()["params"] == {"token": 77, "value": {"kind": "end"}}
        assert server.error("waits")["code"] == -32800


def test_a_busy_session_names_its_holder(server: Client, source: str, held: None) -> None:
    with pytest.raises(RpcError) as refused:
        server.rewind(session_id=source, to={"by": 1}, wait_ms=0)
    assert refused.value.kind == "session_busy"
    assert refused.value.data["holder"]["program"] == "another program"


def test_the_end_of_input_cancels_what_would_wait_for_ever(
    world: World, source: str, held: None
) -> None:
    with RawServer(world.env()) as server:
        server.initialize()
        waiting = {"session_id": source, "to": {"by": 1}, "wait_ms": 600_000}
        server.send(request("waits", "rewind", waiting), notification("exit"))
        (answer,) = [message for message in server.rest() if message.get("id") == "waits"]
        assert answer["error"]["code"] == -32800
        assert server.exit_code() == 1


def test_a_change_by_another_program_is_announced(
    world: World, server: Client, transcript: Transcript, source: str
) -> None:
    server.list_sessions()
    server.list_turns(session_id=source)
    transcript.turn("one more")
    transcript.write(world.store)
    change = server.wait_for_notification(
        "turntree/didChangeSessions", lambda params: source in params["session_ids"]
    )
    assert change["reason"] in ("appended", "changed")


def test_two_servers_hear_of_each_others_forks(world: World, source: str) -> None:
    with Client(world.env(), cwd=world.cwd) as one, Client(world.env(), cwd=world.cwd) as two:
        for client in (one, two):
            client.list_sessions()
        child = one.allocate_session_id(agent="claude-code")["session_id"]
        one.fork_session(session_id=source, new_session_id=child)
        for client in (one, two):
            client.wait_for_notification(
                "turntree/didChangeSessions", lambda params: child in params["session_ids"]
            )
