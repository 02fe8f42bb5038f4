"""`workspace/executeCommand`: each method again, for clients without custom requests.

The result is the method's own.  What such a client cannot do is done for it: ids are made,
and what takes something away is shown first and done only when the person agrees.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from server.checking import Wrong, as_object, describe
from server.methods import VERBS, Methods
from server.progress import Progress
from server.transport import Protocol, Request
from session.errors import InvalidParams, SessionNotFound
from session.model import Discarded

PREFIX = "turntree."


class Twins:
    """Answers `workspace/executeCommand`."""

    def __init__(self, protocol: Protocol, methods: Methods) -> None:
        self._protocol = protocol
        self._methods = methods
        self._asking: dict[str, Callable[[dict[str, Any], Progress | None], Awaitable[Any]]] = {
            "rewind": self._rewind,
            "undo": self._undo_or_redo("undo"),
            "redo": self._undo_or_redo("redo"),
            "discard_session": self._discard,
        }

    async def execute(self, request: Request) -> Any:
        """Run the command in `request`; `InvalidParams` when it is none of ours."""
        name, params = _command(request.params)
        token = request.params.get("workDoneToken", params.get("workDoneToken"))
        if token is not None:
            self._protocol.track(request, token, title(name))
        progress = request.progress
        if name in ("fork_session", "repair_session") and params.get("new_session_id") is None:
            params["new_session_id"] = await self._new_session_id(params.get("session_id"))
        if name == "rewind" and params.get("operation_id") is None:
            params["operation_id"] = str(uuid.uuid4())
        ask = self._asking.get(name)
        if ask is None or params.get("dry_run") is True:
            return await self._methods.call(name, params, progress)
        return await ask(params, progress)

    async def _new_session_id(self, source: Any) -> str | None:
        """An id for a child of `source`; None where that is no id, which the method tells."""
        if type(source) is not str or ":" not in source:
            return None
        agent = source.partition(":")[0]
        allocated = await self._methods.call("allocate_session_id", {"agent": agent})
        return str(allocated.session_id)

    async def _rewind(self, params: dict[str, Any], progress: Progress | None) -> Any:
        preview = await self._methods.call("rewind", params | {"dry_run": True}, progress)
        if preview.status != "preview":
            return preview
        kept, removed = preview.turns.kept, preview.turns.removed
        where = f"to turn {kept} of {kept + removed}" if kept else "to its beginning"
        text = (
            f"Rewind {_name(preview.session)} {where}? {_turns(removed)} taken out, from "
            f"{_quoted(preview.dropped_prompt)} on. An undo brings them back."
        )
        if not await self._agreed(text, "Rewind"):
            return preview
        return await self._methods.call("rewind", _as_shown(params, preview), progress)

    def _undo_or_redo(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def ask(params: dict[str, Any], progress: Progress | None) -> Any:
            preview = await self._methods.call(name, params | {"dry_run": True}, progress)
            if preview.status != "preview":
                return preview
            done = await self._summary(preview.operation_id)
            of = "" if preview.session is None else f" in {_name(preview.session)}"
            text = f"{name.capitalize()}{of}: {done}?"
            if not await self._agreed(text, name.capitalize()):
                return preview
            return await self._methods.call(name, _as_shown(params, preview), progress)

        return ask

    async def _discard(self, params: dict[str, Any], progress: Progress | None) -> Any:
        try:
            wanted = {"session_id": params.get("session_id")}
            session = (await self._methods.call("get_session", wanted)).session
        except SessionNotFound:
            session = None  # discarded before: the answer is repeated
        if session is not None and session.state == "staged":
            text = f"Discard the staged {_name(session)}? It cannot be brought back."
            if not await self._agreed(text, "Discard"):
                return Discarded(session.session_id, status="cancelled")
        return await self._methods.call("discard_session", params, progress)

    async def _summary(self, operation_id: str) -> str:
        page = await self._methods.call("list_operations", {"limit": 500})
        found = (o.summary for o in page.operations if o.operation_id == operation_id)
        return next(found, f"operation {operation_id}")

    async def _agreed(self, text: str, action: str) -> bool:
        """Show `text` and wait for the person; a client that cannot show it does not agree."""
        question = types.ShowMessageRequestParams(
            type=types.MessageType.Warning,
            message=text,
            actions=[types.MessageActionItem(action), types.MessageActionItem("Cancel")],
        )
        try:
            chosen = await self._protocol.ask(types.WINDOW_SHOW_MESSAGE_REQUEST, question)
        except JsonRpcException:
            return False
        return type(chosen) is dict and chosen.get("title") == action


def title(method: str) -> str:
    """What a progress bar calls `method`: `Fork session`."""
    return method.replace("_", " ").capitalize()


def _command(params: Any) -> tuple[str, dict[str, Any]]:
    if type(params) is not dict:
        raise InvalidParams(f"params: expected an object, got {describe(params)}", field="params")
    command = params.get("command")
    name = command.removeprefix(PREFIX) if type(command) is str else ""
    if name not in VERBS or name == command:
        raise InvalidParams(
            f"params.command: expected one of {', '.join(PREFIX + verb for verb in VERBS)}; "
            f"got {describe(command)}",
            field="command",
        )
    try:
        return name, dict(as_object(params.get("arguments")))
    except Wrong as wrong:
        raise InvalidParams(
            f"params.arguments: {wrong.message}; a command takes one object", field="arguments"
        ) from None


def _as_shown(params: dict[str, Any], preview: Any) -> dict[str, Any]:
    """`params`, good only for the history that the preview was made of."""
    if params.get("expect_revision") is not None or preview.session is None:
        return params
    return params | {"expect_revision": preview.session.revision}


def _name(session: Any) -> str:
    return f"session “{session.title}”" if session.title else f"session {session.session_id}"


def _turns(count: int) -> str:
    return "1 turn is" if count == 1 else f"{count} turns are"


def _quoted(prompt: str | None) -> str:
    line = " ".join((prompt or "").split())
    return f"“{line if len(line) <= 100 else line[:100] + '…'}”"
