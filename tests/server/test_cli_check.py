"""`turntree check`, and what the listings say of damaged sessions; the method behind it."""

from __future__ import annotations

import pytest

from tests.builders import Transcript
from tests.client import Client
from tests.corpus import CASES
from tests.server.program import Terminal, conversation, result, turntree
from tests.world import World, store_hash


def short(native_id: str) -> str:
    return native_id[:8]


def test_a_finding_is_told_with_its_line_its_turn_and_the_next_command(world: World) -> None:
    case = CASES["f017_a_record_glued_to_a_stub"](world)
    ran = turntree(world, "check", "last")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith(short(case.native_id))
    (head,) = (line for line in ran.lines if line.startswith("error: "))
    assert head.startswith("error: glued line  line 5  turn ")
    assert "1 whole record and what is left of 1 torn one on one line" in ran.out
    assert "1 error." in ran.lines
    assert f"turntree repair {short(case.native_id)} --dry-run" in ran.out


def test_without_a_session_the_newest_of_this_directory_is_checked(world: World) -> None:
    native_id = conversation(world)
    conversation(world, seed=2, cwd=world.home)
    ran = turntree(world, "check")
    assert ran.lines[0].startswith(short(native_id))
    assert ran.lines[-1] == "Nothing is wrong with it."


def test_images_are_stripped_only_when_asked_for(world: World) -> None:
    case = CASES["f120_images_that_dominate"](world)
    out = turntree(world, "check").out
    assert f"turntree repair {short(case.native_id)} --dry-run" not in out
    assert "--repair strip_images --dry-run" in out


def test_json_is_what_the_server_answers(world: World, server: Client) -> None:
    case = CASES["a_torn_line"](world)
    answer = server.check_session(session_id=case.session_id)
    assert result(world, "check", case.native_id) == answer
    assert [f["code"] for f in answer["findings"]] == [code for code, _ in case.findings]
    params = {"command": "turntree.check_session", "arguments": [{"session_id": case.session_id}]}
    assert server.call("workspace/executeCommand", params) == answer


def test_the_files_beside_it_are_looked_into_unless_told_not_to(
    world: World, server: Client
) -> None:
    case = CASES["records_that_went_to_another_file"](world)
    for more, codes in (({}, ["stray_records"]), ({"include_siblings": False}, [])):
        findings = server.check_session(session_id=case.session_id, **more)["findings"]
        assert [f["code"] for f in findings] == codes


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_exit_code_tells_of_something_wrong_only_when_asked_to(
    world: World, everywhere: bool
) -> None:
    conversation(world)
    arguments = ["check", *(["--all"] if everywhere else [])]
    assert turntree(world, *arguments, "--exit-code").code == 0
    case = CASES["blank_lines"](world)
    assert turntree(world, *arguments, "--exit-code").code == 0
    case.path.unlink()
    CASES["a_call_at_the_end_without_a_result"](world)
    assert turntree(world, *arguments).code == 0
    assert turntree(world, *arguments, "--exit-code").code == 3


def test_all_shows_only_what_something_is_wrong_with(world: World) -> None:
    conversation(world, seed=2)
    conversation(world, seed=3, cwd=world.home)
    case = CASES["a_torn_line"](world)
    remark = Transcript(str(world.home), seed=4)
    remark.turn("one")
    remark.append(b"")
    remark.write(world.store)
    before = store_hash(world.store)
    ran = turntree(world, "check", "--all")
    assert ran.code == 0
    assert [line[:8] for line in ran.lines if "turns · " in line] == [short(case.native_id)]
    assert ran.lines[-1] == (
        "4 sessions checked, something is wrong with 1; 1 session with remarks only. 2 errors."
    )
    answer = result(world, "check", "--all")
    assert {s["session_id"]: len(s["findings"]) for s in answer["sessions"]} == {
        case.session_id: 2,
        f"claude-code:{remark.session_id}": 1,
    }
    assert (answer["checked"], answer["failed"], answer["skipped"]) == (4, [], [])
    assert store_hash(world.store) == before


def test_all_names_what_it_could_not_list(world: World) -> None:
    case = CASES["f020_utf16_little_endian"](world)
    ran = turntree(world, "check", "--all")
    assert ran.lines[-1] == "0 sessions checked, something is wrong with 0."
    assert f"{case.native_id}.jsonl was skipped: no readable message" in ran.err
    # By its id it can be checked, and the beginning of it that is named is enough.
    name = short(case.native_id)
    assert f"no readable message; `turntree check {name}` says more" in ran.err
    ran = turntree(world, "check", name)
    assert "error: other encoding  line 1" in ran.out
    assert f"turntree repair {name} --dry-run" in ran.out
    assert turntree(world, "repair", name, "--dry-run").code == 0


def test_a_beginning_of_two_files_that_cannot_be_listed_names_both(world: World) -> None:
    folder = world.store / "projects" / "-w"
    folder.mkdir(parents=True)
    ids = [f"0f3c0000-0000-4000-8000-00000000000{n}" for n in (1, 2)]
    for id in ids:
        (folder / f"{id}.jsonl").write_bytes(bytes(64))
    ran = turntree(world, "check", "0f3c")
    assert ran.code == 1
    assert "begins the ids of 2 sessions" in ran.err and all(id in ran.err for id in ids)


def test_no_repair_is_offered_where_none_has_anything_to_keep(world: World) -> None:
    case = CASES["a_file_of_nul_bytes"](world)
    ran = turntree(world, "check", case.native_id)
    assert "warning: nul bytes" in ran.out
    assert "turntree repair" not in ran.out


@pytest.mark.parametrize("everywhere", [False, True])
def test_findings_of_one_kind_are_folded_after_the_first_ones(
    world: World, everywhere: bool
) -> None:
    case = CASES["several_hundred_torn_lines"](world)
    ran = turntree(world, "check", *(["--all"] if everywhere else []))
    assert sum(line.startswith("error: torn line") for line in ran.lines) == 6
    folded = ran.lines.index("    … 195 more: torn line, to line 204 (--json lists them)")
    assert ran.lines[folded + 1] == "error: torn line  line 205"
    assert ran.lines[folded + 2].startswith("    100 more of the same kind")
    assert len(result(world, "check", case.native_id)["findings"]) > 200


def test_all_and_a_session_exclude_each_other(world: World) -> None:
    ran = turntree(world, "check", "last", "--all")
    assert ran.code == 2
    assert "exclude each other" in ran.err


def test_listings_name_damaged_sessions_and_what_to_run(world: World) -> None:
    conversation(world, seed=2)
    hint = "turntree check"
    for arguments in (["sessions"], ["turns", "last"], ["show", "last", "1"]):
        assert hint not in turntree(world, *arguments).out
    case = CASES["a_torn_line"](world)
    said = f"{hint} {short(case.native_id)} says what is wrong."
    assert f"1 session is damaged: {said}" in turntree(world, "sessions").out
    for arguments in (["turns", case.native_id], ["show", case.native_id, "1"]):
        assert f"This session is damaged: {said}" in turntree(world, *arguments).out
    assert hint not in turntree(world, "sessions", "--json").out


def test_on_a_terminal_words_are_not_broken(world: World) -> None:
    CASES["a_torn_line"](world)
    with Terminal(world, "check", "last", columns=70) as terminal:
        assert terminal.end() == 0
        assert "torn line" in terminal.text and "missing parent" in terminal.text
        assert "The repair joins" in " ".join(terminal.text.split())
