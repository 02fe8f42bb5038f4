"""Two processes at one session, one id, one staged child, and a program that writes meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from session import osfile
from tests.builders import Transcript, live_session
from tests.chain import to_json
from tests.client import Client, RpcError
from tests.crash.remains import check_clean, operations
from tests.crash.starting import initialize
from tests.server.program import turntree
from tests.world import World, assert_untouched, store_hash

ROUNDS = 40

Outcome = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def racing(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("racing"))


@pytest.fixture(scope="module")
def servers(racing: World) -> Iterator[tuple[Client, Client]]:
    """Two servers on one store."""
    with Client(racing.env(), initialize=False) as one, Client(racing.env()) as other:
        initialize(one)
        yield one, other


def session(world: World, turns: int, *, seed: int) -> tuple[str, Path, list[str]]:
    """A session of `turns` turns: its id, its file, its turns' ids."""
    transcript = Transcript(str(world.cwd), seed=seed)
    ids = transcript.turns(turns)
    return f"claude-code:{transcript.session_id}", transcript.write(world.store), ids


def at_once(servers: tuple[Client, Client], *requests: tuple[str, dict[str, Any]]) -> list[Outcome]:
    """Send one request to each server at the same time: (status or error kind, answer)."""
    sent = [
        (server, server.send(method, params))
        for server, (method, params) in zip(servers, requests, strict=True)
    ]
    return [outcome(server, request_id) for server, request_id in sent]


def outcome(server: Client, request_id: int) -> Outcome:
    try:
        result = server.wait(request_id)
    except RpcError as error:
        assert error.kind is not None
        return error.kind, error.data
    return result.get("status", "promoted"), result


def test_one_request_from_two_processes_makes_one_child(
    racing: World, servers: tuple[Client, Client]
) -> None:
    source, path, turns = session(racing, 4, seed=101)
    before = store_hash(path.parent)
    for number in range(ROUNDS):
        child = str(uuid.uuid4())
        params = {"session_id": source, "new_session_id": child, "at": {"turn_number": 3}}
        order = servers if number % 2 else (servers[1], servers[0])
        outcomes = at_once(order, ("fork_session", params), ("fork_session", params))

        assert Counter(status for status, _ in outcomes) == {"forked": 1, "already_forked": 1}
        first, second = (answer for _, answer in outcomes)
        assert first["operation_id"] == second["operation_id"]
        told = servers[0].list_turns(session_id=f"claude-code:{child}")
        assert [turn["turn_id"] for turn in told["turns"]] == turns[:3]
    assert_untouched(before, path.parent)
    assert len(list(path.parent.glob("*.jsonl"))) == ROUNDS + 1
    made = servers[0].list_operations(session_id=source, limit=500)["operations"]
    assert [o["state"] for o in made] == ["done"] * ROUNDS
    check_clean(racing, servers[0])


def test_two_requests_with_one_new_id_make_one_child_of_one_of_them(
    racing: World, servers: tuple[Client, Client]
) -> None:
    source, _, turns = session(racing, 4, seed=102)
    for number in range(ROUNDS):
        child = str(uuid.uuid4())
        both = [
            (
                "fork_session",
                {"session_id": source, "new_session_id": child, "at": {"turn_number": n}},
            )
            for n in (2, 3)
        ]
        order = servers if number % 2 else (servers[1], servers[0])
        outcomes = at_once(order, *both)

        assert Counter(status for status, _ in outcomes) == {"forked": 1, "session_exists": 1}
        kept = 2 if outcomes[0][0] == "forked" else 3
        told = servers[0].list_turns(session_id=f"claude-code:{child}")
        assert [turn["turn_id"] for turn in told["turns"]] == turns[:kept]
    check_clean(racing, servers[0])


def test_four_command_lines_with_one_new_id_make_one_child(racing: World) -> None:
    source, path, _ = session(racing, 3, seed=103)
    child = str(uuid.uuid4())
    with ThreadPoolExecutor(4) as pool:
        runs = list(
            pool.map(
                lambda _: turntree(racing, "fork", source, "--at", "2", "--id", child, "--json"),
                range(4),
            )
        )
    assert [run.code for run in runs] == [0] * 4, [run.out + run.err for run in runs]
    statuses = Counter(run.json["status"] for run in runs)
    assert statuses == {"forked": 1, "already_forked": 3}
    assert path.with_name(f"{child}.jsonl").is_file()


