"""Turntree's main job on sample sessions: look, fork, rewind, undo.  Run by `make demo`.

Everything happens in a temporary directory.  Each step is checked, and the first one that
is not as promised ends the demo with exit code 1.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from client import Client, RpcError
from store import TIDES, SampleStore, lay_out

SESSION = f"claude-code:{TIDES}"
FORK = "5f0c1b1e-2d7a-4c11-9f3e-7a6f0d2b9c40"
WIDTH = 96


class NotAsPromised(Exception):
    """A step of the demo did something else than it says."""


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="turntree-demo-") as root:
            show(Path(root))
    except (NotAsPromised, RpcError, ConnectionError) as error:
        print(f"\nNot as promised: {error}", file=sys.stderr)
        return 1
    program = shlex.quote(shown_program())
    print("\nThe temporary store is gone.  On your own sessions, beginning with what only looks:\n")
    print(f"  {program}                              what is found on this machine")
    print(f"  {program} tree                         sessions and their forks")
    print(f"  {program} turns last                   the newest session of this directory")
    print(f"  {program} fork last --at 2 --dry-run   what a fork would hold")
    return 0


def show(root: Path) -> None:
    store = lay_out(root)
    transcript = store.transcript(TIDES)
    before = fingerprint(transcript)
    print("Three sample sessions of Claude Code, in a temporary store.")

    step("What is there", "turntree")
    told(turntree(store), "claude-code")
    step("Sessions and their forks", "turntree tree")
    told(turntree(store, "tree"), "Read a tide table", "tide table as csv", "now and then")
    step("The turns of one", f"turntree turns {TIDES[:8]}")
    told(turntree(store, "turns", TIDES[:8]), "How would you read", "Keep it simple")

    step("Fork it at turn 2, through a server", "turntree serve")
    with Client([program(), "serve"], store.env, store.project) as client:
        greet(client)
        fork(client, store)
        promise(fingerprint(transcript) == before, "the fork leaves the source alone")
        say("The source has the bytes, mode and time it had.")

        step("Rewind the original by one turn")
        rewind(client)
        promise(fingerprint(transcript) != before, "the rewind is in the agent's own file")

        step("Undo that")
        undo(client)
        digest = fingerprint(transcript)[0]
        promise(digest == before[0], "undo restores the file byte for byte")
        say(f"Its file is again what it was, byte for byte (SHA-256 {digest[:12]}...).")
    promise(client.exit_code == 0, f"the server ends with 0 after shutdown, not {client.exit_code}")

    step("The fork has its place in the tree", "turntree tree")
    told(turntree(store, "tree"), "Read a tide table (fork)")


def greet(client: Client) -> None:
    hello = client.request("initialize", processId=None, rootUri=None, capabilities={})
    client.notify("initialized")
    ours = hello["capabilities"]["experimental"]["turntree"]
    promise(ours["protocol"] == 1, "the server speaks version 1 of the protocol")
    agents = ", ".join(a["agent"] for a in ours["agents"] if a["available"])
    info = hello["serverInfo"]
    reply(f"{info['name']} {info['version']}, {len(ours['methods'])} methods, agents: {agents}")


def fork(client: Client, store: SampleStore) -> None:
    at = {"turn_number": 2}
    result = ask(client, "fork_session", session_id=SESSION, new_session_id=FORK, at=at)
    turns = result["turns"]
    kept, total = turns["kept"], turns["source_total"]
    size = f"{result['records_copied']} records, {result['bytes_copied']:,} bytes"
    reply(f"{result['status']}: {kept} of {total} turns, {size}")
    reply(f"dropped_prompt: {json.dumps(result['dropped_prompt'])}")
    reply(f"resume: {shlex.join(result['resume']['command'])}")
    promise(result["status"] == "forked" and turns == {"kept": 2, "source_total": 4}, "2 of 4")
    promise(result["dropped_prompt"].startswith("Keep it simple"), "the next prompt is handed back")
    promise(result["resume"]["resumable"], "the agent can resume the fork")
    promise(store.transcript(FORK).is_file(), "the fork lies where the agent looks for it")

    child, source = (
        [turn["turn_id"] for turn in client.request("list_turns", session_id=s)["turns"]]
        for s in (result["session"]["session_id"], SESSION)
    )
    promise(child == source[:2], "the fork holds turns 1 and 2 under the ids they had")


def rewind(client: Client) -> None:
    result = ask(client, "rewind", session_id=SESSION, to={"by": 1})
    turns = result["turns"]
    reply(f"{result['status']}: {turns['kept']} turns kept, {turns['removed']} removed")
    reply(f"dropped_prompt: {json.dumps(result['dropped_prompt'])}")
    promise(turns == {"kept": 3, "removed": 1}, "one turn is dropped")
    left = client.request("list_turns", session_id=SESSION)["total_turns"]
    promise(left == 3, "three turns are left")


def undo(client: Client) -> None:
    result = ask(client, "undo", session_id=SESSION)
    reply(f"{result['status']}: {result['session']['turn_count']} turns")
    promise(result["status"] == "undone", "the rewind is undone")
    promise(result["session"]["turn_count"] == 4, "all four turns are back")


def ask(client: Client, method: str, **params: Any) -> Any:
    shown = {
        k: v.removeprefix("claude-code:") if k == "session_id" else v for k, v in params.items()
    }
    for key in ("session_id", "new_session_id"):
        if key in shown:
            shown[key] = f"{shown[key][:8]}..."
    print(f"  -> {method} {json.dumps(shown)}")
    return client.request(method, **params)


def turntree(store: SampleStore, *arguments: str) -> str:
    """Run one command of the command line and print what it prints."""
    done = subprocess.run(
        [program(), *arguments],
        env=store.env,
        cwd=store.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    for line in done.stdout.rstrip().splitlines():
        print(f"  {line}".rstrip())
    name = " ".join(["turntree", *arguments])
    promise(done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def told(output: str, *words: str) -> None:
    for word in words:
        promise(word in output, f"the output names {word!r}")


def promise(kept: bool, what: str) -> None:
    if not kept:
        raise NotAsPromised(what)


def step(title: str, command: str = "") -> None:
    print(f"\n{title}" + (f"   $ {command}" if command else ""))


def reply(text: str) -> None:
    print(f"  <- {text}" if len(text) < WIDTH - 5 else f"  <- {text[: WIDTH - 9]}...")


def say(text: str) -> None:
    print(f"     {text}")


def fingerprint(file: Path) -> tuple[str, int, int, int]:
    """Digest, mode, modification time in ns, link count."""
    stat = file.stat()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return digest, stat.st_mode, stat.st_mtime_ns, stat.st_nlink


def program() -> str:
    """The `turntree` of this environment, as an absolute path."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("turntree", path=beside)
    if found is None:
        raise NotAsPromised(f"the turntree command is installed in {beside}")
    return found


def shown_program() -> str:
    """The same, as short as it can be typed from here."""
    path = Path(program())
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
