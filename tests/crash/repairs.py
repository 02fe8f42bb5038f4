"""Repairs that a process may die in."""

from __future__ import annotations

from typing import Any

from tests.builders import Transcript
from tests.chain import to_json
from tests.crash.forks import Fork, StagedFork
from tests.crash.scene import points
from tests.world import World


class Repair(Fork):
    """A repair of a session with a lost result and a glued line, of which records stand in
    another session's file, so that a copy of it is made on the way."""

    passes = points("repair", "intended", "copied", "validated", "staged", "sidecars", "published")
    holds_from = "repair.staged"
    kept = 5
    state = "damaged"

    def __init__(self, world: World, number: int = 1) -> None:
        super().__init__(world, number)
        other = Transcript(str(world.cwd), seed=number + 1000)
        other.turn(f"of another session than {number}")
        other.records += self.strays
        other.write(world.store)

    def speak(self) -> None:
        super().speak()
        t = self.transcript
        t.prompts[-1:] = []
        del t.records[-2:]
        t.head = t.messages()[-1]["uuid"]
        t.prompt("question 5")
        t.parallel_tools([("Bash", {"command": "a"}, None), ("Bash", {"command": "b"}, "B")])
        t.answer("answer 5")
        stub, answer = t.records[-2:]
        assert isinstance(stub, dict) and isinstance(answer, dict)
        t.records[-1:] = [to_json(stub)[:40] + to_json(answer)]
        self.strays = t.records[2:3]
        del t.records[2:3]

    def request(self) -> tuple[str, dict[str, Any]]:
        params: dict[str, Any] = {"session_id": self.session, "new_session_id": self.child_id}
        return "repair_session", params | ({"stage": True} if self.stage else {})

    def check_reply(self, reply: dict[str, Any], *, held: bool) -> None:
        super().check_reply(reply, held=held)
        counts = {repaired["repair"]: repaired["count"] for repaired in reply["repairs"]}
        assert counts == {"recover_lines": 1, "collect_strays": 1, "close_calls": 1}

    def title(self) -> str:
        return f"{self.topic} (repaired)"


class StagedRepair(Repair, StagedFork):
    """A repair that stops before it is published."""

    passes = points("repair", "intended", "copied", "validated", "staged")
    stage = True
