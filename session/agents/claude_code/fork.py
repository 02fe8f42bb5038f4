"""A fork: a transcript of its own, holding the kept turns, that the agent resumes.

Message ids stay (the agent's own forks keep them).  The child gets a title, the lineage as a
member of its title record, and a pointer to its leaf; large tool results, subagents and file
backups that kept turns reach are copied beside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from array import array
from collections.abc import Iterator
from pathlib import Path

import orjson

from session import osfile
from session.agents.base import Built, ForkPlan
from session.agents.claude_code import forewarning, splice
from session.agents.claude_code.cut import Cut, Selection, dropped_prompt, select
from session.agents.claude_code.derive import derive, same_prompts
from session.agents.claude_code.history import History
from session.agents.claude_code.records import KIND, PROMPT, SNAPSHOT
from session.agents.claude_code.splice import Editor
from session.agents.claude_code.store import ClaudeStore
from session.agents.claude_code.table import Origin
from session.agents.claude_code.transcript import Transcript
from session.errors import SessionDamaged, StorageError
from session.faults import fault
from session.model import Warn
from session.staging import PREFIX, Companion, Stage
from session.values import value
from session.work import Work


@value
class NativePlan:
    """What a fork will hold: the cut, its lines, and how the child is called."""

    source_id: str
    child_id: str
    path: Path  # the source's own file
    cut: Cut
    selection: Selection
    title: str
    cwd: str | None
    stage: Stage


def planned(
    store: ClaudeStore,
    history: History,
    cut: Cut,
    *,
    child_id: str,
    title: str,
    cwd: str | None,
    bridge_gaps: bool,
) -> ForkPlan:
    """What would be forked.  Raises SessionDamaged at a gap that is not to be bridged."""
    transcript = history.transcript
    selection = select(transcript, cut, own_records=False, moves=cwd is not None)
    warnings: list[Warn] = []
    if selection.gap is not None:
        if not bridge_gaps:
            raise history.damaged_at(selection.gap)
        warnings.append(Warn("gaps_bridged", "Missing records were bridged in the fork."))
    warnings += forewarning.dangling_calls(transcript, cut, selection)
    stage = place(store, transcript.path, child_id, cwd)
    return ForkPlan(
        stage=stage if cut.kept else Stage(stage.folder, None),
        kept=cut.kept,
        total=cut.total,
        records=len(selection.lines) if cut.kept else 0,
        bytes=selection.size if cut.kept else 0,
        last_turn=last_kept_turn(transcript, cut),
        dropped_prompt=dropped_prompt(transcript, cut),
        warnings=warnings,
        native=NativePlan(
            history.native_id, child_id, transcript.path, cut, selection, title, cwd, stage
        ),
    )


def place(store: ClaudeStore, source: Path, child_id: str, cwd: str | None) -> Stage:
    """Where the child will be.  `cwd` None keeps it in the project folder of the `source` file."""
    folder = store.folder_for(cwd) if cwd else _folder_of(source)
    stage_folder = folder / f"{PREFIX}{child_id}"
    companions = (
        Companion(stage_folder / "companion", folder / child_id),
        Companion(store.file_history / f"{PREFIX}{child_id}", store.file_history / child_id),
    )
    return Stage(stage_folder, folder / f"{child_id}.jsonl", companions)


def _folder_of(source: Path) -> Path:
    """The project folder of a session, also of one that is staged there."""
    folder = source.parent
    return folder.parent if folder.name.startswith(PREFIX) else folder


def _belongings(store: ClaudeStore, path: Path, source_id: str) -> tuple[Path, Path]:
    """The source's own folder and its file backups, where they are now."""
    stage = path.parent
    if stage.name.startswith(PREFIX):
        return stage / "companion", store.file_history / f"{PREFIX}{source_id}"
    return path.with_suffix(""), store.file_history / source_id


def build(
    store: ClaudeStore, transcript: Transcript, plan: NativePlan, work: Work
) -> tuple[Built, Transcript]:
    """Build and validate the child in its stage; also returns the child's index.

    Raises StorageError when there is no room or the source changed, SessionDamaged when the
    result is not what was asked for, OSError, Cancelled; the caller removes the stage.
    """
    stage = plan.stage
    assert stage.destination is not None
    require_room(stage, plan.selection.size)
    stage.create()
    editor = Editor(
        plan.source_id,
        plan.child_id,
        cwd=plan.cwd,
        entrypoint="cli" if transcript.entrypoints - {"cli"} else None,
        any_id=transcript.mixed or transcript.own_ids != frozenset((plan.source_id,)),
        new_results=str(stage.destination.with_suffix("") / "tool-results"),
    )
    with osfile.writing(stage.file) as file:
        thoughts = forewarning.Thoughts()
        offsets = _write(file, transcript, plan, editor, thoughts, work)
        fault("fork.copied")
        warnings = thoughts.warnings() + copy_companions(store, transcript, plan, editor)
        # Waiting for the disk takes no processor; checking does.
        with osfile.in_background(file.make_durable):
            child = _validated(transcript, plan, offsets, work)
    stage.make_durable()
    fault("fork.validated")
    require_same_source(transcript)
    return Built(len(plan.selection.lines) + 2, child.scanned, warnings), child


