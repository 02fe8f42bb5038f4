"""What a person should know of the store is shown once, by the editor's own means."""

from __future__ import annotations

from tests.client import Client
from tests.world import World


def test_a_damaged_database_that_was_set_aside_is_told_to_the_person(world: World) -> None:
    world.state.mkdir(parents=True, exist_ok=True)
    (world.state / "turntree.db").write_bytes(b"not a database" * 1000)
    with Client(world.env()) as client:
        assert client.list_sessions()["sessions"] == []
        shown = client.wait_for_notification("window/showMessage")
    (aside,) = world.state.glob("turntree.db.damaged-*")
    assert str(aside) in shown["message"]
    assert aside.read_bytes() == b"not a database" * 1000
