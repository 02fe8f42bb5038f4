"""The one door of replies, with handlers that fail, hang, report and ask."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from server.process import TurntreeServer
from server.stdio import HIGH_WATER
from server.transport import Handler, Request
from server.twins import title
from session.errors import Cancelled, SessionNotFound
from session.model import Allocated
from tests.server.inside import served
from tests.server.pipes import frame, notification, request
from tests.world import World


@pytest.fixture(autouse=True)
def own_world(world: World) -> Iterator[None]:
    """Each test has a store and a log of its own, and leaves no handler behind."""
    handlers = list(logging.getLogger().handlers)
    yield
    for handler in set(logging.getLogger().handlers) - set(handlers):
        logging.getLogger().removeHandler(handler)
        handler.close()


def add(server: TurntreeServer, name: str, handler: Handler) -> None:
    server.protocol.methods = {**server.protocol.methods, name: handler}


async def until_cancelled(_: Request) -> None:
    await asyncio.Event().wait()


async def test_an_unexpected_failure_is_told_without_traceback_and_logged_with_it(
    world: World,
) -> None:
    async def boom(_: Request) -> None:
        raise ZeroDivisionError("a secret")

    async with served() as (server, peer):
        add(server, "boom", boom)
        peer.send(request(1, "boom", {}))
        reply = await peer.reply(1)
    error = reply["error"]
    assert error["code"] == -32603
    assert error["data"]["kind"] == "internal"
    assert "secret" not in json.dumps(reply)
    log = (world.state / "logs" / "turntree.log").read_text()
    line = next(line for line in log.splitlines() if "boom failed" in line)
    assert f" {error['data']['operation']} " in line
    assert "ZeroDivisionError: a secret" in log


async def test_a_failure_of_the_file_system_that_no_one_foresaw_is_a_storage_error() -> None:
    async def full(_: Request) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")

    async with served() as (server, peer):
        add(server, "full", full)
        peer.send(request(1, "full", {}))
        error = (await peer.reply(1))["error"]
    assert error["code"] == 1015
    assert error["data"] == {
        "kind": "storage_error",
        "path": "/somewhere",
        "errno": errno.ENOSPC,
    }


async def test_a_result_that_is_no_json_is_one_error_reply() -> None:
    async def odd(_: Request) -> Any:
        return {"value": object()}

    async with served() as (server, peer):
        add(server, "odd", odd)
        peer.send(request(1, "odd", {}), request(2, "odd", {}))
        assert (await peer.reply(1))["error"]["code"] == -32603
        assert (await peer.reply(2))["error"]["code"] == -32603


async def test_an_error_whose_data_is_no_json_is_told_without_it() -> None:
    async def odd(_: Request) -> None:
        raise SessionNotFound("nobody", session_id=object())

    async with served() as (server, peer):
        add(server, "odd", odd)
        peer.send(request(1, "odd", {}))
        assert (await peer.reply(1))["error"] == {"code": 1001, "message": "nobody"}


async def test_a_path_that_is_no_utf_8_is_shown_as_well_as_it_can_be() -> None:
    async def path(_: Request) -> Any:
        return Allocated("caf\udce9")

    async with served() as (server, peer):
        add(server, "path", path)
        peer.send(request(1, "path", {}))
        assert (await peer.reply(1))["result"] == {"session_id": "caf\N{REPLACEMENT CHARACTER}"}


async def test_a_running_request_is_cancelled() -> None:
    async with served() as (server, peer):
        add(server, "hang", until_cancelled)
        peer.send(request("a", "hang", {}), request(1, "hang", {}))
        await asyncio.sleep(0.05)
        peer.send(notification("$/cancelRequest", {"id": "a"}))
        error = (await peer.reply("a"))["error"]
        assert error["code"] == -32800
        assert error["data"] == {"kind": "cancelled"}
        peer.send(notification("$/cancelRequest", {"id": 1}))
        assert (await peer.reply(1))["error"]["code"] == -32800


async def test_work_that_stopped_for_its_cancelled_request_is_answered_as_cancelled() -> None:
    async def stopped(_: Request) -> None:
        raise Cancelled

    async with served() as (server, peer):
        add(server, "stopped", stopped)
        peer.send(request(1, "stopped", {}))
        assert (await peer.reply(1))["error"]["code"] == -32800


async def test_work_past_its_publish_step_answers_its_result_though_cancelled() -> None:
    async def published(_: Request) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    async with served() as (server, peer):
        add(server, "published", published)
        peer.send(request(1, "published", {}))
        await asyncio.sleep(0.05)
        peer.send(notification("$/cancelRequest", {"id": 1}))
        assert (await peer.reply(1))["result"] == "done"


async def test_a_request_is_answered_once_whatever_tries_to_answer_it_again() -> None:
    kept: list[Request] = []

    async def keep(one: Request) -> str:
        kept.append(one)
        return "first"

    async with served() as (server, peer):
        add(server, "keep", keep)
        peer.send(request(1, "keep", {}))
        assert (await peer.reply(1))["result"] == "first"
        server.protocol.answer(kept[0], "second")
        server.protocol.fail(kept[0], RuntimeError("third"))
        peer.send(request(2, "keep", {}))
        assert (await peer.reply(2))["result"] == "first"


async def test_progress_of_a_thread_begins_after_a_second_and_ends_before_the_reply() -> None:
    async with served() as (server, peer):
        go_on = threading.Event()

        def work(one: Request) -> str:
            assert one.progress is not None
            for done in range(50_000):  # far more often than a client wants to hear
                one.progress.report(done, 100_000, "copying")
            go_on.wait(60)
            one.progress.report(10, 100, "copying again")
            return "done"

        async def slow(one: Request) -> Any:
            server.protocol.track(one, one.params["workDoneToken"], title("slow_work"))
            return await asyncio.to_thread(work, one)

        add(server, "slow", slow)
        peer.send(request(1, "slow", {"workDoneToken": "mine"}))
        begin = await peer.message()
        assert begin["method"] == "$/progress"
        assert begin["params"] == {
            "token": "mine",
            "value": {
                "kind": "begin",
                "title": "Slow work",
                "cancellable": True,
                "message": "copying",
                "percentage": 49,
            },
        }
        go_on.set()
        values = []
        while "id" not in (message := await peer.message()):
            values.append(message["params"]["value"])
        assert values[-1] == {"kind": "end"}
        assert len(values) <= 2
        # A second pass over the same bytes does not take the bar back.
        assert all(value.get("percentage", 49) == 49 for value in values)
        assert message["result"] == "done"


async def test_short_work_tells_no_progress() -> None:
    async with served() as (_, peer):
        peer.send(request(1, "get_session", {"session_id": "", "workDoneToken": 7}))
        await peer.reply(1)


@pytest.mark.parametrize("token", [True, 1.5, {}, []])
async def test_a_token_is_text_or_a_whole_number(token: Any) -> None:
    async with served() as (_, peer):
        peer.send(request(1, "get_session", {"session_id": "a", "workDoneToken": token}))
        error = (await peer.reply(1))["error"]
        assert error["code"] == -32602
        assert error["data"]["field"] == "workDoneToken"


async def test_cancelling_the_progress_cancels_the_request() -> None:
    async with served() as (server, peer):

        async def slow(one: Request) -> None:
            server.protocol.track(one, one.params["workDoneToken"], "slow")
            await asyncio.Event().wait()

        add(server, "slow", slow)
        peer.send(request(1, "slow", {"workDoneToken": "mine"}))
        await asyncio.sleep(0.05)
        peer.send(notification("window/workDoneProgress/cancel", {"token": "mine"}))
        assert (await peer.reply(1))["error"]["code"] == -32800


def asks(server: TurntreeServer) -> Handler:
    async def ask(_: Request) -> Any:
        question = types.ShowMessageRequestParams(types.MessageType.Info, "well?")
        return await server.protocol.ask(types.WINDOW_SHOW_MESSAGE_REQUEST, question)

    return ask


async def test_a_question_is_answered_late_and_other_requests_are_not_kept_waiting() -> None:
    async with served() as (server, peer):
        add(server, "ask", asks(server))
        peer.send(request(1, "ask", {}))
        question = await peer.message()
        assert question["method"] == "window/showMessageRequest"
        assert question["params"] == {"type": 3, "message": "well?"}
        for number in range(2, 5):
            peer.send(request(number, "no_such_method", {}))
            await peer.reply(number)
        peer.send(frame({"jsonrpc": "2.0", "id": question["id"], "result": {"title": "Yes"}}))
        assert (await peer.reply(1))["result"] == {"title": "Yes"}


async def test_a_cancelled_question_is_withdrawn_and_its_late_answer_ignored() -> None:
    async with served() as (server, peer):
        add(server, "ask", asks(server))
        peer.send(request(1, "ask", {}))
        question = await peer.message()
        peer.send(notification("$/cancelRequest", {"id": 1}))
        withdrawn = await peer.message()
        assert withdrawn["method"] == "$/cancelRequest"
        assert withdrawn["params"] == {"id": question["id"]}
        assert (await peer.reply(1))["error"]["code"] == -32800
        peer.send(frame({"jsonrpc": "2.0", "id": question["id"], "result": {"title": "Yes"}}))
        peer.send(request(2, "no_such_method", {}))
        assert (await peer.reply(2))["error"]["code"] == -32601


async def test_shutdown_lets_running_requests_finish_and_ends_open_questions() -> None:
    async with served() as (server, peer):
        finish = asyncio.Event()

        async def slow(_: Request) -> str:
            await finish.wait()
            return "finished"

        add(server, "slow", slow)
        add(server, "ask", asks(server))
        peer.send(request(1, "slow", {}), request(2, "ask", {}))
        assert (await peer.message())["method"] == "window/showMessageRequest"
        peer.send(request(3, "shutdown"), request(4, "slow", {}))
        assert (await peer.reply(4))["error"]["code"] == -32600
        assert "error" in await peer.reply(2)
        finish.set()
        assert (await peer.reply(1))["result"] == "finished"
        assert (await peer.reply(3))["result"] is None


async def test_a_client_that_does_not_read_is_not_read_from_either() -> None:
    megabyte = "y" * (1 << 20)

    async def large(_: Request) -> str:
        return megabyte

    async with served(reading=False) as (server, peer):
        add(server, "large", large)
        for number in range(40):
            peer.send(request(number, "large", {}))
            await asyncio.sleep(0.005)
        stdio = server.protocol.stdio
        assert stdio.congested
        assert stdio._pending_bytes <= HIGH_WATER + 2 * len(megabyte)
        peer.start_reading()
        answered = {(await peer.message())["id"] for _ in range(40)}
        assert answered == set(range(40))
        assert not stdio.congested


async def test_a_feature_registered_with_pygls_gets_its_typed_parameters() -> None:
    async with served() as (server, peer):

        @server.feature(types.TEXT_DOCUMENT_HOVER)
        async def hover(params: types.HoverParams) -> Any:
            return {"contents": f"{params.text_document.uri}:{params.position.line}"}

        at = {"textDocument": {"uri": "file:///a"}, "position": {"line": 3, "character": 0}}
        peer.send(request(1, "textDocument/hover", at))
        assert (await peer.reply(1))["error"]["code"] == -32002
        peer.send(request(2, "initialize", {"capabilities": {}}))
        await peer.reply(2)
        peer.send(request(3, "textDocument/hover", at), request(4, "textDocument/hover", {}))
        assert (await peer.reply(3))["result"] == {"contents": "file:///a:3"}
        assert (await peer.reply(4))["error"]["code"] == -32602


def test_the_log_is_private_and_says_method_duration_and_outcome(world: World) -> None:
    async def talk() -> None:
        async with served() as (_, peer):
            peer.send(request(1, "no_such_method", {}))
            await peer.reply(1)

    asyncio.run(talk())
    folder = world.state / "logs"
    path: Path = folder / "turntree.log"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    line = next(line for line in path.read_text().splitlines() if "no_such_method" in line)
    assert line.endswith(" ms -32601 -")
