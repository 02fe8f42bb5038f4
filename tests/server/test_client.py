"""The ordinary path, with pygls' own client as pytest-lsp drives it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.builders import Transcript
from tests.client import PATIENCE, turntree
from tests.world import World


@pytest_asyncio.fixture(params=["neovim", "visual-studio-code"])
async def client(request: pytest.FixtureRequest, world: World) -> AsyncIterator[LanguageClient]:
    """An editor's client, with that editor's capabilities, and a server in the world."""
    config = ClientServerConfig(server_command=[turntree(), "serve"], server_env=world.env())
    client = await config.start()
    assert isinstance(client, LanguageClient)
    params = types.InitializeParams(capabilities=client_capabilities(request.param))
    initialized = await client.initialize_session(params)
    assert initialized.server_info is not None
    assert initialized.server_info.name == "turntree"
    yield client
    await client.shutdown_session()
    await client.stop()


@pytest.fixture
def source(world: World) -> str:
    """A session of five turns; its id."""
    transcript = Transcript(cwd=str(world.cwd), seed=5)
    transcript.turns(5)
    transcript.write(world.store)
    return f"claude-code:{transcript.session_id}"


async def ask(client: LanguageClient, method: str, **params: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await client.protocol.send_request_async(method, params)


async def test_an_editor_lists_forks_rewinds_and_undoes(
    client: LanguageClient, source: str
) -> None:
    listed = await ask(client, "list_sessions")
    assert [session.session_id for session in listed.sessions] == [source]
    turns = (await ask(client, "list_turns", session_id=source)).turns
    assert [turn.turn_number for turn in turns] == [1, 2, 3, 4, 5]

    child = str(uuid.uuid4())
    forked = await ask(
        client,
        "fork_session",
        session_id=source,
        new_session_id=child,
        at={"through_turn": turns[1].turn_id},
    )
    assert forked.status == "forked"
    assert forked.turns.kept == 2
    assert forked.resume.command == ["claude", "--resume", child]

    rewound = await ask(client, "rewind", session_id=source, to={"by": 2})
    assert rewound.status == "rewound"
    assert (await ask(client, "list_turns", session_id=source)).total_turns == 3
    undone = await ask(client, "undo", operation_id=rewound.operation_id)
    assert undone.status == "undone"
    assert (await ask(client, "list_turns", session_id=source)).total_turns == 5
    kinds = [o.kind for o in (await ask(client, "list_operations")).operations]
    assert {"fork", "rewind", "undo"} <= set(kinds)


async def test_an_editor_gets_a_typed_error(client: LanguageClient) -> None:
    missing = f"claude-code:{uuid.uuid4()}"
    with pytest.raises(JsonRpcException) as refused:
        await ask(client, "get_session", session_id=missing)
    assert refused.value.code == 1001
    assert refused.value.data["kind"] == "session_not_found"
    assert refused.value.data["session_id"] == missing


async def test_an_editor_without_requests_of_its_own_uses_commands(
    client: LanguageClient, source: str
) -> None:
    asked: list[types.ShowMessageRequestParams] = []

    @client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
    async def agree(params: types.ShowMessageRequestParams) -> types.MessageActionItem:
        asked.append(params)
        return types.MessageActionItem("Rewind")

    argument = {"session_id": source, "to": {"turn_number": 1}}
    params = types.ExecuteCommandParams("turntree.rewind", [argument])
    result = await client.workspace_execute_command_async(params)
    assert result is not None
    assert (await ask(client, "get_session", session_id=source)).session.turn_count == 1
    assert "to turn 1 of 5" in asked[0].message


async def test_an_editor_hears_of_changes(client: LanguageClient, source: str) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    @client.feature("turntree/didChangeSessions")
    def changed(params: Any) -> None:
        heard.put_nowait(params)

    await ask(client, "list_sessions")
    await ask(client, "rewind", session_id=source, to={"by": 1})
    async with asyncio.timeout(PATIENCE):
        while (change := await heard.get()).reason != "rewound":
            pass
    assert change.session_ids == [source]
