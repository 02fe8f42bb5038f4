"""Fork, rewind, undo and the rest from a shell, without a person to ask."""

from __future__ import annotations

import json
import os
import re
import uuid

import pytest

from tests.builders import Transcript, live_session
from tests.server.program import conversation, result, turntree
from tests.world import World, assert_untouched, store_hash


def prompts(world: World, session: str) -> list[str]:
    return [turn["prompt"] for turn in result(world, "turns", session)["turns"]]


def test_a_fork_says_what_it_kept_and_how_to_go_on(world: World) -> None:
    native = conversation(world, 5)
    before = store_hash(world.store)
    ran = turntree(world, "fork", native[:8], "--at", "2")
    assert ran.code == 0, ran.err
    child = ran.lines[-1].split()[-1]
    assert ran.lines[-1].strip() == f"claude --resume {child}"
    assert "2 of 5 turns" in ran.out and "question 3" in ran.out
    assert prompts(world, child) == ["question 1", "question 2"]
    assert_untouched(before, world.store)


def test_the_command_to_resume_works_from_where_one_is(configured_world: World) -> None:
    world = configured_world
    native = conversation(world, 2)
    ran = turntree(world, "fork", native, cwd=world.home)
    command = ran.lines[-1].strip()
    assert command.startswith(f"cd '{world.cwd}' && CLAUDE_CONFIG_DIR='{world.store}' claude ")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ([], 4),
        (["--at", "0"], 0),
        (["--at", "3"], 3),
        (["--through", "2"], 2),
        (["--before", "2"], 1),
        (["--through", "{3}"], 3),
        (["--before", "{3}"], 2),
    ],
)
def test_each_way_to_say_where_keeps_its_turns(world: World, options: list[str], kept: int) -> None:
    transcript = Transcript(str(world.cwd))
    ids = transcript.turns(4)
    transcript.write(world.store)
    options = [option.replace("{3}", ids[2][:8]) for option in options]
    fork = result(world, "fork", "last", *options)
    assert fork["status"] == "forked"
    assert fork["turns"] == {"kept": kept, "source_total": 4}


def test_a_fork_with_a_chosen_id_title_and_directory_has_them(world: World) -> None:
    conversation(world)
    new = str(uuid.uuid4())
    elsewhere = world.home / "elsewhere"
    elsewhere.mkdir()
    arguments = ["fork", "last", "--id", new, "--title", "Other way", "--cwd", "../elsewhere"]
    first = result(world, *arguments)
    assert first["session"]["session_id"] == f"claude-code:{new}"
    assert first["session"]["title"] == "Other way"
    assert first["session"]["cwd"] == str(elsewhere)
    again = result(world, "fork", first["session"]["forked_from"]["session_id"], *arguments[2:])
    assert again["status"] == "already_forked"
    assert again["operation_id"] == first["operation_id"]


def test_a_dry_run_writes_nothing(world: World) -> None:
    conversation(world)
    before = store_hash(world.home)
    ran = turntree(world, "fork", "last", "--at", "2", "--dry-run")
    assert ran.code == 0 and "Would fork" in ran.out and "Nothing was written." in ran.out
    ran = turntree(world, "rewind", "last", "--by", "2", "--dry-run")
    assert ran.code == 0 and "Would rewind" in ran.out and "question 4" in ran.out
    assert store_hash(world.home) == before


def test_warnings_go_to_stderr_and_into_the_json(world: World) -> None:
    conversation(world)
    ran = turntree(world, "fork", "last", "--at", "2")
    assert ran.err.startswith("warning: ") and "warning" not in ran.out
    again = turntree(world, "fork", "last", "--at", "1", "--json")
    assert again.err == "" and again.json["warnings"][0]["message"]


def test_a_staged_fork_is_listed_only_when_asked_then_promoted(world: World) -> None:
    native = conversation(world)
    before = store_hash(world.store)
    ran = turntree(world, "fork", native, "--at", "2", "--stage")
    assert ran.code == 0 and "turntree promote" in ran.out and "turntree discard" in ran.out
    assert len(result(world, "sessions")["sessions"]) == 1
    staged = next(
        s for s in result(world, "sessions", "--staged")["sessions"] if s["state"] == "staged"
    )
    name = staged["session_id"].partition(":")[2]
    assert prompts(world, name[:8]) == ["question 1", "question 2"]
    promoted = turntree(world, "promote", name[:8])
    assert promoted.code == 0 and f"claude --resume {name}" in promoted.out
    assert len(result(world, "sessions")["sessions"]) == 2
    assert_untouched(before, world.store)


