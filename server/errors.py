"""How every failure looks on the wire: `{code, message, data}`, never a traceback."""

from __future__ import annotations

import asyncio
from typing import Any

from attrs import define
from pygls.exceptions import JsonRpcException

from session.errors import Cancelled, InvalidParams, StorageError, TurntreeError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_INITIALIZED = -32002
REQUEST_CANCELLED = -32800

_LONGEST = 4000
"""Characters of a message: it may repeat what a client sent, which has no bound."""


@define(frozen=True)
class ErrorObject:
    """A JSON-RPC error; `unexpected` when the log should hold its traceback."""

    code: int
    message: str
    data: dict[str, Any] | None = None
    unexpected: bool = False

    def on_the_wire(self) -> dict[str, Any]:
        message = self.message
        if len(message) > _LONGEST:
            message = f"{message[:_LONGEST]}…"
        wire: dict[str, Any] = {"code": self.code, "message": message}
        if self.data is not None:
            wire["data"] = self.data
        return wire


def error_of(failure: BaseException, operation: str) -> ErrorObject:
    """What the client is told of `failure`; `operation` is what the log calls the request."""
    if isinstance(failure, InvalidParams):
        # The engine knows a parameter by its name, a client by its place in the message.
        named = failure.message.startswith(f"{failure.fields.get('field')}:")
        message = f"params.{failure.message}" if named else failure.message
        return ErrorObject(failure.code, message, failure.data)
    if isinstance(failure, TurntreeError):
        return ErrorObject(failure.code, failure.message, failure.data)
    if isinstance(failure, (Cancelled, asyncio.CancelledError)):
        return ErrorObject(REQUEST_CANCELLED, "The request was cancelled.", {"kind": "cancelled"})
    if isinstance(failure, JsonRpcException) and failure.code != INTERNAL_ERROR:
        return ErrorObject(failure.code, failure.message)
    if isinstance(failure, OSError):
        typed = StorageError.from_os(failure, "The request")
        return ErrorObject(typed.code, typed.message, typed.data, unexpected=True)
    return ErrorObject(
        INTERNAL_ERROR,
        f"Internal error. The log holds the details under operation {operation}.",
        {"kind": "internal", "operation": operation},
        unexpected=True,
    )