def test_a_staged_child_is_either_promoted_or_discarded(
    racing: World, servers: tuple[Client, Client]
) -> None:
    source, path, _ = session(racing, 3, seed=104)
    won: Counter[str] = Counter()
    for number in range(ROUNDS // 2):
        child = str(uuid.uuid4())
        servers[0].fork_session(session_id=source, new_session_id=child, stage=True)
        params = {"session_id": f"claude-code:{child}"}
        order = servers if number % 2 else (servers[1], servers[0])
        (promoted, _), (discarded, _) = at_once(
            order, ("promote_session", params), ("discard_session", params)
        )
        published = path.with_name(f"{child}.jsonl").exists()
        expected = ("promoted", "not_staged") if published else ("not_staged", "discarded")
        assert (promoted, discarded) == expected
        won[promoted] += 1
    check_clean(racing, servers[0])


def test_rewinds_of_two_processes_come_one_after_the_other(
    racing: World, servers: tuple[Client, Client]
) -> None:
    source, path, turns = session(racing, 60, seed=105)
    original = path.read_bytes()
    rounds = 15
    for number in range(rounds):
        both = [
            ("rewind", {"session_id": source, "to": {"by": 1}, "operation_id": f"r{number}-{n}"})
            for n in (1, 2)
        ]
        outcomes = at_once(servers, *both)
        assert [status for status, _ in outcomes] == ["rewound", "rewound"]
        left = sorted(answer["turns"]["kept"] for _, answer in outcomes)
        assert left == [60 - 2 * number - 2, 60 - 2 * number - 1]
    told = servers[0].list_turns(session_id=source)
    assert [turn["turn_id"] for turn in told["turns"]] == turns[: 60 - 2 * rounds]

    for _ in range(rounds):
        outcomes = at_once(
            servers, ("undo", {"session_id": source}), ("undo", {"session_id": source})
        )
        assert [status for status, _ in outcomes] == ["undone", "undone"]
        assert outcomes[0][1]["operation_id"] != outcomes[1][1]["operation_id"]
    assert path.read_bytes() == original
    assert outcome(servers[0], servers[0].send("undo", {"session_id": source}))[0] == (
        "nothing_to_undo"
    )
    check_clean(racing, servers[0])


def test_swaps_of_two_processes_come_one_after_the_other(
    racing: World, servers: tuple[Client, Client]
) -> None:
    transcript = Transcript(str(racing.cwd), seed=106, version="2.1.100")
    turns = transcript.turns(20)
    path = transcript.write(racing.store)
    original = path.read_bytes()
    source = f"claude-code:{transcript.session_id}"
    for _ in range(5):
        both = ("rewind", {"session_id": source, "to": {"by": 1}})
        assert [status for status, _ in at_once(servers, both, both)] == ["rewound", "rewound"]
    told = servers[1].list_turns(session_id=source)
    assert [turn["turn_id"] for turn in told["turns"]] == turns[:10]
    for _ in range(5):
        both = ("undo", {"session_id": source})
        assert [status for status, _ in at_once(servers, both, both)] == ["undone", "undone"]
    assert path.read_bytes() == original
    check_clean(racing, servers[0])


def test_one_operation_id_sent_by_two_processes_is_done_once(
    racing: World, servers: tuple[Client, Client]
) -> None:
    source, path, _ = session(racing, 40, seed=107)
    for number in range(15):
        request = (
            "rewind",
            {
                "session_id": source,
                "to": {"turn_number": 39 - number},
                "operation_id": f"o{number}",
            },
        )
        outcomes = at_once(servers, request, request)
        assert Counter(status for status, _ in outcomes) == {"rewound": 1, "already_done": 1}
        request = ("undo", {"session_id": source, "request_id": f"u{number}"})
        outcomes = at_once(servers, request, request)
        assert Counter(status for status, _ in outcomes) == {"undone": 1, "already_done": 1}
    assert path.read_bytes().count(b'"explicit"') == 0


WRITER = """
import os, sys, time
path, shadow, script, stop = sys.argv[1:]
lines = open(script, "rb").read().splitlines(keepends=True)
out = os.open(path, os.O_WRONLY | os.O_APPEND)
copy = os.open(shadow, os.O_WRONLY | os.O_APPEND)
print("ready", flush=True)
for number, line in enumerate(lines):
    if os.path.exists(stop):
        break
    cut = len(line) * (number % 4) // 4
    for part in (line[:cut], line[cut:]):
        if part:
            os.write(copy, part)
            os.write(out, part)
            time.sleep(0.002)
"""
"""A program that appends the lines of a script, some of them in two writes."""


@pytest.mark.parametrize("registered", [True, False])
def test_a_fork_while_its_source_is_written_holds_whole_turns(
    racing: World, servers: tuple[Client, Client], tmp_path: Path, registered: bool
) -> None:
    transcript = Transcript(str(racing.cwd), seed=108 + registered)
    transcript.turns(3)
    path = transcript.write(racing.store)
    shadow, script, stop = tmp_path / "shadow", tmp_path / "script", tmp_path / "stop"
    shadow.write_bytes(path.read_bytes())
    known = len(transcript.records)
    for number in range(1500):
        transcript.prompt(f"written question {number}")
        transcript.tool("Bash", {"command": "ls"}, "a line of output\n" * 20)
        transcript.answer(f"written answer {number}")
    lines = [to_json(r) for r in transcript.records[known:] if isinstance(r, dict)]
    script.write_bytes(b"".join(line + b"\n" for line in lines))
    source = f"claude-code:{transcript.session_id}"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(shadow), str(script), str(stop)],
        stdout=subprocess.PIPE,
    )
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        if registered:
            start = osfile.process_start(writer.pid)
            live_session(racing.store, writer.pid, transcript.session_id, procStart=start)
        children = []
        for number in range(ROUNDS // 2):
            child = str(uuid.uuid4())
            made = servers[number % 2].fork_session(session_id=source, new_session_id=child)
            assert made["status"] == "forked"
            children.append(child)
        assert writer.poll() is None, "the writer was through before the forks were"
    finally:
        stop.touch()
        assert writer.wait(60) == 0
        writer.stdout.close()
    assert path.read_bytes() == shadow.read_bytes()

    lengths = []
    for child in children:
        told = servers[0].list_turns(session_id=f"claude-code:{child}", limit=500)
        count = told["total_turns"]
        lengths.append(count)
        numbers = [turn["turn_id"] for turn in told["turns"]]
        assert numbers == transcript.prompts[: len(numbers)]
        assert told["gaps"] == []
        if registered:
            newest = servers[0].list_turns(
                session_id=f"claude-code:{child}", order="newest", limit=1
            )
            assert newest["turns"][0]["status"] == "complete"
            assert newest["turns"][0]["response"].startswith(("answer", "written answer"))
        calls = check_pairs(path.with_name(f"{child}.jsonl"))
    assert calls
    assert lengths == sorted(lengths)
    assert lengths[-1] > lengths[0]
    check_clean(racing, servers[0])


def check_pairs(child: Path) -> set[str]:
    """Every line is a whole record, every tool result has its call, every call but the last its
    result; returns the calls."""
    calls: set[str] = set()
    results: set[str] = set()
    for line in child.read_bytes().splitlines():
        record = json.loads(line)
        content = record.get("message", {}).get("content")
        for block in content if isinstance(content, list) else ():
            if block["type"] == "tool_use":
                calls.add(block["id"])
            elif block["type"] == "tool_result":
                results.add(block["tool_use_id"])
    assert results <= calls
    assert len(calls - results) <= 1
    return calls


def test_nothing_is_unfinished_after_all_that(servers: tuple[Client, Client]) -> None:
    assert {o["state"] for o in operations(servers[0])} <= {"done", "undone", "discarded"}
