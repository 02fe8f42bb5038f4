"""What lies where a session's file should: nothing in it, or no file at all."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.corpus.case import Case, case, rewritten, told
from tests.world import World


@case
def f047_an_empty_file(world: World) -> Case:
    """google-gemini/gemini-cli#26425."""
    t = told(world, "one")
    return rewritten(world, t, b"", [("no_records", None)], prompts=[], listed=False)


@case
def a_file_of_nul_bytes(world: World) -> Case:
    t = told(world, "one")
    findings = [("no_records", None), ("nul_bytes", 1)]
    return rewritten(world, t, b"\x00" * 4096, findings, prompts=[], listed=False)


@case
def a_file_of_settings_only(world: World) -> Case:
    """anthropics/claude-code#85875: nothing but title rows."""
    t = told(world, "one")
    data = b'{"type":"ai-title","aiTitle":"x","sessionId":"%s"}\n' % t.session_id.encode()
    return rewritten(world, t, data, [("no_records", None)], prompts=[], listed=False)


@case
def a_file_that_is_no_transcript(world: World) -> Case:
    t = told(world, "one")
    findings = [("torn_line", 1), ("torn_line", 2), ("no_records", None)]
    return rewritten(world, t, b"hello\nworld\n", findings, prompts=[], listed=False)


def _instead(world: World) -> Case:
    t = told(world, "one")
    path = t.write(world.store)
    path.unlink()
    return Case(path, t.session_id, listed=False, refused="storage_error")


@case
def a_pipe_instead_of_a_file(world: World) -> Case:
    found = _instead(world)
    os.mkfifo(found.path)
    return found


@case
def a_directory_instead_of_a_file(world: World) -> Case:
    found = _instead(world)
    found.path.mkdir()
    return found


@case
def a_socket_instead_of_a_file(world: World) -> Case:
    found = _instead(world)
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        # A socket's path may have 107 bytes: from within its folder it has few enough.
        os.chdir(found.path.parent)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(found.path.name)
    finally:
        os.fchdir(here)
        os.close(here)
    return found


@case
def a_link_to_nothing(world: World) -> Case:
    found = _instead(world)
    found.path.symlink_to(Path("/nowhere/at/all.jsonl"))
    return Case(found.path, found.native_id, listed=False, refused="session_not_found")
