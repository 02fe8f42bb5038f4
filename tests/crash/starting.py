"""Who comes after a process that died: a server that opens the store late, or this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self

from server import messages
from server.checking import read
from server.encoding import encode
from server.methods import VERBS
from session.errors import TurntreeError
from session.service import Service
from tests.client import Client, RpcError
from tests.world import World


def standby(world: World) -> Client:
    """A server process to which nothing was sent: it opens the store with its first message.

    So it loads while another process works, and is fresh all the same.
    """
    return Client(world.env(), initialize=False)


def initialize(client: Client) -> None:
    client.call("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.notify("initialized", {})


class Heir:
    """This process as the one that comes next: opens the store, sweeps, answers as a server.

    For tests whose subject is what the other process left; a server takes longer to load.
    A context manager, to be entered after the other's death.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._service = self._runner.run(Service.open(home=self._world.state))
        self._runner.run(self._service.sweep())
        return self

    def __exit__(self, *exc: object) -> None:
        self._runner.run(self._service.close())
        self._runner.close()

    def call(self, method: str, params: Any = None) -> Any:
        """The result of a request, as it would come over the wire.  Raises RpcError."""
        verb = VERBS[method]
        try:
            fields = messages.sent(read(verb.params, params))
            result = self._runner.run(verb.call(self._service, **fields))
        except TurntreeError as error:
            raise RpcError(error.code, error.message, json.loads(encode(error.data))) from error
        return json.loads(encode(result))

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda **params: self.call(method, params)


Peer = Client | Heir
"""Who answers requests."""
