"""`turntree repair`, from a shell and on a terminal; repair_session as a command of an editor."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.builders import Transcript
from tests.client import Client, RpcError
from tests.server.program import Terminal, result, turntree
from tests.world import World, assert_untouched, store_hash


@pytest.fixture
def damaged(world: World) -> Transcript:
    """A session with a gap, a call without a result, and a line that is none."""
    t = Transcript(str(world.cwd))
    t.turns(2)
    lost = str(t.head)
    t.turn("question 3")
    t.drop(lost)
    t.prompt("question 4")
    t.tool("Bash", {"command": "ls"}, None)
    t.answer()
    t.append(b'{"type":"mode","mode":"nor')
    t.write(world.store)
    return t


def test_a_repair_says_what_it_did_and_how_to_go_on(world: World, damaged: Transcript) -> None:
    before = store_hash(world.store)
    ran = turntree(world, "repair", damaged.session_id[:8])
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Repaired")
    assert "4 of 4 turns" in ran.out
    for shown in ("recover_lines", "1 damaged line", "1 gap is joined.", "1 call gets a result"):
        assert shown in ran.out
    child = ran.lines[-1].split()[-1]
    assert ran.lines[-1].strip() == f"claude --resume {child}"
    assert_untouched(before, world.store)
    turns = result(world, "turns", child)
    assert turns["total_turns"] == 4 and turns["gaps"] == []


def test_a_preview_writes_nothing_and_names_what_would_be_done(
    world: World, damaged: Transcript
) -> None:
    before = store_hash(world.home)
    ran = turntree(world, "repair", "last", "--repair", "cut_gaps", "--dry-run")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Would repair")
    assert "2 turns before the newest gap are left out." in ran.out
    assert "close_calls" not in ran.out and "Nothing was written." in ran.out
    assert store_hash(world.home) == before


def test_a_session_that_is_whole_is_said_to_be(world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turns(1)
    t.write(world.store)
    ran = turntree(world, "repair", "last", "--dry-run")
    assert ran.code == 0 and "Nothing is damaged: it would be a plain copy." in ran.out
    assert "Nothing is damaged: it is a plain copy." in turntree(world, "repair", "last").out


def test_repairs_that_find_nothing_do_not_call_a_damaged_session_whole(world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question")
    t.tool("Bash", {"command": "ls"}, None)
    t.write(world.store)
    ran = turntree(world, "repair", "last", "--repair", "strip_images", "--dry-run")
    assert "These repairs find nothing to do: it would be a plain copy." in ran.out


def test_a_gap_of_which_nothing_is_said_is_told_once_with_the_options_to_add(
    world: World, damaged: Transcript
) -> None:
    ran = turntree(world, "repair", "last", "--repair", "close_calls", "--dry-run")
    assert ran.code == 1
    told, where = ran.err.splitlines()
    assert "Add --repair bridge_gaps, which joins" in told and "or --repair cut_gaps" in told
    assert where.startswith("  Line ") and "is not in the file" not in told


def test_undoing_a_repair_by_its_session_names_the_operation_to_undo(
    world: World, damaged: Transcript
) -> None:
    child = result(world, "repair", damaged.session_id)["session"]["session_id"]
    ran = turntree(world, "undo", child)
    assert ran.code == 1
    command = ran.err.strip().rpartition("turntree ")[2].rstrip(".")
    operation = command.split()[-1]
    assert f"give it as --operation {operation}" in turntree(world, "undo", operation).err
    assert turntree(world, *command.split()).code == 0
    assert turntree(world, "turns", child).code == 1


def test_the_options_of_a_repair_reach_it(world: World, damaged: Transcript) -> None:
    new = str(uuid.uuid4())
    arguments = ["repair", damaged.session_id, "--id", new, "--title", "Mended", "--stage"]
    arguments += ["--repair", "bridge_gaps", "--repair", "drop_calls", "--repair", "strip_outputs"]
    arguments += ["--strip-outputs-over", "1"]
    made = result(world, *arguments)
    assert made["status"] == "staged" and made["session"]["title"] == "Mended"
    assert [r["repair"] for r in made["repairs"]] == ["recover_lines", "bridge_gaps", "drop_calls"]
    assert result(world, *arguments)["status"] == "already_forked"
    promoted = turntree(world, "promote", new)
    assert promoted.code == 0 and f"claude --resume {new}" in promoted.out


def test_repairs_that_exclude_each_other_and_names_that_are_none_are_wrong_usage(
    world: World, damaged: Transcript
) -> None:
    both = turntree(world, "repair", "last", "--repair", "bridge_gaps", "--repair", "cut_gaps")
    assert both.code == 1 and "exclude each other" in both.err
    none = turntree(world, "repair", "last", "--repair", "mend")
    assert none.code == 2 and "bridge_gaps" in none.err


def test_an_undone_repair_is_gone_and_comes_back(world: World, damaged: Transcript) -> None:
    made = result(world, "repair", "last")
    child = made["session"]["session_id"].partition(":")[2]
    (operation,) = result(world, "operations", child)["operations"]
    assert (operation["kind"], operation["undoable"]) == ("repair", True)
    undone = turntree(world, "undo", "--operation", made["operation_id"])
    assert undone.code == 0, undone.err
    assert not list(world.store.rglob(f"*{child}*"))
    assert turntree(world, "redo", "--operation", made["operation_id"]).code == 0
    assert result(world, "turns", child)["total_turns"] == 4


def test_on_a_terminal_a_repair_is_shown_first_and_asked_for(
    world: World, damaged: Transcript
) -> None:
    before = store_hash(world.store)
    with Terminal(world, "repair", "last") as terminal:
        terminal.wait_for("[y/N]")
        assert "To repair" in terminal.text and "1 gap is joined." in terminal.text
        terminal.type("n\r")
        assert terminal.end() == 1
    assert "Nothing was changed." in terminal.text
    assert store_hash(world.store) == before
    with Terminal(world, "repair", "last") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\r")
        assert terminal.end() == 0
    assert "claude --resume" in terminal.text
    with Terminal(world, "repair", damaged.session_id, "--yes") as terminal:
        assert terminal.end() == 0


def test_a_turn_that_was_added_before_the_answer_stops_the_repair(
    world: World, damaged: Transcript
) -> None:
    with Terminal(world, "repair", "last") as terminal:
        terminal.wait_for("[y/N]")
        damaged.turn("question 5")
        damaged.write(world.store)
        terminal.type("y\r")
        assert terminal.end() == 1
    assert "error: " in terminal.text


def test_an_editors_command_repairs_with_an_id_of_the_servers(
    server: Client, damaged: Transcript
) -> None:
    params = {"session_id": f"claude-code:{damaged.session_id}"}
    made: dict[str, Any] = server.call(
        "workspace/executeCommand", {"command": "turntree.repair_session", "arguments": [params]}
    )
    assert made["status"] == "forked" and made["session"]["state"] == "ready"


@pytest.mark.parametrize(
    ("repairs", "field"),
    [
        (["mend"], "repairs[0]"),
        ("bridge_gaps", "repairs"),
        (["bridge_gaps", "cut_gaps"], "repairs"),
    ],
)
def test_a_wrong_repair_names_the_field_and_what_there_is(
    server: Client, damaged: Transcript, repairs: Any, field: str
) -> None:
    with pytest.raises(RpcError) as refused:
        server.call(
            "repair_session",
            {
                "session_id": f"claude-code:{damaged.session_id}",
                "new_session_id": str(uuid.uuid4()),
                "repairs": repairs,
            },
        )
    assert refused.value.code == -32602
    assert refused.value.data["field"] == field
    if repairs == ["mend"]:
        assert "bridge_gaps" in str(refused.value) and "strip_outputs" in str(refused.value)