def test_a_staged_fork_is_discarded(world: World) -> None:
    conversation(world)
    fork = result(world, "fork", "last", "--stage")
    name = fork["session"]["session_id"]
    assert result(world, "discard", name) == {"session_id": name, "status": "discarded"}
    assert len(result(world, "sessions", "--staged")["sessions"]) == 1
    failed = turntree(world, "promote", name, "--json")
    assert failed.code == 1 and failed.json["data"]["kind"] in ("not_staged", "session_not_found")


def test_a_rewind_says_what_it_dropped_and_undo_brings_it_back(world: World) -> None:
    native = conversation(world, 5)
    (path,) = world.store.rglob(f"{native}.jsonl")
    before = path.read_bytes()
    ran = turntree(world, "rewind", native, "--by", "2")
    assert ran.code == 0, ran.err
    assert "3 turns" in ran.out and "2 turns" in ran.out and "question 4" in ran.out
    assert f"turntree undo {native[:8]}" in ran.out
    assert len(prompts(world, native)) == 3
    undone = turntree(world, "undo", native[:8])
    assert undone.code == 0 and undone.out.startswith("Undone")
    assert path.read_bytes() == before
    redone = turntree(world, "redo", native[:8])
    assert redone.code == 0 and redone.out.startswith("Redone")
    assert "added" not in redone.out
    assert len(prompts(world, native)) == 3


@pytest.mark.parametrize(
    ("options", "kept"), [(["--to", "3"], 3), (["--before", "2"], 1), (["--by", "1"], 3)]
)
def test_each_way_to_rewind_keeps_its_turns(world: World, options: list[str], kept: int) -> None:
    conversation(world, 4)
    rewound = result(world, "rewind", "last", *options)
    assert rewound["status"] == "rewound"
    assert rewound["turns"] == {"kept": kept, "removed": 4 - kept}


def test_a_rewind_to_where_it_is_writes_nothing(world: World) -> None:
    conversation(world, 3)
    before = store_hash(world.store)
    ran = turntree(world, "rewind", "last", "--to", "3")
    assert ran.code == 0 and "It already ends at turn 3." in ran.out
    assert store_hash(world.store) == before


def test_a_rewind_never_asks_when_stdin_is_a_pipe(world: World) -> None:
    conversation(world, 3)
    ran = turntree(world, "rewind", "last", "--by", "1", stdin="")
    assert ran.code == 0 and "?" not in ran.out + ran.err
    assert len(prompts(world, "last")) == 2


def test_operations_are_listed_and_undone_by_id(world: World) -> None:
    conversation(world)
    fork = result(world, "fork", "last", "--at", "2")
    child = fork["session"]["session_id"]
    shown = turntree(world, "operations").out
    assert fork["operation_id"] in shown and "fork" in shown
    (listed,) = result(world, "operations")["operations"]
    assert listed["operation_id"] == fork["operation_id"] and listed["undoable"]
    undone = result(world, "undo", "--operation", fork["operation_id"])
    assert undone["status"] == "undone"
    assert turntree(world, "turns", child, "--json").code == 1
    of_session = result(world, "operations", listed["session_id"])
    assert fork["operation_id"] in [op["operation_id"] for op in of_session["operations"]]


def test_the_tree_shows_a_fork_under_the_turn_it_leaves_from(world: World) -> None:
    native = conversation(world, 3)
    fork = result(world, "fork", native, "--at", "2")
    child = fork["session"]["session_id"].partition(":")[2]
    second = result(world, "fork", child, "--at", "1")
    grandchild = second["session"]["session_id"].partition(":")[2]
    forest = turntree(world, "tree").lines
    assert forest[0].startswith(native[:8])
    assert forest[1].startswith(f"└── at 2  {child[:8]}")
    assert forest[2].startswith(f"    └── at 1  {grandchild[:8]}")
    family = turntree(world, "tree", native).lines
    at = next(index for index, row in enumerate(family) if f"fork {child[:8]}" in row)
    assert "question 2" in family[at - 1]
    origin = turntree(world, "tree", grandchild).lines
    assert origin[0].startswith(f"forked at turn 1 from {child[:8]}")
    assert origin[1].startswith(f"forked at turn 2 from {native[:8]}")
    assert [s["session_id"] for s in result(world, "tree", grandchild)["ancestors"]] == [
        f"claude-code:{child}",
        f"claude-code:{native}",
    ]


def test_nothing_to_undo_and_a_bad_place_are_typed_errors(world: World) -> None:
    conversation(world, 3)
    for arguments, kind in (
        (["undo", "last"], "nothing_to_undo"),
        (["fork", "last", "--at", "9"], "boundary_out_of_range"),
        (["rewind", "last", "--by", "9"], "boundary_out_of_range"),
        (["fork", "last", "--through", "zzz"], "turn_not_found"),
        (["fork", "last", "--id", "no-uuid"], "invalid_params"),
        (["fork", "last", "--expect-revision", "other"], "stale_revision"),
    ):
        failed = turntree(world, *arguments, "--json")
        assert failed.code == 1, arguments
        assert failed.json["data"]["kind"] == kind
        text = turntree(world, *arguments)
        assert text.code == 1 and text.out == "" and text.err.startswith("error: ")


