"""JSON-RPC as a real server process speaks it: each request gets exactly one reply."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.pipes import (
    INITIALIZE,
    NOTHING,
    SHUTDOWN,
    RawServer,
    frame,
    notification,
    request,
    small,
)

DEEP = b'{"jsonrpc":"2.0","id":1,"method":"list_sessions","params":%b%b}' % (
    b'{"a":' * 100_000 + b"1",
    b"}" * 100_000,
)


def test_initialize_says_what_the_server_is_and_can(raw: RawServer) -> None:
    result = raw.initialize()
    assert result["serverInfo"] == {"name": "turntree", "version": version("turntree")}
    ours = result["capabilities"]["experimental"]["turntree"]
    assert ours["protocol"] == 1
    commands = result["capabilities"]["executeCommandProvider"]["commands"]
    assert commands == [f"turntree.{method}" for method in ours["methods"]]
    assert {"list_sessions", "fork_session", "rewind", "undo"} <= set(ours["methods"])
    claude = next(agent for agent in ours["agents"] if agent["agent"] == "claude-code")
    assert set(claude) == {"agent", "available", "store", "capabilities"}
    assert set(claude["capabilities"]) == {"fork", "rewind", "undo", "append", "restore_files"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"", -32700),
        (b"not json", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"list_sessions","params":{"query":"\xff"}}', -32700),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"list_sessions"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"list_sessions","params":{"limit":NaN}}', -32700),
        (DEEP, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"list_sessions"}]', -32600),
        (b"3", -32600),
        (b'"text"', -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"list_sessions"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"list_sessions"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"list_sessions"}', -32600),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"list_sessions"}', -32700),
        (b'{"jsonrpc":"2.0","method":5}', -32600),
    ],
)
def test_what_is_no_message_is_answered_without_an_id(
    lasting: RawServer, body: bytes, code: int
) -> None:
    lasting.send(frame(body))
    assert lasting.error(None)["code"] == code
    assert lasting.works()


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "list_sessions"},
        {"jsonrpc": "1.0", "id": 1, "method": "list_sessions"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": None},
        {"jsonrpc": "2.0", "id": 1, "method": ["list_sessions"]},
    ],
)
def test_a_message_with_an_id_that_is_no_request_is_answered_with_it(
    lasting: RawServer, message: Any
) -> None:
    lasting.send(frame(message))
    assert lasting.error(1)["code"] == -32600
    assert lasting.works()


@pytest.mark.parametrize("method", ["no_such_method", "", "turntree/list_sessions", "$/unknown"])
def test_an_unknown_method_is_not_found(lasting: RawServer, method: str) -> None:
    lasting.send(request(1, method, {}))
    assert lasting.error(1)["code"] == -32601


@pytest.mark.parametrize("method", ["initialized", "textDocument/didOpen", "exit"])
def test_a_notification_sent_as_a_request_is_not_found(lasting: RawServer, method: str) -> None:
    lasting.send(request(1, method, {}))
    assert lasting.error(1)["code"] == -32601
    assert lasting.works()


@pytest.mark.parametrize("params", [NOTHING, None, {}, [], [None], [{}]])
def test_params_that_say_nothing_are_an_empty_object(lasting: RawServer, params: Any) -> None:
    lasting.send(request(1, "list_sessions", params))
    assert lasting.reply(1)["result"]["sessions"] == []


def test_a_list_of_one_object_is_that_object(lasting: RawServer) -> None:
    lasting.send(request(1, "allocate_session_id", [{"agent": "claude-code"}]))
    assert lasting.reply(1)["result"]["session_id"].startswith("claude-code:")


@pytest.mark.parametrize("params", [5, "text", True, [1], [{}, {}]])
def test_params_that_are_no_object_are_invalid(lasting: RawServer, params: Any) -> None:
    lasting.send(request(1, "list_sessions", params))
    error = lasting.error(1)
    assert error["code"] == -32602
    assert error["data"] == {"kind": "invalid_params", "field": "params"}


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("list_sessions", {"limit": 0}, "limit"),
        ("list_sessions", {"limit": "5"}, "limit"),
        ("list_sessions", {"kinds": ["main", "other"]}, "kinds[1]"),
        ("list_sessions", {"agents": ["emacs"]}, "agents[0]"),
        ("get_session", {}, "session_id"),
        ("get_session", {"session_id": 7}, "session_id"),
        ("allocate_session_id", {"agent": "emacs"}, "agent"),
        ("rewind", {"session_id": "a", "to": {"turn_number": True}}, "to.turn_number"),
        ("undo", {}, "session_id"),
    ],
)
def test_a_bad_parameter_is_named(lasting: RawServer, method: str, params: Any, field: str) -> None:
    lasting.send(request(1, method, params))
    error = lasting.error(1)
    assert error["code"] == -32602
    assert error["data"] == {"kind": "invalid_params", "field": field}
    assert error["message"].startswith(f"params.{field}: ")


@pytest.mark.parametrize("request_id", ["text", "", 0, -1, 2**53, "\N{PILE OF POO}", 1.5])
def test_an_id_comes_back_as_it_was_sent(lasting: RawServer, request_id: Any) -> None:
    lasting.send(small(request_id))
    assert lasting.reply(request_id)["id"] == request_id


def test_an_id_too_large_for_a_machine_word_keeps_its_digits(lasting: RawServer) -> None:
    lasting.send(small(10**30 + 1))
    assert lasting.reply(10**30 + 1)["id"] == 10**30 + 1


def test_the_same_id_twice_at_a_time_is_answered_twice(lasting: RawServer) -> None:
    lasting.send(request(1, "list_sessions"), request(1, "list_sessions"))
    assert "result" in lasting.reply(1)
    assert "result" in lasting.reply(1)
    assert lasting.works()


def test_half_a_surrogate_pair_is_text_like_any_other(lasting: RawServer) -> None:
    body = rb'{"jsonrpc":"2.0","id":1,"method":"get_session","params":{"session_id":"\ud83d"}}'
    lasting.send(frame(body))
    assert lasting.error(1)["code"] != -32700
    assert lasting.works()


def test_members_that_no_one_knows_are_ignored(lasting: RawServer) -> None:
    lasting.send(
        request(
            1,
            "allocate_session_id",
            {"agent": "claude-code", "_meta": {"class": 1}},
            trace="x",
            **{"from": 2},
        )
    )
    assert "result" in lasting.reply(1)


def test_a_frame_inside_the_params_is_only_a_value(lasting: RawServer) -> None:
    inner = {"jsonrpc": "2.0", "id": 9, "method": "exit", "type_name": "X"}
    params = {"agent": "claude-code", "recorded": [inner, inner]}
    lasting.send(request(1, "allocate_session_id", params))
    assert "result" in lasting.reply(1)
    assert lasting.works()


@pytest.mark.parametrize(
    "sent",
    [
        notification("no_such_method", {}),
        notification("fork_session", {"session_id": 5}),
        notification("list_sessions"),
        notification("$/setTrace", {"value": "off"}),
        notification("$/setTrace", {"value": "no such level"}),
        notification("textDocument/didOpen", {}),
        notification("textDocument/didChange", [None]),
        notification("$/cancelRequest", {"id": "nobody"}),
        notification("$/cancelRequest", {}),
        notification("$/cancelRequest", 5),
        notification("$/cancelRequest"),
        notification("window/workDoneProgress/cancel", {"token": "nobody"}),
        notification("window/workDoneProgress/cancel"),
        frame({"jsonrpc": "2.0", "id": 5, "result": 1}),
        frame({"jsonrpc": "2.0", "id": "nobody", "error": {"code": 1, "message": "no"}}),
        frame({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no"}}),
        frame({"jsonrpc": "2.0", "id": ["x"], "result": None}),
    ],
)
def test_what_is_no_request_is_never_answered(lasting: RawServer, sent: bytes) -> None:
    lasting.send(sent)
    assert lasting.works()


def test_a_response_with_the_id_of_a_running_request_does_not_end_it(lasting: RawServer) -> None:
    lasting.send(
        request(1, "list_sessions"), frame({"jsonrpc": "2.0", "id": 1, "result": "stolen"})
    )
    assert lasting.reply(1)["result"]["sessions"] == []


def test_a_request_that_is_cancelled_before_it_began_is_answered_as_cancelled(
    lasting: RawServer,
) -> None:
    lasting.send(request(1, "list_sessions") + notification("$/cancelRequest", {"id": 1}))
    error = lasting.error(1)
    assert error["code"] == -32800
    assert lasting.works()


def test_cancelling_text_does_not_cancel_the_number(lasting: RawServer) -> None:
    lasting.send(request(1, "list_sessions") + notification("$/cancelRequest", {"id": "1"}))
    assert "result" in lasting.reply(1)


def test_turntrees_methods_are_answered_without_initialize(raw: RawServer) -> None:
    raw.send(small(1), request(2, "list_sessions"))
    assert {raw.message()["id"], raw.message()["id"]} == {1, 2}


def test_a_second_initialize_is_an_invalid_request(lasting: RawServer) -> None:
    lasting.send(INITIALIZE)
    assert lasting.error("initialize")["code"] == -32600
    assert lasting.works()


@pytest.mark.parametrize("params", [NOTHING, None, [], {}, {"capabilities": 5}, 5])
def test_initialize_asks_for_nothing(raw: RawServer, params: Any) -> None:
    raw.send(request(1, "initialize", params))
    assert raw.reply(1)["result"]["serverInfo"]["name"] == "turntree"
    raw.send(notification("$/setTrace", {"value": "off"}))
    assert raw.works()


def test_after_shutdown_requests_are_refused_and_notifications_dropped(raw: RawServer) -> None:
    raw.initialize()
    raw.send(SHUTDOWN, small(1), request(2, "no_such_method"), notification("list_sessions"))
    answers = {answer["id"]: answer for answer in (raw.message() for _ in range(3))}
    assert answers["shutdown"]["result"] is None
    assert answers[1]["error"]["code"] == -32600
    assert answers[2]["error"]["code"] == -32600
    raw.send(frame(b"{"))
    assert raw.error(None)["code"] == -32700


def test_no_reply_to_any_of_it_holds_a_traceback(raw: RawServer) -> None:
    raw.send(INITIALIZE, frame(DEEP), frame(b"{"), frame([]), request(1, "get_session", {}))
    raw.send(request(2, "get_session", {"session_id": "claude-code:nobody"}), SHUTDOWN)
    raw.close_input()
    assert "Traceback" not in json.dumps(raw.rest())
    assert raw.stderr() == ""


MIX: list[tuple[bytes, Any]] = [
    (small("at once"), "at once"),
    (request("in a task", "list_sessions"), "in a task"),
    (request("unknown", "no_such_method"), "unknown"),
    (request("wrong", "get_session", {"session_id": 5}), "wrong"),
    (request("twin", "workspace/executeCommand", {"command": "turntree.list_sessions"}), "twin"),
    (request("cut", "list_sessions") + notification("$/cancelRequest", {"id": "cut"}), "cut"),
    (frame(b"{"), None),
    (frame([]), None),
    (b"X-Nothing: here\r\n\r\n", None),
    (b"Content-Length: -1\r\n\r\n", None),
    (notification("no_such_notification"), NOTHING),
    (frame({"jsonrpc": "2.0", "id": "nobody", "result": 1}), NOTHING),
    (b"\r\n", NOTHING),
]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    pieces=st.lists(st.sampled_from(MIX), max_size=15),
    cuts=st.lists(st.integers(1, 200), max_size=20),
)
def test_any_mix_in_any_fragments_gets_one_reply_for_each_request(
    lasting: RawServer, pieces: list[tuple[bytes, Any]], cuts: list[int]
) -> None:
    whole = b"".join(sent for sent, _ in pieces) + small("last")
    for cut in cuts:
        lasting.send(whole[:cut])
        whole = whole[cut:]
    lasting.send(whole)
    expected = [reply for _, reply in pieces if reply is not NOTHING] + ["last"]
    answered = [lasting.message()["id"] for _ in expected]
    assert sorted(answered, key=str) == sorted(expected, key=str)
    assert lasting.works()
