"""Where a session lies, and what lies beside it."""

from __future__ import annotations

import os
import time

import orjson

from tests.builders import Transcript, live_session
from tests.chain import slug
from tests.corpus.case import FOUR, Case, case, given, told, written
from tests.world import World

DAY = 86_400


@case
def two_files_with_one_id(world: World) -> Case:
    """The larger shows the session; the other one is told."""
    t = told(world, *FOUR)
    smaller = told(world, "one", cwd=str(world.home))
    smaller.session_id = t.session_id
    for record in smaller.messages():
        record["sessionId"] = t.session_id
    smaller.write(world.store)
    return written(world, t, [("second_file", None)])


def _indexed(world: World, *entries: dict[str, object]) -> Case:
    found = written(world, told(world, *FOUR), [("stale_session_index", None)])
    data = orjson.dumps({"version": 1, "entries": entries})
    found.path.with_name("sessions-index.json").write_bytes(data)
    return found


@case
def f041_an_index_without_the_session(world: World) -> Case:
    """anthropics/claude-code#22878."""
    other = told(world, "another", seed=2)
    path = other.write(world.store)
    return _indexed(world, {"sessionId": other.session_id, "fullPath": str(path)})


@case
def f041_an_index_that_names_another_place(world: World) -> Case:
    t = told(world, *FOUR)
    return _indexed(world, {"sessionId": t.session_id, "fullPath": "/gone/x.jsonl"})


@case
def f041_a_corrupt_index(world: World) -> Case:
    found = written(world, told(world, *FOUR), [("stale_session_index", None)])
    found.path.with_name("sessions-index.json").write_bytes(b'{"version":1,"entr')
    return found


@case
def f041_an_index_that_is_right(world: World) -> Case:
    found = _indexed(world)
    entry = {"sessionId": found.native_id, "fullPath": str(found.path)}
    data = orjson.dumps({"version": 1, "entries": [entry]})
    found.path.with_name("sessions-index.json").write_bytes(data)
    return Case(found.path, found.native_id, list(FOUR))


@case
def f054_two_directories_with_one_folder(world: World) -> Case:
    """anthropics/claude-code#69245: `a-b` and `a/b` have the same folder name."""
    one, other = world.home / "api-proxy", world.home / "api" / "proxy"
    for place in (one, other):
        place.mkdir(parents=True)
    told(world, "of the other", seed=2, cwd=str(other)).write(world.store)
    assert slug(str(one)) == slug(str(other))
    return written(world, told(world, *FOUR, cwd=str(one)), [("shared_folder", None)])


@case
def f055_a_folder_named_after_a_link(world: World) -> Case:
    """anthropics/claude-code#62276: older versions named it after the path as it was typed."""
    link = world.home / "link"
    link.symlink_to(world.cwd)
    return written(world, told(world, *FOUR, cwd=str(link)), [("moved_directory", None)])


@case
def f056_a_directory_that_moved_in_mid_session(world: World) -> Case:
    """anthropics/claude-code#81603."""
    new = world.home / "new"
    new.mkdir()
    t = told(world, "one", "two")
    t.cwd = str(new)
    t.turn("three")
    t.turn("four")
    return written(world, t, [("moved_directory", None)])


@case
def f062_a_directory_that_is_gone(world: World) -> Case:
    t = told(world, *FOUR, cwd=str(world.home / "gone"))
    return written(world, t, [("missing_directory", None)])


@case
def f111_a_session_that_will_be_deleted(world: World) -> Case:
    """anthropics/claude-code#86730: after 30 days without a write the program deletes it."""
    found = written(world, told(world, *FOUR), [("expires_soon", None)])
    when = time.time() - 26 * DAY
    os.utime(found.path, (when, when))
    return found


@case
def f111_a_session_that_is_overdue(world: World) -> Case:
    (world.store).mkdir(parents=True)
    (world.store / "settings.json").write_bytes(b'{"cleanupPeriodDays": 3}')
    found = written(world, told(world, *FOUR), [("expires_soon", None)])
    when = time.time() - 10 * DAY
    os.utime(found.path, (when, when))
    return found


@case
def f111_a_store_that_keeps_its_sessions(world: World) -> Case:
    (world.store).mkdir(parents=True)
    (world.store / "settings.json").write_bytes(b'{"cleanupPeriodDays": 365}')
    found = written(world, told(world, *FOUR))
    when = time.time() - 100 * DAY
    os.utime(found.path, (when, when))
    return found


@case
def f111_a_setting_that_the_program_refuses(world: World) -> Case:
    """With an error in this setting the program cleans up nothing."""
    (world.store).mkdir(parents=True)
    (world.store / "settings.json").write_bytes(b'{"cleanupPeriodDays": 0}')
    found = written(world, told(world, *FOUR))
    when = time.time() - 100 * DAY
    os.utime(found.path, (when, when))
    return found


@case
def a_session_that_a_program_has_open(world: World) -> Case:
    """Its last call is still running: nothing dangles yet."""
    t = told(world, *FOUR[:3])
    t.prompt("four")
    t.tool("Bash", {"command": "make"}, None)
    live_session(world.store, os.getpid(), t.session_id)
    return written(world, t, [("live_writer", None)])


@case
def a_large_output_whose_file_is_gone(world: World) -> Case:
    t = told(world, "one", "two")
    t.prompt("three")
    t.big_tool("Bash", {"command": "cat"}, "x" * 50_000, file="b1.txt")
    t.answer()
    t.turn("four")
    path = t.write(world.store)
    (path.with_suffix("") / "tool-results" / "b1.txt").unlink()
    return given(path, t, [("missing_companion", 7)])


@case
def a_file_backup_that_is_gone(world: World) -> Case:
    t = told(world, "one", "two")
    t.prompt("three")
    t.write_file(f"{t.cwd}/a.py", "new", before="old")
    t.answer()
    t.turn("four")
    path = t.write(world.store)
    (backup,) = (world.store / "file-history" / t.session_id).iterdir()
    backup.unlink()
    return given(path, t, [("missing_companion", 8)])


@case
def a_session_with_all_of_its_companions(world: World) -> Case:
    t = told(world, "one", "two")
    t.prompt("three")
    t.big_tool("Bash", {"command": "cat"}, "x" * 50_000)
    t.subagent("look", "seen")
    t.write_file(f"{t.cwd}/a.py", "new", before="old")
    t.answer()
    t.turn("four")
    return written(world, t)


def stranger(world: World) -> Transcript:
    """Another session of the same project, which is well."""
    return told(world, "of another", seed=9)


@case
def records_that_went_to_another_file(world: World) -> Case:
    """anthropics/claude-code#30802: what came after `two` was written to another session's file."""
    t = told(world, *FOUR)
    other = stranger(world)
    other.records += t.records[4:]
    del t.records[4:]
    path = other.write(world.store)
    assert path.parent == t.path(world.store).parent
    return written(world, t, [("stray_records", None)], prompts=["one", "two"], recovered=FOUR)
