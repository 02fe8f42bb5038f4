"""Server processes that are started early and open the store late."""

from __future__ import annotations

from tests.client import Client
from tests.world import World


def standby(world: World) -> Client:
    """A server process to which nothing was sent: it opens the store with its first message.

    So it loads while another process works, and is fresh all the same.
    """
    return Client(world.env(), initialize=False)


def initialize(client: Client) -> None:
    client.call("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.notify("initialized", {})
