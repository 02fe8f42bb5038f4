"""The commands that only look, run as a person or a script runs them."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tests.builders import Transcript
from tests.server.program import command, conversation, environment, result, turntree
from tests.world import World, assert_untouched, store_hash


def test_an_empty_machine_is_told_what_was_looked_for_and_what_to_try(world: World) -> None:
    ran = turntree(world)
    assert ran.code == 0 and ran.err == ""
    assert "claude-code" in ran.out and "~/.claude" in ran.out
    assert "turntree --help" in ran.out


def test_the_status_counts_sessions_here_and_everywhere(world: World) -> None:
    conversation(world, seed=1)
    conversation(world, seed=2, cwd=world.home / "elsewhere")
    status = result(world)
    assert status["sessions"] == {"by_agent": {"claude-code": 2}, "here": 1}
    assert status["agents"][0]["agent"] == "claude-code"
    assert "turntree turns last" in turntree(world).out


def test_sessions_of_this_directory_are_listed_and_with_all_the_others(world: World) -> None:
    mine = conversation(world, seed=1)
    below = conversation(world, seed=2, cwd=world.cwd / "sub")
    other = conversation(world, seed=3, cwd=world.home / "elsewhere")
    here = turntree(world, "sessions")
    assert {row.split()[0] for row in here.lines[1:]} == {mine, below}
    everywhere = turntree(world, "sessions", "--all").lines
    assert {row.split()[0] for row in everywhere[1:]} == {mine, below, other}
    assert "~/elsewhere" in "\n".join(everywhere)


def test_where_no_session_is_found_it_says_where_it_looked_and_points_to_all(world: World) -> None:
    conversation(world, cwd=world.home / "elsewhere")
    ran = turntree(world, "sessions")
    assert ran.code == 0
    assert "No sessions found in ~/my project 新聞 or below it." in ran.out
    assert "turntree sessions --all" in ran.out
    assert "claude-code" in ran.out and "~/.claude" in ran.out


def test_json_is_the_servers_answer_and_text_is_made_of_the_same(world: World) -> None:
    native = conversation(world)
    page = result(world, "sessions")
    assert page["next_cursor"] is None and page["skipped"] == []
    (session,) = page["sessions"]
    assert session["session_id"] == f"claude-code:{native}"
    assert session["cwd"] == str(world.cwd)
    assert session["updated_at"].endswith("Z")
    assert turntree(world, "--json", "sessions").json == page


def test_sessions_are_paged(world: World) -> None:
    for seed in range(3):
        conversation(world, seed=seed)
    first = result(world, "sessions", "--limit", "2")
    rest = result(world, "sessions", "--limit", "2", "--cursor", first["next_cursor"])
    seen = [s["session_id"] for s in first["sessions"] + rest["sessions"]]
    assert len(seen) == len(set(seen)) == 3
    shown = turntree(world, "sessions", "--limit", "2", "--kind", "main").out
    assert "More: turntree sessions --kind main --limit 2 --cursor" in shown


def test_columns_align_below_wide_titles(world: World) -> None:
    for seed, title in ((1, "修正新聞頁面"), (2, "plain")):
        transcript = Transcript(str(world.cwd), seed=seed)
        transcript.turn("question")
        transcript.custom_title(title)
        transcript.write(world.store)
    conversation(world, seed=3, cwd=world.cwd / "sub")
    shown = turntree(world, "sessions").lines
    wide = next(row for row in shown if "修正新聞頁面" in row)
    header = shown[0].index("DIRECTORY")
    assert wide[header - len("修正新聞頁面")] == "."


def test_a_damaged_file_is_a_warning_and_hides_no_other(world: World) -> None:
    native = conversation(world)
    bad = world.store / "projects" / "-bad" / "00000000-0000-4000-8000-000000000000.jsonl"
    bad.parent.mkdir()
    bad.write_bytes(b"not json\n")
    ran = turntree(world, "sessions", "--all")
    assert ran.code == 0 and native in ran.out
    assert "warning: " in ran.err and bad.name in ran.err
    assert result(world, "sessions", "--all")["skipped"][0]["path"] == str(bad)


def test_a_prompt_cannot_steer_the_terminal(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    transcript.turn("red \x1b[31m and a title \x1b]0;pwned\x07 \u202e", "answer \x1b[2J\x9b31m")
    transcript.custom_title("title \x1b[31m")
    transcript.write(world.store)
    for arguments in (["sessions"], ["turns", "last"], ["show", "last", "1"], ["tree", "last"]):
        ran = turntree(world, *arguments)
        assert ran.code == 0, ran.err
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(ran.out + ran.err)
        assert "␛[31m" in ran.out


def test_turns_are_listed_in_order_with_their_ids(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    ids = transcript.turns(3)
    transcript.write(world.store)
    shown = turntree(world, "turns", "last").lines
    rows = [row.split()[:2] for row in shown[3:]]
    assert rows == [[str(number), id] for number, id in enumerate(ids, start=1)]
    assert "question 3" in shown[-1]
    newest = result(world, "turns", "last", "--newest", "--limit", "1")
    assert [turn["turn_number"] for turn in newest["turns"]] == [3]
    assert newest["total_turns"] == 3


def test_a_page_of_turns_says_how_to_go_on(world: World) -> None:
    native = conversation(world, 5)
    shown = turntree(world, "turns", "last", "--limit", "2").out
    assert "2 turns on this page, 5 in all." in shown
    assert f"More: turntree turns {native[:8]} --limit 2 --cursor" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions", "--all", "--query", "question 1", "--limit", "2"],
        ["turns", "last", "--newest", "--branch", "all", "--limit", "2"],
        ["operations", "--limit", "2"],
        ["show", "last", "1", "--full", "--max-bytes", "8"],
    ],
)
def test_following_the_hint_of_each_page_shows_everything(
    world: World, arguments: list[str]
) -> None:
    for seed in range(1, 4):
        native = conversation(world, 3, seed=seed)
        assert turntree(world, "fork", native, "--at", "3").code == 0
    pages = 0
    options = [name for name in arguments if name.startswith("--")]
    while arguments:
        shown = turntree(world, *arguments)
        assert shown.code == 0, shown.err
        pages += 1
        hint = next((row for row in shown.lines if row.startswith("More: turntree ")), "")
        assert not hint or all(option in hint for option in options)
        arguments = shlex.split(hint.removeprefix("More: turntree "))
    assert pages > 1


def test_a_gap_is_shown_where_it_is(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    transcript.turns(2)
    missing = transcript.head
    transcript.turn("after the gap")
    transcript.drop(str(missing))
    transcript.write(world.store)
    shown = turntree(world, "turns", "last").lines
    place = next(index for index, row in enumerate(shown) if "is missing here" in row)
    assert "after the gap" in shown[place + 1]


def test_a_turn_is_shown_in_full(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    transcript.prompt("list\nthe files")
    output = "\n".join(f"file {n}" for n in range(40))
    transcript.tool("Bash", {"command": "ls"}, output, say="I look.")
    transcript.answer("forty files")
    transcript.write(world.store)
    shown = turntree(world, "show", "last", "1").out
    assert "Prompt\n  list\n  the files\n" in shown
    assert "I look." in shown and "forty files" in shown and "ls" in shown
    assert "file 0" in shown and "file 39" not in shown and "more lines (--full)" in shown
    assert "file 39" in turntree(world, "show", "last", "1", "--full").out
    kinds = [item["kind"] for item in result(world, "show", "last", "1")["items"]]
    assert kinds[0] == "user" and {"tool_call", "tool_result", "assistant"} <= set(kinds)


def test_an_event_is_one_line_unless_all_is_asked_for(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    transcript.prompt("go on")
    transcript.attachment({"type": "skill_listing", "content": "- skill\n" * 400})
    transcript.answer("the one answer")
    transcript.write(world.store)
    shown = turntree(world, "show", "last", "1")
    assert any(row.startswith("Event  ") and row.endswith("… (--full)") for row in shown.lines)
    assert max(map(len, shown.lines)) < 100 and "the one answer" in shown.out
    assert shown.out.count("- skill") < 20
    assert turntree(world, "show", "last", "1", "--full").out.count("- skill") == 400


def test_a_title_that_is_a_whole_prompt_is_cut_in_text_alone(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    transcript.turn("long words " * 18)
    transcript.write(world.store)
    long = result(world, "sessions")["sessions"][0]["title"]
    assert len(long) > 150
    for arguments in (["sessions"], ["tree"], ["turns", "last", "--limit", "1"]):
        row = next(r for r in turntree(world, *arguments).lines if "long words" in r)
        assert row.endswith("…") and len(row) < 180


@pytest.mark.parametrize("agent", ["codex", "opencode"])
def test_an_agent_that_is_not_supported_yet_is_said_to_be_so(world: World, agent: str) -> None:
    conversation(world)
    ran = turntree(world, "sessions", "--agent", agent)
    assert ran.code == 1 and ran.out == "" and "not supported" in ran.err and agent in ran.err
    failed = turntree(world, "sessions", "--agent", agent, "--json")
    assert failed.code == 1 and failed.json["data"]["kind"] == "unsupported"


def test_an_unknown_agent_is_wrong_usage(world: World) -> None:
    ran = turntree(world, "sessions", "--agent", "foo")
    assert ran.code == 2 and ran.out == "" and "claude-code" in ran.err


def test_a_turn_is_named_by_number_id_or_prefix(world: World) -> None:
    transcript = Transcript(str(world.cwd))
    ids = transcript.turns(3)
    transcript.write(world.store)
    for name in ("2", ids[1], ids[1][:8]):
        assert result(world, "show", "last", name)["turn"]["turn_id"] == ids[1]
    missing = turntree(world, "show", "last", "9", "--json")
    assert missing.code == 1 and missing.json["code"] == 1005


def test_a_session_is_named_by_id_prefix_or_last(world: World) -> None:
    native = conversation(world, seed=1)
    for name in (f"claude-code:{native}", native, native[:1], f"claude-code:{native[:5]}", "last"):
        assert result(world, "turns", name)["session"]["session_id"] == f"claude-code:{native}"


def test_an_ambiguous_prefix_names_its_candidates(world: World) -> None:
    ids = ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"]
    for seed, id in enumerate(ids):
        transcript = Transcript(str(world.cwd), session_id=id, seed=seed)
        transcript.turn(f"prompt of {seed}")
        transcript.write(world.store)
    ran = turntree(world, "turns", "aaaa")
    assert ran.code == 1 and ran.out == ""
    assert all(id in ran.err for id in ids) and "prompt of 0" in ran.err
    failed = turntree(world, "turns", "aaaa", "--json").json
    assert failed["data"]["kind"] == "invalid_params"
    assert set(failed["data"]["candidates"]) == {f"claude-code:{id}" for id in ids}


def test_an_unknown_session_is_an_error_as_text_and_as_json(world: World) -> None:
    conversation(world)
    ran = turntree(world, "turns", "zzz")
    assert ran.code == 1 and ran.out == "" and ran.err.startswith("error: ")
    failed = turntree(world, "turns", "zzz", "--json")
    assert failed.code == 1 and failed.err == ""
    assert failed.json["code"] == 1001 and failed.json["data"]["kind"] == "session_not_found"
    assert set(failed.json) == {"code", "message", "data"}
    unknown = "00000000-0000-4000-8000-000000000000"
    assert turntree(world, "turns", unknown, "--json").json["code"] == 1001


def test_last_without_a_session_here_says_how_to_find_one(world: World) -> None:
    ran = turntree(world, "turns", "last")
    assert ran.code == 1
    assert "turntree sessions --all" in ran.err


def test_a_deleted_directory_is_no_crash(world: World) -> None:
    gone = world.home / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(gone), *command(), "turns", "last"],
        env=environment(world),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no longer exists" in done.stderr and "Traceback" not in done.stderr


def branched(world: World) -> tuple[str, list[str], str]:
    """Four turns, of which the last two were left for another third one."""
    transcript = Transcript(str(world.cwd), entrypoint="cli")
    ids = []
    for number in range(1, 5):
        ids.append(transcript.turn(f"question {number}"))
        if number == 2:
            at = transcript.head
    transcript.branch_from(at)
    other = transcript.turn("question 3 again")
    transcript.last_prompt("question 3 again")
    transcript.write(world.store)
    return transcript.session_id, ids, other


def test_branches_that_were_left_are_listed_and_can_be_read(world: World) -> None:
    _, ids, _ = branched(world)
    shown = turntree(world, "branches", "last").lines
    assert any("  turn 2  " in row for row in shown[1:])
    assert shown[0].split() == ["LEAF", "UPDATED", "TURNS", "LEAVES", "AT", "LAST", "PROMPT"]
    assert len(shown) == 3
    left = next(b for b in result(world, "branches", "last")["branches"] if not b["active"])
    page = result(world, "turns", "last", "--branch", left["leaf_id"][:8])
    assert [turn["turn_id"] for turn in page["turns"]] == ids
    read = turntree(world, "turns", "last", "--branch", left["leaf_id"][:8]).lines
    assert read[1] == f"Branch {left['leaf_id'][:8]}, 4 turns from the start"
    every = turntree(world, "turns", "last", "--branch", "all").lines
    assert every[1] == "5 turns on all branches"
    assert [row.split()[2] for row in every[4:]].count("active") == 3


def test_the_tree_of_a_session_hangs_branches_where_they_leave(world: World) -> None:
    _, ids, other = branched(world)
    left = next(b for b in result(world, "branches", "last")["branches"] if not b["active"])
    assert turntree(world, "tree", "last").lines[1:] == [
        "├── 1  question 1",
        "├── 2  question 2",
        f"│   └── branch {left['leaf_id'][:8]}  left behind, 2 turns",
        "│       ├── 3  question 3",
        "│       └── 4  question 4",
        "└── 3  question 3 again",
    ]
    family = result(world, "tree", "last")
    assert {turn["turn_id"] for turn in family["turns"]} == {*ids, other}
    assert family["ancestors"] == [] and family["forks"] == []


def test_a_long_run_of_turns_is_folded_in_the_tree(world: World) -> None:
    conversation(world, 40)
    shown = turntree(world, "tree", "last").lines
    assert len(shown) < 10 and any("36 turns" in row for row in shown)


def test_looking_changes_nothing(world: World) -> None:
    branched(world)
    before = store_hash(world.store)
    for arguments in (
        ["sessions"],
        ["turns", "last"],
        ["show", "last", "1"],
        ["branches", "last"],
        ["tree"],
        ["tree", "last"],
        ["operations"],
        [],
    ):
        assert turntree(world, *arguments).code == 0
    assert_untouched(before, world.store)


def test_a_configured_store_is_the_one_that_is_read(configured_world: World) -> None:
    native = conversation(configured_world)
    page = result(configured_world, "sessions")
    assert page["sessions"][0]["session_id"].endswith(native)
    assert page["sessions"][0]["resume"]["env"] == {
        "CLAUDE_CONFIG_DIR": str(configured_world.store)
    }


def test_a_state_directory_that_cannot_be_made_stops_only_what_writes(world: World) -> None:
    native = conversation(world)
    world.state.write_text("in the way")
    assert turntree(world, "sessions").lines[1].startswith(native)
    failed = turntree(world, "fork", native, "--json")
    assert failed.code == 1 and failed.json["code"] == 1015
    assert failed.json["data"]["kind"] == "storage_error"
    assert failed.json["data"]["path"].startswith(str(world.state))
    assert turntree(world, "fork", native).err.startswith("error: ")
