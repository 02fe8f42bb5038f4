"""The process: what it loads, how it ends, what it helps a shell with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from session.locks import Locks
from tests.server.program import command, conversation, environment, turntree
from tests.world import World, store_hash

COMMANDS = (
    "sessions",
    "turns",
    "show",
    "tree",
    "branches",
    "check",
    "fork",
    "repair",
    "rewind",
    "undo",
    "redo",
    "operations",
    "search",
    "promote",
    "discard",
    "serve",
    "completion",
)
LATER = ("snapshot", "diff", "blame", "verify", "gc", "acp", "purge")


PROBE = """
import sys
from server.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
RICH = {"pygls", "lsprotocol", "cattrs", "rich", "watchfiles", "email"}
LOOP = {"asyncio", "aiosqlite", "concurrent", "logging", "socket"}
CHANGING = {
    *("hashlib", "shutil", "session.forking", "session.rewinding", "session.operations"),
    *("session.effects", "session.staging", "session.locks"),
    *("session.agents.claude_code.fork", "session.agents.claude_code.transcript"),
}


def test_a_piped_listing_of_known_sessions_loads_nothing_that_it_does_not_use(
    world: World,
) -> None:
    conversation(world)
    first, again = loaded_by(world, "sessions"), loaded_by(world, "sessions")
    assert not first & (RICH | LOOP)
    assert not again & (RICH | LOOP | CHANGING)


def test_commands_that_only_look_need_no_event_loop(world: World) -> None:
    conversation(world)
    for words in ("turns last", "show last 1", "branches last", "tree --all", "operations", ""):
        assert not loaded_by(world, *words.split()) & LOOP, words


def loaded_by(world: World, *arguments: str) -> set[str]:
    """The modules, and the packages above them, that a piped command loads."""
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        cwd=world.cwd,
        env=environment(world),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout
    names = ran.stderr.split()
    return {*names, *(name.partition(".")[0] for name in names)}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(world: World, name: str) -> None:
    shown = turntree(world, name, "-h")
    assert shown.code == 0
    assert ("--json" in shown.out) == (name not in ("serve", "completion"))
    assert "turntree" in shown.out.partition("Examples:\n")[2]


def test_only_what_works_is_offered(world: World) -> None:
    shown = turntree(world, "--help").out
    assert shown == turntree(world, "-h").out
    assert all(f"\n  {name} " in shown for name in COMMANDS)
    assert not any(f"\n  {name} " in shown for name in LATER)


def test_the_version_is_one_line(world: World) -> None:
    ran = turntree(world, "--version")
    assert ran.code == 0 and ran.out.startswith("turntree ") and ran.out.count("\n") == 1


def test_a_mistyped_command_is_answered_with_the_nearest(world: World) -> None:
    ran = turntree(world, "frok")
    assert ran.code == 2 and "fork" in ran.err


@pytest.mark.parametrize("arguments", [["turns", "last"], ["turns", "last", "--json"]])
def test_a_reader_that_leaves_is_no_error_message(world: World, arguments: list[str]) -> None:
    conversation(world, 400)
    process = subprocess.Popen(
        [*command(), *arguments, "--limit", "400"],
        cwd=world.cwd,
        env=environment(world),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert errors == b""


@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions"],
        ["turns", "last", "--json"],
        ["turns", "zzz", "--json"],
        ["--help"],
        ["--version"],
        ["completion", "bash"],
    ],
)
def test_output_that_cannot_be_written_is_one_line_of_error(
    world: World, arguments: list[str]
) -> None:
    conversation(world)
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*command(), *arguments],
            cwd=world.cwd,
            env=environment(world),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"error: ") and ran.stderr.count(b"\n") == 1
    assert b"standard output" in ran.stderr or "zzz" in arguments


@pytest.mark.parametrize("arguments", [["turns", "zzz"], ["frok"]])
def test_an_error_that_cannot_be_told_still_has_its_exit_code(
    world: World, arguments: list[str]
) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [*command(), *arguments],
            cwd=world.cwd,
            env=environment(world),
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
        )
    assert (ran.returncode, ran.stdout) == (2 if arguments == ["frok"] else 1, b"")


def test_what_is_not_in_this_version_is_said_to_be_so(world: World) -> None:
    for name, count in (("rewind", 2), ("fork", 1)):
        shown = " ".join(turntree(world, name, "-h").out.split())
        assert shown.count("not in this version yet") == count