def _write(
    file: osfile.Writer,
    transcript: Transcript,
    plan: NativePlan,
    editor: Editor,
    thoughts: forewarning.Thoughts,
    work: Work,
) -> array[int]:
    """Write the child, reading each block back; returns where its lines start.

    Where no edit changes a line's length the starts follow from the source's.  They are left
    empty when that was expected and an edit did; the child is then scanned.
    """
    offsets = array("Q")
    runs, bridges = plan.selection.runs, _bridges(transcript, plan)
    follow = editor.even and not (
        editor.cwd or editor.entrypoint or bridges or transcript.torn_lines
    )
    size = 0
    with osfile.behind(file.write_and_compare) as write:
        for block in splice.spliced(transcript, runs, editor, work, bridges):
            if not follow:
                _note_starts(block, size, offsets)
            size += len(block)
            write(block)
            thoughts.pass_by(block)
    if follow and editor.even:
        offsets = splice.starts(transcript, runs)
    for record in _closing(transcript, plan):
        offsets.append(file.size)
        file.write_and_compare(record)
    return offsets


def _note_starts(block: bytes, base: int, offsets: array[int]) -> None:
    begin = 0
    while (end := block.find(b"\n", begin)) >= 0:
        if end > begin:
            offsets.append(base + begin)
        begin = end + 1


def require_room(stage: Stage, size: int) -> None:
    place = next(p for p in (stage.folder, *stage.folder.parents) if p.exists())
    free = osfile.free_bytes(place)
    if free < size + (1 << 16):
        raise StorageError(
            f"The copy needs {size:,} bytes in {place}, and {free:,} are free.",
            path=str(place),
            errno=28,
        )


def _closing(transcript: Transcript, plan: NativePlan) -> Iterator[bytes]:
    """The records of the child's own: its title with its lineage, and its leaf."""
    origin = {
        "sessionId": plan.source_id,
        "messageUuid": last_kept_turn(transcript, plan.cut),
        "turnNumber": plan.cut.kept,
    }
    yield _record(
        {
            "type": "custom-title",
            "customTitle": plan.title,
            "sessionId": plan.child_id,
            "forkedFrom": origin,
        }
    )
    yield leaf_pointer(transcript, plan.cut, plan.selection, plan.child_id)


def leaf_pointer(transcript: Transcript, cut: Cut, selection: Selection, native_id: str) -> bytes:
    """The record that makes the agent resume a copy at the cut's leaf.

    A plain pointer does, unless the newest record hangs below the leaf: a call of the same
    message that the conversation went around.
    """
    fields: dict[str, object] = {
        "type": "last-prompt",
        "leafUuid": transcript.uuid_at(cut.leaf),
        "sessionId": native_id,
    }
    newest = transcript.newest_of(selection.lines)
    if transcript.spoken(newest) != cut.leaf and transcript.descends(newest, cut.leaf):
        fields["explicit"] = True
    return _record(fields)


def _record(fields: dict[str, object]) -> bytes:
    return orjson.dumps(fields) + b"\n"


def last_kept_turn(transcript: Transcript, cut: Cut) -> str | None:
    for line in reversed(cut.lines):
        if transcript.kinds[line] & KIND == PROMPT:
            return transcript.uuid_at(line)
    return None


def _bridges(transcript: Transcript, plan: NativePlan) -> dict[int, bytes]:
    """New parents, where the caller chose to bridge: for lines after a gap, and for records that
    a compaction preserves though the way to them is lost."""
    if plan.selection.gap is None:
        return {}
    bridges = {}
    kept, parents = plan.selection.has, transcript.parents
    for line in {*transcript.gaps, *transcript.preserved_by(plan.cut.lines)}:
        if not kept(line) or parents[line] < 0:
            continue
        parent = parents[line]
        while parent >= 0 and not kept(parent):
            parent = parents[parent]
        if parent != parents[line] or line in transcript.gaps:
            bridges[line] = orjson.dumps(transcript.uuid_at(parent) if parent >= 0 else None)
    return bridges