def test_a_session_that_its_agent_has_open_offers_the_fork_instead(world: World) -> None:
    native = conversation(world, 3)
    # This process stands in for the agent: it lives while the test runs.
    live_session(world.store, os.getpid(), native, str(world.cwd))
    failed = turntree(world, "rewind", native, "--to", "2", "--wait-ms", "0", "--json")
    assert failed.code == 1 and failed.json["data"]["kind"] == "session_busy"
    shown = turntree(world, "rewind", native, "--to", "2", "--wait-ms", "0")
    assert f"\n  turntree fork {native[:8]} --at 2\n" in shown.err
    assert shown.err.count("fork instead") == 1
    assert "live" in turntree(world, "sessions").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["rewind", "last"],
        ["rewind", "last", "--by", "1", "--to", "2"],
        ["rewind", "last", "--by", "1", "--files", "--both"],
        ["fork", "last", "--at", "1", "--before", "2"],
        ["fork", "last", "--at", "-1"],
        ["fork", "last", "--at", "8f0e21aa"],
        ["fork", "last", "--before", "0"],
        ["fork", "last", "--workspace", "cloud"],
        ["fork"],
        ["undo"],
        ["undo", "last", "--operation", "x"],
        ["sessions", "--limit", "0"],
        ["sessions", "--all", "--cwd", "x"],
        ["frok"],
        ["--no-such-option"],
    ],
)
def test_wrong_usage_exits_2_and_writes_nothing(world: World, arguments: list[str]) -> None:
    conversation(world)
    before = store_hash(world.store)
    ran = turntree(world, *arguments)
    assert ran.code == 2 and ran.out == ""
    assert "Error: " in ran.err and "Traceback" not in ran.err
    assert store_hash(world.store) == before


def test_the_id_of_a_turn_where_a_number_belongs_is_told_its_option(world: World) -> None:
    ran = turntree(world, "fork", "last", "--at", "8f0e21aa")
    assert "'8f0e21aa' is no number; --through takes the id of a turn." in ran.err


def since_then(world: World, native: str) -> str:
    """A turn that the agent adds after what was done so far; returns its prompt."""
    (path,) = world.store.rglob(f"{native}.jsonl")
    lines = [json.loads(row) for row in path.read_bytes().splitlines()]
    head = next(r["uuid"] for r in reversed(lines) if r.get("type") == "assistant")
    pointer = next((r for r in reversed(lines) if r.get("type") == "last-prompt"), {})
    added = Transcript(str(world.cwd), session_id=native, seed=77, start="2100-01-01T00:00:00Z")
    added.head = pointer.get("leafUuid", head)
    added.turn("precious work")
    with path.open("ab") as file:
        file.writelines(json.dumps(record).encode() + b"\n" for record in added.records)
    return "precious work"


def test_an_undo_says_what_was_added_since_and_where_it_went(world: World) -> None:
    native = conversation(world, 5)
    rewound = result(world, "rewind", native, "--by", "2")
    since_then(world, native)
    before = store_hash(world.store)
    looked = turntree(world, "undo", native, "--dry-run")
    assert looked.code == 0 and looked.out.startswith("Would undo"), looked.err
    assert "rewind to 3 turns, 2 dropped" in looked.out
    assert "1 turn added, which becomes a branch" in looked.out
    assert store_hash(world.store) == before
    undone = turntree(world, "undo", native)
    assert undone.code == 0 and undone.out.startswith("Undone"), undone.err
    assert rewound["operation_id"][:8] in undone.out
    left = next(b for b in result(world, "branches", native)["branches"] if not b["active"])
    assert f"1 turn added, now branch {left['leaf_id'][:8]}" in undone.out
    assert len(prompts(world, native)) == 5


def test_an_undo_with_nothing_added_since_says_nothing_of_branches(world: World) -> None:
    native = conversation(world, 5)
    assert turntree(world, "rewind", native, "--by", "2").code == 0
    undone = turntree(world, "undo", native)
    assert "added" not in undone.out and "branch" not in undone.out
    assert "5 turns, last message 2026-01-31" in undone.out


