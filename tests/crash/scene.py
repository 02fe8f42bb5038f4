"""Requests that a process may die in: what leads up to each, and the two states it may leave.

A scene is one session in a world, the requests that come first, and the one request that is
cut short.  `passes` are the fault points on its way; from the point `holds_from` on, a death
leaves the new state, before it the old one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tests.builders import Transcript
from tests.chain import to_json
from tests.crash.remains import Remains
from tests.crash.starting import Peer
from tests.world import World

SWAP = ("staged", "intended", "archived", "applied")
POINTER = ("intended", "applied")


def points(verb: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{verb}.{name}" for name in names)


class Scene:
    """One request on a session of five turns."""

    passes: ClassVar[tuple[str, ...]]
    holds_from: ClassVar[str]
    version: ClassVar[str] = "2.1.197"
    state: ClassVar[str] = "ready"

    def __init__(self, world: World, number: int = 1) -> None:
        """`number` tells the scenes of one world apart."""
        self.world = world
        self.topic = f"question 1 of session {number}"
        self.child_id = f"c0ffee00-0000-4000-8000-{number:012x}"
        self.id = f"request-{number}"
        self.transcript = Transcript(str(world.cwd), seed=number, version=self.version)
        self.speak()
        self.turns = list(self.transcript.prompts)
        self.path = self.transcript.write(world.store)
        self.original = self.path.read_bytes()
        self.session = f"claude-code:{self.transcript.session_id}"

    def speak(self) -> None:
        """Five turns, of which a tool's large output, a subagent and a file backup are part."""
        t = self.transcript
        t.turn(self.topic, "answer 1")
        t.prompt("question 2")
        t.big_tool("Bash", {"command": "make"}, "a line of output\n" * 4000)
        t.subagent("look around", "nothing there")
        t.write_file(f"{t.cwd}/a.py", "new", before="old")
        t.answer("answer 2")
        t.turns(3, first=3)

    def go_on(self, turns: int) -> str:
        """The agent appends a turn below the first `turns` turns; the new turn's id."""
        t = self.transcript
        messages = t.messages()
        last = len(messages) - 1
        if turns < len(self.turns):
            last = messages.index(t.find(self.turns[turns])) - 1
        known = len(t.records)
        t.branch_from(messages[last]["uuid"])
        added = t.turn("one more question", "one more answer")
        with self.path.open("ab") as file:
            for record in t.records[known:]:
                assert isinstance(record, dict)
                file.write(to_json(record) + b"\n")
        return added

    def lead_up(self, client: Peer) -> None:
        """What is done before the request."""

    def ask(self, client: Peer) -> dict[str, Any]:
        """The request, the same each time."""
        result: dict[str, Any] = client.call(*self.request())
        return result

    def request(self) -> tuple[str, dict[str, Any]]:
        raise NotImplementedError

    def holds_after(self, point: str) -> bool:
        return self.passes.index(point) >= self.passes.index(self.holds_from)

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        """The answer to the request; `held`: it is a repetition of one that took place."""
        raise NotImplementedError

    def check_new(self, client: Peer) -> None:
        """The new state is there, whole."""
        raise NotImplementedError

    def changes(self, path: str) -> bool:
        """Whether the request may change or remove what was at this path of the store."""
        return False

    def adds(self, path: str) -> bool:
        """Whether the request may make this path in the store."""
        return self.child_id in path

    def waits(self, held: bool) -> set[str]:
        """States in which an operation may stay for good."""
        return {"staged"} if self.leaves_stage(held) else set()

    def leaves_stage(self, held: bool) -> bool:
        """Whether a staged fork is there in the new state (`held`) or in the old one."""
        return False

    def undo_all(self, client: Peer, remains: Remains) -> None:
        """Take the new state back and look for the old one."""

    def shown_turns(self, client: Peer, session_id: str) -> list[str]:
        result = client.list_turns(session_id=session_id)
        assert [turn["turn_number"] for turn in result["turns"]] == list(
            range(1, result["total_turns"] + 1)
        )
        assert result["session"]["turn_count"] == result["total_turns"]
        return [turn["turn_id"] for turn in result["turns"]]