def copy_companions(
    store: ClaudeStore, transcript: Transcript, plan: NativePlan, editor: Editor
) -> list[Warn]:
    """Copy what the kept records reach beside the session's file into the stage.

    Returns a warning for each file that is gone; raises OSError.
    """
    warnings: list[Warn] = []
    source, source_backups = _belongings(store, plan.path, plan.source_id)
    own, backups = plan.stage.companions
    for name, path in sorted(editor.results.items()):
        # A store that was moved has its own files where it is now.
        here = source / "tool-results" / name
        original = here if here.is_file() else Path(path)
        _copy(original, own.staged / "tool-results" / name, warnings)
    if (source / "subagents").is_dir():
        kept = {line for line in transcript.agent_calls.values() if plan.selection.has(line)}
        for meta in sorted((source / "subagents").glob("agent-*.meta.json")):
            call = _call_of(meta)
            if call is None or transcript.agent_calls.get(call) not in kept:
                continue
            agent = meta.with_name(meta.name.removesuffix(".meta.json") + ".jsonl")
            target = own.staged / "subagents"
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
            _copy(meta, target / meta.name, warnings)
            if agent.is_file():
                osfile.write_durably(target / agent.name, splice.copy_subagent(agent, editor))
    names = _backup_names(transcript, plan) if source_backups.is_dir() else set()
    for name in sorted(names):
        _copy(source_backups / name, backups.staged / name, warnings)
    return warnings


def _copy(source: Path, target: Path, warnings: list[Warn]) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with osfile.naming(target):
            shutil.copyfile(source, target)
    except FileNotFoundError:
        warnings.append(
            Warn("companion_missing", f"{source} is gone; the fork refers to it without having it.")
        )
        return
    os.chmod(target, 0o600)


def _call_of(meta: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        call = orjson.loads(meta.read_bytes()).get("toolUseId")
        return call if isinstance(call, str) else None
    return None


def _backup_names(transcript: Transcript, plan: NativePlan) -> set[str]:
    """Names of file backups that kept snapshots refer to."""
    snapshots = [line for line in plan.selection.lines if transcript.kinds[line] & KIND == SNAPSHOT]
    names: set[str] = set()
    for _, record in transcript.read(snapshots):
        snapshot = record.get("snapshot")
        backups = snapshot.get("trackedFileBackups") if isinstance(snapshot, dict) else None
        for backup in backups.values() if isinstance(backups, dict) else ():
            name = backup.get("backupFileName") if isinstance(backup, dict) else None
            if isinstance(name, str) and name and os.sep not in name:
                names.add(name)
    return names


def _validated(
    transcript: Transcript, plan: NativePlan, offsets: array[int], work: Work
) -> Transcript:
    """The child's index, compared with what was asked for.

    Bytes were compared as they were written; the index is made from the source's and checked
    against the child's prompts, or, where it cannot be known that way, by scanning the child.
    """
    lines = plan.selection.lines
    origin = Origin(plan.source_id, last_kept_turn(transcript, plan.cut), plan.cut.kept)
    child = None
    if len(offsets) == len(lines) + 2:
        bridged = plan.selection.gap is not None
        child = derive(
            transcript,
            plan.stage.file,
            lines,
            plan.selection.runs,
            offsets,
            session=plan.child_id,
            bridged=bridged,
            origin=origin,
        )
    if child is None or not same_prompts(child, transcript, lines, plan.source_id):
        child = Transcript(plan.stage.file, plan.child_id)
        child.refresh(work)
    kinds, ids = transcript.kinds, transcript.ids
    prompts = [ids[line] for line in plan.cut.lines if kinds[line] & KIND == PROMPT]
    found = [child.ids[child.chain[at]] for at in child.turn_starts]
    problems = []
    if found != prompts:
        problems.append(f"it has {len(found)} turns instead of {len(prompts)}, or other ones")
    if child.leaf < 0 or child.ids[child.leaf] != ids[plan.cut.leaf]:
        problems.append("it would be resumed at another record")
    if len(child.kinds) != len(lines) + 2 or child.torn_lines:
        problems.append("it does not have the records that were copied")
    if any(child.parents[line] >= 0 for line in child.gaps):
        problems.append("its chain of records has a gap")
    strays = set(child.orphan_results) - set(transcript.orphan_results)
    if strays:
        problems.append(f"tool results without their calls: {', '.join(sorted(strays)[:3])}")
    if problems:
        raise SessionDamaged(
            f"The fork was not made: {'; '.join(problems)}. The source is untouched.",
            findings=[],
        )
    return child


def require_same_source(transcript: Transcript) -> None:
    """The source may have grown; StorageError when it was replaced or rewritten meanwhile."""
    if transcript.is_rewritten():
        raise transcript.rewritten()