def test_undoing_a_fork_says_which_session_goes_and_that_redo_brings_it_back(world: World) -> None:
    conversation(world, 3)
    fork = result(world, "fork", "last", "--at", "2")
    child = fork["session"]["session_id"].partition(":")[2]
    since_then(world, child)
    for more, said in ((["--dry-run"], "will no longer be"), ([], "is no longer")):
        ran = turntree(world, "undo", "--operation", fork["operation_id"][:8], *more)
        assert ran.code == 0, ran.err
        assert f"{child[:8]}  {said} among the sessions of claude-code; it is kept" in ran.out
        assert "1 turn added, kept with it: redo brings both back" in ran.out
    assert f"turntree redo --operation {fork['operation_id'][:8]}" in ran.out
    redone = turntree(world, "redo", "--operation", fork["operation_id"][:8])
    assert redone.code == 0 and redone.out.startswith("Redone") and child[:8] in redone.out
    assert prompts(world, child)[-1] == "precious work"


def test_undoing_an_older_rewind_names_the_newer_one(world: World) -> None:
    native = conversation(world, 5)
    older = result(world, "rewind", native, "--by", "1")["operation_id"]
    newer = result(world, "rewind", native, "--by", "1")["operation_id"]
    looked = turntree(world, "undo", "--operation", older[:8], "--dry-run")
    assert looked.code == 0 and f"a rewind of this session ({newer[:8]})" in looked.out


def test_an_operation_is_not_named_by_a_slip_of_the_finger(world: World) -> None:
    conversation(world, 3)
    operation = result(world, "rewind", "last", "--by", "1")["operation_id"]
    ran = turntree(world, "undo", "--operation", operation[0])
    assert ran.code == 1 and "turntree operations" in ran.err
    assert len(prompts(world, "last")) == 2


def test_operations_name_the_session_that_each_made_or_changed(world: World) -> None:
    native = conversation(world, 1)
    child = result(world, "fork", native)["session"]["session_id"].partition(":")[2]
    rows = turntree(world, "operations").lines
    assert rows[0].split() == ["OPERATION", "WHEN", "SESSION", "STATE", "UNDO", "SUMMARY"]
    assert child in rows[1] and f"fork of {native[:8]} with 1 of 1 turn: " in rows[1]
    assert native not in rows[1] and "claude-code:" not in rows[1]


def test_a_fork_into_a_directory_that_is_not_there_is_told_so(world: World) -> None:
    conversation(world, 3)
    for name in ("not-there", "/nope"):
        ran = turntree(world, "fork", "last", "--cwd", name)
        assert ran.code == 1 and ran.out == ""
        assert ran.err.startswith("error: --cwd: there is no directory ") and name in ran.err


def test_tree_shows_staged_forks_only_when_asked(world: World) -> None:
    native = conversation(world, 3)
    staged = result(world, "fork", native, "--stage")["session"]["session_id"].partition(":")[2]
    for arguments in (["tree"], ["tree", native]):
        assert staged[:8] not in turntree(world, *arguments).out
        assert staged[:8] in turntree(world, *arguments, "--staged").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fork", "last", "--id", "no-uuid"], "--id: "),
        (["fork", "last", "--id", "codex:x"], "--id: "),
        (["fork", "last", "--id", "{native}"], "Give another --id"),
        (["fork", "last", "--through", "{unknown}"], "turntree turns --branch all"),
        (["fork", "last", "--at", "9"], "3 turns"),
        (["fork", "last", "--workspace", "copy"], "fork without --workspace"),
        (["rewind", "last", "--by", "1", "--files"], "rewind without --files"),
        (["turns", "last", "--branch", "zzz"], "`turntree branches` names them"),
        (["turns", "last", "--branch", "{unknown}"], "`turntree branches` names them"),
        (["turns", "last", "--cursor", "x"], "--cursor: "),
        (["sessions", "--cursor", "x"], "--cursor: "),
        (["operations", "--cursor", "x"], "--cursor: "),
        (["show", "last", "1", "--cursor", "x"], "--cursor: "),
        (["show", "last", "{unknown}"], "turntree turns --branch all"),
        (["undo", "--operation", "zzzz"], "`turntree operations`"),
        (["undo", "--operation", "{unknown}"], "`turntree operations`"),
        (["undo", "last"], "has no rewind to undo"),
        (["promote", "last"], "not staged"),
        (["turns", "{unknown}"], "There is no session 00000000."),
    ],
)
def test_errors_speak_of_options_and_commands(
    world: World, arguments: list[str], said: str
) -> None:
    native = conversation(world, 3)
    unknown = "00000000-0000-4000-8000-000000000000"
    typed = [a.replace("{native}", native).replace("{unknown}", unknown) for a in arguments]
    ran = turntree(world, *typed)
    assert ran.code == 1 and ran.out == ""
    assert said in ran.err
    assert not re.search(r"[a-z]_[a-z]|claude-code:[0-9a-f]", ran.err)
