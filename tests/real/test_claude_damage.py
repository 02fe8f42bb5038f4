"""What the real program makes of damaged sessions: what `check` tells people about it."""

from __future__ import annotations

import subprocess

import orjson
import pytest

from tests.corpus import CASES, Case
from tests.rig.claude import Claude
from tests.world import World

ALL = ["one", "two", "three", "four"]


def sent(claude: Claude, world: World, case: Case, prompt: str = "probe") -> list[str]:
    """The prompts before `prompt` that the model sees when a person resumes the session."""
    claude.ask(prompt, world.cwd, resume=case.native_id)
    *before, last = claude.model.last().prompts()
    assert last == prompt
    return [text.strip() for text in before]


@pytest.mark.parametrize(
    ("name", "prompts"),
    [
        ("nothing_is_wrong", ALL),
        ("a_torn_line", ALL),
        ("f001_three_records_missing", ["one", "four"]),
        ("f006_a_parent_that_exists_nowhere", ["one", "two"]),
        # A whole record on a damaged line is not seen.
        ("f017_a_record_glued_to_a_stub", ["one", "two", "four"]),
        ("f020_a_byte_order_mark_in_the_middle", ["one", "two", "four"]),
        ("nul_bytes_in_the_middle", ["one", "two", "four"]),
        ("f020_a_byte_order_mark_at_the_start", ALL),
        ("f020_carriage_returns", ALL),
        ("bytes_that_are_no_utf8", ALL),
        ("half_of_a_surrogate_pair", ALL),
        ("blank_lines", ALL),
        ("lines_of_nul_bytes", ALL),
        ("records_without_a_timestamp", ALL),
        ("a_pointer_to_an_unknown_record", ALL),
        ("an_answer_before_its_prompt", ALL),
        ("a_circle_of_parents", ["one", "two"]),
        # Copies whose parent is null cut off what came before.
        ("f026_records_written_twice", ["four"]),
        ("f004_a_side_chain_as_ancestor", ["look", "three", "four"]),
        ("f024_every_third_line_is_of_another_session", ["other 0", "other 1"]),
        ("records_that_went_to_another_file", ["one", "two"]),
    ],
)
def test_what_is_resumed_of_a_damaged_session(
    claude: Claude, world: World, name: str, prompts: list[str]
) -> None:
    assert sent(claude, world, CASES[name](world)) == prompts


@pytest.mark.parametrize("name", ["a_torn_end", "f020_nul_bytes_at_the_end"])
def test_the_first_record_that_is_written_behind_an_unfinished_end_is_lost(
    claude: Claude, world: World, name: str
) -> None:
    case = CASES[name](world)
    unfinished = case.path.read_bytes().rpartition(b"\n")[2]
    assert sent(claude, world, case) == ALL
    (line,) = (x for x in case.path.read_bytes().splitlines() if x.startswith(unfinished))
    assert orjson.loads(line.removeprefix(unfinished))
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(line)


@pytest.mark.parametrize(
    "name",
    ["f020_utf16_little_endian", "no_timestamp_anywhere", "f055_a_folder_named_after_a_link"],
)
def test_a_session_that_is_not_found(claude: Claude, world: World, name: str) -> None:
    case = CASES[name](world)
    with pytest.raises(AssertionError, match="No conversation found"):
        claude.ask("probe", world.cwd, resume=case.native_id)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a_call_in_the_middle_without_a_result", [("user", "text", "two")]),
        (
            "a_call_at_the_end_without_a_result",
            [("user", "text", "four"), ("assistant", "text", "No response requested.")],
        ),
        ("a_result_without_its_call", [("user", "text", "(no content)")]),
        (
            "f030_a_server_call_parted_from_its_result",
            [("assistant", "text", "[Tool use interrupted]")],
        ),
        ("f029_thinking_without_a_signature", [("assistant", "thinking", "hm")]),
    ],
)
def test_what_is_sent_of_calls_and_results(
    claude: Claude, world: World, name: str, said: list[tuple[str, str, str]]
) -> None:
    claude.ask("probe", world.cwd, resume=CASES[name](world).native_id)
    history = [(role, kind, text.strip()) for role, kind, text in claude.model.last().said()]
    at = history.index(said[0])
    assert history[at : at + len(said)] == said
    assert not [text for _, kind, text in history if kind in ("tool_use", "tool_result")]


def test_an_image_of_over_five_mebibytes_stops_every_request(claude: Claude, world: World) -> None:
    case = CASES["f121_an_image_that_no_model_takes"](world)
    process: subprocess.Popen[str] = claude.start("probe", world.cwd, resume=case.native_id)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "exceeds API limit (5MB)" in out
