"""Searching by a real server and by the command line: what is found, and what interrupts it."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from session.model import HIT, HIT_END
from tests.builders import Transcript
from tests.client import Client, RpcError, wait_until
from tests.crash.disks import mode, mounted, needs_root, unprivileged
from tests.server.program import Terminal, conversation, result, turntree
from tests.world import World

COUNT = 40


@pytest.fixture
def store(world: World) -> list[str]:
    """Sessions that all have a word in common; their ids."""
    ids = []
    for seed in range(COUNT):
        t = Transcript(str(world.cwd), seed=seed)
        t.turn(f"common words {seed}", "an answer")
        t.write(world.store)
        ids.append(f"claude-code:{t.session_id}")
    return ids


def all_matches(client: Client, query: str) -> set[str]:
    page = client.search_turns(query=query, limit=500)
    return {match["session_id"] for match in page["matches"]}


def is_whole(client: Client) -> bool:
    return "indexing" not in client.search_turns(query="anything")


def turns_in_the_index(world: World) -> dict[str, int]:
    """Turn id -> its number in the index, which is another one when it is indexed again."""
    (path,) = world.state.glob("search-*.db")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        return dict(database.execute("SELECT turn_id, turn FROM turns").fetchall())


# A server


def test_a_server_indexes_behind_and_finds(world: World, store: list[str]) -> None:
    with Client(world.env()) as client:
        first = client.search_turns(query="common")
        assert first["indexing"]["total"] == COUNT
        wait_until(lambda: is_whole(client), what="all was indexed")
        assert all_matches(client, "common") == set(store)
        (match,) = client.search_turns(query='"words 7"')["matches"]
        assert match["snippet"] == f"common {HIT}words 7{HIT_END}"
        assert match["turn_number"] == 1
        twin = client.call(
            "workspace/executeCommand",
            {"command": "turntree.search_turns", "arguments": [{"query": '"words 7"'}]},
        )
        assert twin == {"matches": [match], "next_cursor": None}
        with pytest.raises(RpcError) as refused:
            client.search_turns(query="-")
        assert (refused.value.code, refused.value.data["field"]) == (-32602, "query")


def test_what_a_listing_comes_upon_is_searchable_soon(world: World, store: list[str]) -> None:
    with Client(world.env()) as client:
        wait_until(lambda: is_whole(client), what="all was indexed")
        native = conversation(world, 1, seed=99)
        client.list_sessions()
        # By nothing else: a search would have it indexed, too.
        wait_until(lambda: len(turns_in_the_index(world)) > COUNT, what="it was indexed")
        assert all_matches(client, "question") == {f"claude-code:{native}"}


def test_words_that_were_committed_before_a_death_are_not_read_again(
    world: World, store: list[str], tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    fault = {"TURNTREE_FAULT": "index.worded:halt", "TURNTREE_FAULT_READY": str(ready)}
    client = Client({**world.env(), **fault})
    wait_until(ready.exists, what="the first session's words")
    client.kill()
    before = turns_in_the_index(world)
    assert len(before) == 1
    with Client(world.env()) as heir:
        wait_until(lambda: is_whole(heir), what="the rest was indexed")
        assert all_matches(heir, "common") == set(store)
    after = turns_in_the_index(world)
    assert len(after) == COUNT
    assert before.items() <= after.items()


def test_an_index_that_may_only_be_read_is_searched_as_it_is(world: World) -> None:
    conversation(world)
    result(world, "search", "question")
    with (
        mode(world.state, 0o555),
        Client(world.env(), launcher=unprivileged()) as client,
    ):
        assert len(client.search_turns(query="question")["matches"]) == 5
        conversation(world, 6)
        page = client.search_turns(query="question")
        assert len(page["matches"]) == 5
        assert page["indexing"] == {"done": 0, "total": 1}


def test_without_an_index_a_home_that_may_not_be_written_is_named(world: World) -> None:
    conversation(world)
    world.state.mkdir()
    with (
        mode(world.state, 0o555),
        Client(world.env(), launcher=unprivileged()) as client,
    ):
        with pytest.raises(RpcError) as refused:
            client.search_turns(query="question")
        assert refused.value.kind == "storage_error"
        assert str(world.state) in refused.value.message
        assert client.list_sessions()["sessions"]


@needs_root
def test_a_full_disk_leaves_what_is_indexed(world: World, store: list[str]) -> None:
    with mounted(world.state, "64m") as disk:
        result(world, "search", "common")
        before = turns_in_the_index(world)
        for seed in range(COUNT, COUNT + 20):
            t = Transcript(str(world.cwd), seed=seed)
            t.turn(f"common later {seed}", "an answer " + " ".join(map(str, range(seed * 1000))))
            t.write(world.store)
        disk.fill(0)
        ran = turntree(world, "search", "common", "--limit", "500")
        assert ran.code == 0, ran.err
        assert ran.out.count("turn 1") >= COUNT
        assert "not everything could be indexed" in ran.err
        assert before.items() <= turns_in_the_index(world).items()
        with Client(world.env()) as client:
            assert set(store) <= all_matches(client, "common")
            assert len(client.list_sessions(limit=500)["sessions"]) == COUNT + 20
        disk.free()
        with Client(world.env()) as client:
            wait_until(lambda: is_whole(client), what="there was room again")


# The command line


def test_the_command_indexes_first_and_shows_what_it_found(world: World, store: list[str]) -> None:
    ran = turntree(world, "search", "common", '"words 7"')
    assert (ran.code, ran.err) == (0, "")
    native = store[7].partition(":")[2]
    assert ran.lines[0] == f"{native}  turn 1 · 2026-01-31  common words 7"
    assert ran.lines[1].strip() == "common words 7"
    assert ran.lines[-1] == f"Show one: turntree show {native[:8]} 1"
    shown = turntree(world, *ran.lines[-1].split()[3:])
    assert "common words 7" in shown.out


def test_a_search_keeps_to_a_session_and_a_directory(world: World, store: list[str]) -> None:
    elsewhere = world.home / "elsewhere"
    elsewhere.mkdir()
    other = conversation(world, 1, seed=99, cwd=elsewhere)
    for option in ("--cwd", "--dir"):
        page = result(world, "search", "question", option, "elsewhere", cwd=world.home)
        assert [m["session_id"] for m in page["matches"]] == [f"claude-code:{other}"]
    page = result(world, "search", "common", "--session", store[3])
    assert [m["session_id"] for m in page["matches"]] == [store[3]]
    assert page == {"matches": page["matches"], "next_cursor": None}


def test_a_search_goes_on_where_the_page_ended(world: World, store: list[str]) -> None:
    ran = turntree(world, "search", "common", "words", "--limit", "30")
    more = next(line for line in ran.lines if line.startswith("More: "))
    assert "turntree search 'common words' --limit 30 --cursor " in more
    rest = turntree(world, "search", "common words", "--limit", "30", "--cursor", more.split()[-1])
    assert ran.out.count("  turn 1 ·") + rest.out.count("  turn 1 ·") == COUNT


def test_a_search_that_finds_nothing_says_so(world: World, store: list[str]) -> None:
    ran = turntree(world, "search", "nowhere")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0] == "Nothing found."
    assert ran.lines[-1].split()[0] == "claude-code"
    ran = turntree(world, "search", "--", "-")
    assert ran.code == 1
    assert "holds no word" in ran.err


def test_a_turn_of_an_abandoned_branch_can_be_shown(world: World) -> None:
    native = conversation(world, 3)
    turntree(world, "rewind", native, "--by", "1")
    ran = turntree(world, "search", "question", "3")
    assert "on an abandoned branch" in ran.lines[0]
    shown = turntree(world, *ran.lines[-1].split()[3:])
    assert "question 3" in shown.out
    assert shown.lines[0].endswith(", on an abandoned branch")
    assert "abandoned" not in turntree(world, "show", native, "2").out


def test_on_a_terminal_hits_stand_out_and_a_prompt_steers_nothing(world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turn("\x1b[2J before needle after \x9b2J")
    t.write(world.store)
    with Terminal(world, "search", "needle") as terminal:
        assert terminal.end() == 0
    assert "before \x1b[1;32mneedle\x1b[0m after" in terminal.text
    assert "\x1b[2J" not in terminal.text and "\x9b" not in terminal.text
    assert HIT not in terminal.text


def test_hits_stand_out_where_colours_are_not_wanted(world: World) -> None:
    conversation(world)
    with Terminal(world, "search", "question", env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    assert "\x1b[1mquestion\x1b[0m 1" in terminal.text


@pytest.fixture
def halted(world: World, store: list[str], tmp_path: Path) -> Iterator[Terminal]:
    """A search that has stopped after the first session's words."""
    ready = tmp_path / "ready"
    fault = {"TURNTREE_FAULT": "index.worded:halt", "TURNTREE_FAULT_READY": str(ready)}
    with Terminal(world, "search", "common", env=fault) as terminal:
        wait_until(ready.exists, what="the first session's words")
        yield terminal


def test_interrupting_a_search_keeps_what_is_indexed(world: World, halted: Terminal) -> None:
    before = turns_in_the_index(world)
    assert len(before) == 1
    os.kill(halted.process.pid, signal.SIGINT)
    assert halted.end() == 130
    assert "Traceback" not in halted.text
    assert len(result(world, "search", "common", "--limit", "500")["matches"]) == COUNT
    assert before.items() <= turns_in_the_index(world).items()
