"""What is said is not what a model takes: calls without results, results without calls, …"""

from __future__ import annotations

from typing import Any

from tests.builders import Transcript
from tests.corpus.case import FOUR, Case, case, told, written
from tests.world import World


def image(size: int) -> dict[str, Any]:
    """An image block of `size` characters of base64."""
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" + "A" * (size - 8)}
    return {"type": "image", "source": source}


def screenshots(t: Transcript, count: int, size: int) -> None:
    """A turn whose tool returned images, each of which stands twice on its line."""
    t.prompt("three")
    for _ in range(count):
        block = image(size)
        t.tool("Screenshot", {}, [block], structured=[block])
    t.answer()


@case
def a_call_at_the_end_without_a_result(world: World) -> Case:
    t = told(world, *FOUR[:3])
    t.prompt("four")
    t.tool("Bash", {"command": "sleep 100"}, None)
    return written(world, t, [("dangling_call", 8)])


@case
def a_call_in_the_middle_without_a_result(world: World) -> Case:
    t = told(world, "one")
    t.prompt("two")
    t.tool("Bash", {"command": "ls"}, None)
    t.turn("three")
    t.turn("four")
    return written(world, t, [("dangling_call", 4)])


@case
def f027_two_results_of_three_parallel_calls(world: World) -> Case:
    """anthropics/claude-code#45286: every later request is refused."""
    t = told(world, "one")
    t.prompt("two")
    t.parallel_tools(
        [
            ("Bash", {"command": "a"}, "first"),
            ("Bash", {"command": "b"}, "second"),
            ("Bash", {"command": "c"}, None),
        ]
    )
    t.answer()
    t.turn("three")
    t.turn("four")
    return written(world, t, [("dangling_call", 6)])


@case
def parallel_calls_with_their_results(world: World) -> Case:
    t = told(world, "one")
    t.prompt("two")
    t.parallel_tools([("Bash", {"command": name}, f"of {name}") for name in "abc"])
    t.answer()
    t.turn("three")
    t.turn("four")
    return written(world, t)


@case
def a_result_without_its_call(world: World) -> Case:
    t = told(world, "one")
    t.prompt("two")
    call = t.tool("Bash", {"command": "ls"}, "a.py")
    t.find(call.use)["message"]["content"] = [{"type": "text", "text": "it was cut out"}]
    t.answer()
    t.turn("three")
    t.turn("four")
    return written(world, t, [("orphan_result", 5)])


@case
def a_dangling_call_on_an_abandoned_branch(world: World) -> Case:
    """Nobody resumes it: nothing is wrong with the session."""
    t = told(world, "one")
    head = t.head
    t.prompt("aside")
    t.tool("Bash", {"command": "ls"}, None)
    t.branch_from(head)
    for prompt in FOUR[1:]:
        t.turn(prompt)
    return written(world, t, branches=2)


@case
def f029_thinking_without_a_signature(world: World) -> Case:
    """can1357/oh-my-pi#2851."""
    t = told(world, "one")
    t.prompt("two")
    t.thinking("hm", "so it is", signature="")
    t.prompt("three")
    t.thinking("signed", "yes")
    t.prompt("four")
    t.blocks([{"type": "thinking", "thinking": "not even the member"}])
    t.answer()
    return written(world, t, [("unsigned_thinking", 4), ("unsigned_thinking", 10)])


def _server_call(world: World, between: str | None) -> Transcript:
    t = told(world, "one")
    t.prompt("two")
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}}
    result = {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    if between is None:
        t.blocks([call, result, {"type": "text", "text": "so"}])
    else:
        t.blocks([call], stop=False)
        first = t.messages()[-1]
        t.meta(between)
        t.blocks([result, {"type": "text", "text": "so"}])
        for record in t.messages()[-2:]:
            record["message"]["id"] = first["message"]["id"]
    t.turn("three")
    t.turn("four")
    return t


@case
def f030_a_server_call_parted_from_its_result(world: World) -> Case:
    """anthropics/claude-code#88957: a reminder stands between the two; every fork of it died."""
    t = _server_call(world, "<system-reminder>The session was renamed.</system-reminder>")
    return written(world, t, [("split_call", 4)])


@case
def a_server_call_with_its_result(world: World) -> Case:
    return written(world, _server_call(world, None))


@case
def f120_images_that_dominate(world: World) -> Case:
    """anthropics/claude-code#83206: 134 blocks of 90 KB, 67 screenshots, each stored twice."""
    t = told(world, "one", "two")
    screenshots(t, 67, 90_000)
    t.turn("four")
    return written(world, t, [("images_dominate", 7)])


@case
def f121_an_image_that_no_model_takes(world: World) -> Case:
    """github/copilot-cli#3767: over 5 MB, every later request is refused."""
    t = told(world, "one", "two")
    screenshots(t, 1, 9_000_000)
    t.turn("four")
    return written(world, t, [("images_dominate", 7), ("oversized_image", 7)])


@case
def large_outputs(world: World) -> Case:
    t = told(world, "one", "two")
    t.prompt("three")
    for _ in range(30):
        t.tool("Bash", {"command": "cat"}, "x" * 40_000)
    t.answer()
    t.turn("four")
    return written(world, t, [("large_outputs", 7)])


@case
def a_compaction_in_a_file_over_five_mebibytes(world: World) -> Case:
    t = told(world, "one", "two")
    t.prompt("three")
    t.answer("y" * (6 << 20))
    t.compact()
    t.turn("four")
    return written(world, t, [("over_read_limit", 7)])
