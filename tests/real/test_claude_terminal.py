"""Sessions typed in the terminal program: its order of records, queued and dropped prompts."""

from __future__ import annotations

import threading

from tests.client import Client, wait_until
from tests.real.asking import before_prompt, fork, session_id
from tests.rig.claude import Claude
from tests.rig.model import Model, Reply, Tool
from tests.world import World


def test_turns_typed_in_the_terminal_are_listed_and_forked_as_the_person_saw_them(
    server: Client, claude: Claude, model: Model, world: World
) -> None:
    commands = world.cwd / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "greet.md").write_text("Greet $ARGUMENTS kindly\n")
    go_on, never = threading.Event(), threading.Event()
    model.script(
        Reply("first done", match="one"),
        Reply(
            "looking",
            tools=(Tool("Bash", {"command": "echo x", "description": "say"}),),
            hold=go_on,
            match="two",
        ),
        Reply("second done", match="two"),
        Reply("never", hold=never, match="three"),
    )
    with claude.tui(world.cwd) as tui:
        tui.say("one", "first done")
        tui.say("two")
        model.wait_for_prompt("two")
        tui.say("also this")
        go_on.set()
        tui.wait_for("second done")
        tui.say("three")
        model.wait_for_prompt("three")
        tui.keys("Escape", "C-u", "C-u")
        never.set()
        tui.say("/greet Ada", "answer to: Greet Ada kindly")
        tui.say("four", "answer to: four")
        tui.leave()
    sessions = wait_until(lambda: server.list_sessions()["sessions"], what="it is listed")
    native_id = sessions[0]["session_id"].removeprefix("claude-code:")

    turns = server.list_turns(session_id=session_id(native_id))["turns"]
    assert [t["prompt"] for t in turns] == ["one", "two", "/greet Ada", "four"]
    branches = server.list_branches(session_id=session_id(native_id))["branches"]
    assert {b["last_prompt"] for b in branches} == {"three", "four"}

    number = {t["prompt"]: t["turn_number"] for t in turns}
    claude.resume(fork(server, native_id, number["two"])["resume"], "in the fork")
    assert model.last().said()[:-1] == before_prompt(model.asked("three"))
    assert any("also this" in said.text for said in model.last().history)
    claude.resume(fork(server, native_id, number["four"])["resume"], "after four")
    in_fork = model.last().said()
    assert in_fork[: len(model.asked("four").said())] == model.asked("four").said()
    # Leaving may leave an echo of its own behind: what counts is what the source sends.
    claude.ask("after four", world.cwd, resume=native_id)
    assert in_fork == model.last().said()