def test_a_closed_stdout_is_no_crash(world: World) -> None:
    conversation(world)
    ran = subprocess.run(
        ["bash", "-c", '"$@" >&-', "bash", *command(), "sessions"],
        cwd=world.cwd,
        env=environment(world),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0 and ran.stderr == b""


def test_a_latin_terminal_shows_what_it_can(world: World) -> None:
    conversation(world)
    ran = turntree(world, "sessions", "--all", env={"PYTHONIOENCODING": "latin-1"})
    assert ran.code == 0 and "\\u65b0\\u805e" in ran.out


def test_an_interrupted_command_exits_130_without_a_traceback(world: World) -> None:
    native = conversation(world, 3)
    before = store_hash(world.store)
    with Locks(world.state, "test").try_hold(f"claude-code:{native}") as held:
        assert held
        process = subprocess.Popen(
            [*command(), "rewind", native, "--by", "1", "--wait-ms", "60000"],
            cwd=world.cwd,
            env=environment(world),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        while not has_open(process.pid, ".lock"):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert store_hash(world.store) == before


def has_open(pid: int, ending: str) -> bool:
    """Whether the process has a file open whose name ends so: how far it has got."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(entry).endswith(ending):
                return True
        except FileNotFoundError:
            continue
    return False


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_says_how_to_install_it(world: World, shell: str) -> None:
    ran = turntree(world, "completion", shell)
    assert ran.code == 0
    assert any(line.startswith("# Install with:  ") for line in ran.lines[:2])
    assert "_TURNTREE_COMPLETE" in ran.out


def complete(world: World, *typed: str, shell: str = "zsh") -> list[str]:
    """What the shell is told when the last of `typed` is to be completed."""
    line = {
        "COMP_WORDS": " ".join(["turntree", *typed]),
        "COMP_CWORD": str(len(typed)),
        "_TURNTREE_COMPLETE": f"{shell}_complete",
    }
    ran = turntree(world, env=line)
    assert ran.code == 0 and ran.err == ""
    return [row for row in ran.lines if row]


def test_a_shell_completes_session_ids_with_their_titles(world: World) -> None:
    native = conversation(world)
    told = complete(world, "fork", native[:3])
    assert told == ["plain", native, "question 1"]
    assert complete(world, "fork", "la") == ["plain", "last", "the newest in this directory"]
    assert f"plain,{native}" in complete(world, "turns", "", shell="bash")


def test_a_session_of_another_directory_is_completed_too(world: World) -> None:
    native = conversation(world, cwd=world.home / "elsewhere")
    assert native in complete(world, "turns", native[:3])


def test_only_staged_sessions_are_completed_where_only_they_will_do(world: World) -> None:
    native = conversation(world)
    staged = json.loads(turntree(world, "fork", native, "--stage", "--json").out)["session"]
    id = staged["session_id"].partition(":")[2]
    for verb in ("promote", "discard"):
        assert complete(world, verb, "") == ["plain", id, "question 1 (fork)"]


def test_a_shell_completes_turn_numbers_with_their_prompts(world: World) -> None:
    native = conversation(world, 3)
    told = complete(world, "show", native, "")
    assert told == [
        *("plain", "3", "question 3"),
        *("plain", "2", "question 2"),
        *("plain", "1", "question 1"),
    ]
    assert complete(world, "rewind", native, "--before", "2") == ["plain", "2", "question 2"]


def test_a_shell_completes_operations_and_directories(world: World) -> None:
    native = conversation(world, 3)
    operation = json.loads(turntree(world, "rewind", native, "--by", "1", "--json").out)
    told = complete(world, "undo", "--operation", "")
    assert told == ["plain", operation["operation_id"], "rewind to 2 turns, 1 dropped"]
    assert complete(world, "fork", "last", "--cwd", "x", shell="bash") == ["dir,x"]


def test_a_shell_completes_the_names_of_repairs_with_what_they_do(world: World) -> None:
    told = complete(world, "repair", "last", "--repair", "bri")
    assert told == ["plain", "bridge_gaps", "join both sides of missing records"]


def test_completion_is_silent_where_something_is_wrong(world: World) -> None:
    world.state.write_text("in the way")
    assert complete(world, "show", "zzz", "1") == []
    assert complete(world, "turns", "x") == []


def test_serve_starts_the_server(world: World) -> None:
    process = subprocess.Popen(
        [*command(), "serve", "--log-level", "debug"],
        cwd=world.cwd,
        env=environment(world),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    body = b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}'
    end = b'{"jsonrpc":"2.0","method":"exit"}'
    sent = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(m), m) for m in (body, end))
    out, _ = process.communicate(sent, timeout=60)
    assert b'"id":1' in out.replace(b" ", b"")
    assert process.returncode is not None and process.returncode >= 0
