"""`workspace/executeCommand`: the methods for clients that have no requests of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import Transcript
from tests.client import Client, RpcError
from tests.server.pipes import RawServer, frame, notification, request
from tests.world import World

ASKING = "window/showMessageRequest"


@pytest.fixture
def source(world: World) -> str:
    """A session of five turns; its id."""
    transcript = Transcript(cwd=str(world.cwd), seed=3)
    transcript.turns(5)
    transcript.write(world.store)
    return f"claude-code:{transcript.session_id}"


@contextlib.contextmanager
def answering(world: World, answer: Any) -> Iterator[Client]:
    with Client(world.env(), cwd=world.cwd, answers={ASKING: answer}) as client:
        yield client


def command(client: Client, name: str, *arguments: Any) -> Any:
    params = {"command": f"turntree.{name}", "arguments": list(arguments)}
    return client.call("workspace/executeCommand", params)


def prompts(client: Client, session_id: str) -> list[str]:
    return [turn["prompt"] for turn in client.list_turns(session_id=session_id)["turns"]]


def test_a_command_answers_what_its_method_answers(server: Client, source: str) -> None:
    assert command(server, "list_turns", {"session_id": source}) == server.list_turns(
        session_id=source
    )


@pytest.mark.parametrize("arguments", [None, [], [None], [{}], [[]]])
def test_a_command_without_an_argument_gets_an_empty_object(
    lasting: RawServer, arguments: Any
) -> None:
    params = {"command": "turntree.list_sessions", "arguments": arguments}
    lasting.send(request(1, "workspace/executeCommand", params))
    assert lasting.reply(1)["result"]["sessions"] == []


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"command": "turntree.no_such_method"}, "command"),
        ({"command": "list_sessions"}, "command"),
        ({"command": 5}, "command"),
        ({}, "command"),
        ({"command": "turntree.list_turns", "arguments": [{}, {}]}, "arguments"),
        ({"command": "turntree.list_turns", "arguments": ["text"]}, "arguments"),
        ({"command": "turntree.list_turns", "arguments": [{}]}, "session_id"),
        ({"command": "turntree.fork_session", "arguments": [{}]}, "session_id"),
        ({"command": "turntree.discard_session", "arguments": [{}]}, "session_id"),
    ],
)
def test_a_bad_command_names_the_field(lasting: RawServer, params: Any, field: str) -> None:
    lasting.send(request(1, "workspace/executeCommand", params))
    error = lasting.error(1)
    assert error["code"] == -32602
    assert error["data"] == {"kind": "invalid_params", "field": field}


def test_a_fork_gets_an_id_when_it_is_given_none(server: Client, source: str) -> None:
    forked = command(server, "fork_session", {"session_id": source, "at": {"turn_number": 2}})
    assert forked["status"] == "forked"
    assert prompts(server, forked["session"]["session_id"]) == ["question 1", "question 2"]


def test_a_fork_without_an_id_of_a_session_that_is_none_is_the_engines_error(
    server: Client,
) -> None:
    for session_id, kind in (("nobody", "invalid_params"), ("pi:nobody", "unsupported")):
        with pytest.raises(RpcError) as refused:
            command(server, "fork_session", {"session_id": session_id})
        assert refused.value.kind == kind


def test_a_rewind_is_shown_in_words_and_done_when_the_person_agrees(
    world: World, source: str
) -> None:
    with answering(world, {"title": "Rewind"}) as client:
        result = command(client, "rewind", {"session_id": source, "to": {"turn_number": 2}})
        assert result["status"] == "rewound"
        assert result["operation_id"]
        assert prompts(client, source) == ["question 1", "question 2"]
        (question,) = client.asked
        text = question["params"]["message"]
        assert "to turn 2 of 5" in text
        assert "3 turns are taken out" in text
        assert "question 3" in text
        titles = [action["title"] for action in question["params"]["actions"]]
        assert titles == ["Rewind", "Cancel"]


@pytest.mark.parametrize("answer", [None, {"title": "Cancel"}, "Rewind", {"title": None}])
def test_a_rewind_that_is_dismissed_answers_the_preview_and_writes_nothing(
    world: World, source: str, answer: Any
) -> None:
    with answering(world, answer) as client:
        result = command(client, "rewind", {"session_id": source, "to": {"by": 1}})
        assert result["status"] == "preview"
        assert len(prompts(client, source)) == 5


def test_a_dry_run_and_a_rewind_to_where_it_is_ask_nothing(world: World, source: str) -> None:
    with answering(world, None) as client:
        to = {"session_id": source, "to": {"turn_number": 2}, "dry_run": True}
        assert command(client, "rewind", to)["status"] == "preview"
        here = {"session_id": source, "to": {"turn_number": 5}}
        assert command(client, "rewind", here)["status"] == "already_at_target"
        assert client.asked == []


def test_undo_and_redo_are_asked_for_too(world: World, source: str) -> None:
    with answering(world, None) as client:
        client.rewind(session_id=source, to={"turn_number": 2})
        assert command(client, "undo", {"session_id": source})["status"] == "preview"
        assert len(prompts(client, source)) == 2
        client.answers[ASKING] = {"title": "Undo"}
        assert command(client, "undo", {"session_id": source})["status"] == "undone"
        assert len(prompts(client, source)) == 5
        client.answers[ASKING] = {"title": "Redo"}
        assert command(client, "redo", {"session_id": source})["status"] == "redone"
        assert len(prompts(client, source)) == 2
        assert [asked["params"]["message"] for asked in client.asked] == [
            "Undo in session “question 1”: rewind to 2 turns, 3 dropped?",
            "Undo in session “question 1”: rewind to 2 turns, 3 dropped?",
            "Redo in session “question 1”: rewind to 2 turns, 3 dropped?",
        ]


def test_a_staged_session_is_discarded_only_when_the_person_agrees(
    world: World, source: str
) -> None:
    with answering(world, None) as client:
        staged = command(client, "fork_session", {"session_id": source, "stage": True})
        child = staged["session"]["session_id"]
        kept = command(client, "discard_session", {"session_id": child})
        assert kept == {"session_id": child, "status": "cancelled"}
        assert client.get_session(session_id=child)["session"]["state"] == "staged"
        client.answers[ASKING] = {"title": "Discard"}
        gone = command(client, "discard_session", {"session_id": child})
        assert gone == {"session_id": child, "status": "discarded"}
        again = command(client, "discard_session", {"session_id": child})
        assert again == gone
        assert len(client.asked) == 2


def test_discarding_a_session_that_is_not_staged_asks_nothing(world: World, source: str) -> None:
    with answering(world, {"title": "Discard"}) as client:
        with pytest.raises(RpcError) as refused:
            command(client, "discard_session", {"session_id": source})
        assert refused.value.kind == "not_staged"
        assert client.asked == []


def rewinding(source: str) -> bytes:
    arguments = [{"session_id": source, "to": {"turn_number": 2}}]
    params = {"command": "turntree.rewind", "arguments": arguments}
    return request("rewind", "workspace/executeCommand", params)


def test_a_client_that_refuses_the_question_has_not_agreed(world: World, source: str) -> None:
    with RawServer(world.env()) as server:
        server.initialize()
        server.send(rewinding(source))
        question = server.message()
        refusal = {"code": -32601, "message": "no such method"}
        server.send(frame({"jsonrpc": "2.0", "id": question["id"], "error": refusal}))
        assert server.reply("rewind")["result"]["status"] == "preview"


def test_the_server_works_on_while_a_person_thinks(world: World, source: str) -> None:
    with RawServer(world.env()) as server:
        server.initialize()
        server.send(rewinding(source))
        question = server.message()
        for number in range(20):
            server.send(request(number, "list_turns", {"session_id": source}))
            assert server.reply(number)["result"]["total_turns"] == 5
        yes = {"jsonrpc": "2.0", "id": question["id"], "result": {"title": "Rewind"}}
        server.send(frame(yes))
        assert server.reply("rewind")["result"]["status"] == "rewound"


def test_a_history_that_changed_while_the_person_thought_is_not_rewound(
    world: World, source: str
) -> None:
    with RawServer(world.env()) as server:
        server.initialize()
        server.send(rewinding(source))
        question = server.message()
        server.send(request(1, "rewind", {"session_id": source, "to": {"turn_number": 4}}))
        assert server.reply(1)["result"]["status"] == "rewound"
        yes = {"jsonrpc": "2.0", "id": question["id"], "result": {"title": "Rewind"}}
        server.send(frame(yes))
        assert server.error("rewind")["data"]["kind"] == "stale_revision"


def test_cancelling_a_command_takes_its_question_back(world: World, source: str) -> None:
    with RawServer(world.env()) as server:
        server.initialize()
        server.send(rewinding(source))
        question = server.message()
        server.send(notification("$/cancelRequest", {"id": "rewind"}))
        withdrawn = server.message()
        assert withdrawn["method"] == "$/cancelRequest"
        assert withdrawn["params"] == {"id": question["id"]}
        assert server.error("rewind")["code"] == -32800
        server.send(request(1, "list_turns", {"session_id": source}))
        assert server.reply(1)["result"]["total_turns"] == 5


def test_input_that_ends_before_the_person_agreed_changes_nothing(
    world: World, source: str
) -> None:
    with RawServer(world.env()) as server:
        server.initialize()
        server.send(rewinding(source))
        server.message()
        server.close_input()
        (answer,) = [message for message in server.rest() if message.get("id") == "rewind"]
        assert answer["result"]["status"] == "preview"
        assert server.exit_code() == 1
