"""A repair: a fork of the whole live branch whose lines are changed where it is damaged.

Planning reads the kept records once and writes nothing, but for a temporary copy where the
file cannot be used as it is; building writes the child as a fork does and reads it again with
the ordinary reader.
"""

from __future__ import annotations

import os
from array import array

import orjson
from attrs import evolve

from session import osfile
from session.agents.base import Built, ForkPlan, Summary
from session.agents.claude_code import fork
from session.agents.claude_code.cut import Cut, Selection, dropped_prompt, select
from session.agents.claude_code.history import History
from session.agents.claude_code.records import DUPLICATE, KIND, PROMPT, TORN
from session.agents.claude_code.repairing.ailments import Ailments, look
from session.agents.claude_code.repairing.mending import Mend, mended
from session.agents.claude_code.repairing.regrowing import Regrown, regrow
from session.agents.claude_code.repairing.whole_copy import Strays, usable_copy
from session.agents.claude_code.repairing.words import Counts, noted
from session.agents.claude_code.splice import Editor
from session.agents.claude_code.store import ClaudeStore
from session.agents.claude_code.transcript import Transcript
from session.errors import SessionDamaged
from session.faults import fault
from session.model import Boundary, Repairs
from session.scratch import Scratch
from session.staging import Stage
from session.values import value
from session.work import Work

_HEAD = 4096


@value
class RepairPlan:
    """A repair that could be made.  `fork` says what a fork would hold, of `transcript`: the
    session's file, or the temporary copy that stands in for it."""

    fork: fork.NativePlan
    transcript: Transcript
    summary: Summary
    wanted: Repairs
    mend: Mend
    regrown: Regrown
    last_number: int
    room: int
    unpaired: frozenset[str]
    """Calls and results whose other half is not among the kept records."""


def planned(
    store: ClaudeStore,
    history: History,
    *,
    child_id: str,
    title: str,
    cwd: str | None,
    wanted: Repairs,
    scratch: Scratch,
    work: Work,
) -> ForkPlan:
    """What would be repaired.  Raises SessionDamaged where nothing could be kept, or where the
    kept turns cross a gap of which `wanted` says nothing."""
    path = history.transcript.path
    encoding = "UTF-16" if history.transcript.other_encoding else None
    copy = usable_copy(store, history, wanted, scratch, work)
    if copy.path is not None:
        transcript = Transcript(copy.path, history.native_id)
        transcript.refresh(work)
        history = History(transcript, history.native_id, history.live_sessions)
    transcript = history.transcript
    whole = history.cut(Boundary(latest=True))
    if not whole.kept:
        raise SessionDamaged(
            "No turn of this session can be read, so that nothing is left to repair.", findings=[]
        )
    cut = _after_gaps(transcript, whole) if wanted.has("cut_gaps") else whole
    selection = select(transcript, cut, own_records=False, moves=cwd is not None)
    if selection.gap is not None and not (wanted.has("bridge_gaps") or wanted.has("cut_gaps")):
        findings = history.damaged_at(selection.gap).data["findings"]
        raise SessionDamaged(
            f"The session has a gap before line {findings[0].line}. Name bridge_gaps, which joins "
            "both sides, or cut_gaps, which keeps what comes after it.",
            findings=findings,
        )
    found = look(
        transcript,
        selection,
        work,
        images=wanted.has("strip_images"),
        outputs_over=wanted.outputs_over if wanted.has("strip_outputs") else None,
    )
    regrown = regrow(transcript, cut, selection, found, wanted, history.native_id)
    stage = fork.place(store, path, child_id, cwd)
    native = fork.NativePlan(
        history.native_id, child_id, path, cut, regrown.selection, title, cwd, stage
    )
    counts = _counts(transcript, whole, cut, selection, copy, encoding, found, regrown)
    saved = found.images.saved + found.outputs.saved
    return ForkPlan(
        stage=stage,
        kept=cut.kept,
        total=whole.total,
        records=len(regrown.selection.lines) + regrown.added,
        bytes=max(0, regrown.selection.size - saved),
        last_turn=fork.last_kept_turn(transcript, cut),
        dropped_prompt=dropped_prompt(transcript, whole),
        warnings=[],
        native=RepairPlan(
            native,
            transcript,
            history.summary,
            wanted,
            regrown.mend,
            regrown,
            whole.kept,
            regrown.selection.size + regrown.added * 2048,
            frozenset(found.calls).union(call for _, call in found.orphans + found.repeated),
        ),
        last_number=whole.kept,
        repairs=noted(wanted, counts),
    )


def _after_gaps(transcript: Transcript, cut: Cut) -> Cut:
    """What comes after the newest gap, from the next whole turn on."""
    gaps = transcript.gaps
    at = max(
        (at for at, line in enumerate(cut.lines) if line in gaps and transcript.parents[line] >= 0),
        default=None,
    )
    if at is None:
        return cut
    starts = [start for start in transcript.turn_starts[: cut.kept] if start >= at]
    if not starts:
        raise SessionDamaged(
            "The newest gap is in the last turn, so that cutting there leaves no whole turn. "
            "Repair it with bridge_gaps, which joins both sides.",
            findings=[],
        )
    return evolve(cut, kept=len(starts), lines=cut.lines[starts[0] :])


def _counts(
    transcript: Transcript,
    whole: Cut,
    cut: Cut,
    selection: Selection,
    copy: Strays,
    encoding: str | None,
    found: Ailments,
    regrown: Regrown,
) -> Counts:
    kept = selection.has
    return Counts(
        torn=transcript.torn_lines,
        recovered=sum(map(kept, transcript.recovered)),
        unfinished=transcript.identity is not None
        and transcript.identity.size > transcript.scanned,
        empty=_empty_lines(transcript),
        repeated=sum(1 for kind in transcript.kinds if kind & DUPLICATE),
        foreign=sum(map(len, transcript.foreign_lines().values())),
        dirty=found.dirty,
        encoding=encoding,
        strays=copy.count,
        stray_files=len(copy.files),
        bridged=regrown.bridged,
        cut_turns=whole.kept - cut.kept,
        closed=regrown.closed,
        left_out=regrown.calls_left_out,
        orphans=regrown.orphans_left_out,
        joined=regrown.joined,
        thoughts=found.thoughts,
        images=found.images.count,
        images_saved=found.images.saved,
        outputs=found.outputs.count,
        outputs_saved=found.outputs.saved,
    )


def _empty_lines(transcript: Transcript) -> int:
    """How many lines are blank, or filled with NULs by a power loss."""
    found = 0
    with osfile.opened(transcript.path, os.O_RDONLY) as fd:
        for line, kind in enumerate(transcript.kinds):
            if kind & KIND == TORN:
                begin, end = transcript.span(line)
                head = osfile.pread(fd, min(_HEAD, end - begin), begin)
                found += not head.strip(b"\x00 \t\r\n")
    return found


def build(
    store: ClaudeStore, source: Transcript, plan: RepairPlan, work: Work
) -> tuple[Built, Transcript]:
    """Build and validate the child in its stage; also returns the child's index.

    `source` is the session's own file.  Raises as `fork.build`.
    """
    native, transcript = plan.fork, plan.transcript
    stage = native.stage
    assert stage.destination is not None
    fork.require_room(stage, plan.room)
    stage.create()
    editor = Editor(
        native.source_id,
        native.child_id,
        cwd=native.cwd,
        entrypoint="cli" if transcript.entrypoints - {"cli"} else None,
        any_id=transcript.own_ids != frozenset((native.source_id,)),
        new_results=str(stage.destination.with_suffix("") / "tool-results"),
    )
    with osfile.writing(stage.file) as file:
        with osfile.behind(file.write_and_compare) as write:
            for block in mended(transcript, native.selection.runs, plan.mend, editor, work):
                write(block)
        for record in _closing(transcript, plan):
            file.write_and_compare(record)
        fault("repair.copied")
        warnings = fork.copy_companions(store, transcript, native, editor)
        # Waiting for the disk takes no processor; checking does.
        with osfile.in_background(file.make_durable):
            child = _validated(transcript, plan, stage, work)
    stage.make_durable()
    fault("repair.validated")
    fork.require_same_source(source)
    return Built(len(child.kinds), child.scanned, warnings), child


def _closing(transcript: Transcript, plan: RepairPlan) -> list[bytes]:
    native = plan.fork
    origin = {
        "sessionId": native.source_id,
        "messageUuid": fork.last_kept_turn(transcript, native.cut),
        "turnNumber": plan.last_number,
    }
    title = {
        "type": "custom-title",
        "customTitle": native.title,
        "sessionId": native.child_id,
        "forkedFrom": origin,
    }
    pointer = {
        "type": "last-prompt",
        "leafUuid": plan.regrown.leaf,
        "sessionId": native.child_id,
        # Whatever hangs below the leaf, as a call that the conversation went around does.
        "explicit": True,
    }
    return [orjson.dumps(record) + b"\n" for record in (title, pointer)]


def _validated(transcript: Transcript, plan: RepairPlan, stage: Stage, work: Work) -> Transcript:
    """The child, read by the ordinary reader and compared with the plan."""
    native, wanted = plan.fork, plan.wanted
    child = Transcript(stage.file, native.child_id)
    child.refresh(work)
    prompts = array(
        "q",
        (
            transcript.ids[line]
            for line in native.cut.lines
            if transcript.kinds[line] & KIND == PROMPT
        ),
    )
    found = array("q", (child.ids[child.chain[at]] for at in child.turn_starts))
    problems = []
    if found != prompts:
        problems.append(f"it has {len(found)} turns instead of {len(prompts)}, or other ones")
    if child.leaf_id != plan.regrown.leaf:
        problems.append("it would be resumed at another record")
    records = len(native.selection.lines) + plan.regrown.added + 2
    if len(child.kinds) != records or child.torn_lines:
        problems.append(f"it has {len(child.kinds)} records instead of {records}, or torn ones")
    if plan.regrown.joins_gaps and (child.gaps or child.circles):
        problems.append("its chain of records has a gap")
    calls = set(child.open_calls) | set(child.orphan_results)
    if wanted.has("close_calls") or wanted.has("drop_calls"):
        left = sorted(calls)
    else:
        # (The other half of one may be on a branch that is not kept.)
        left = sorted(calls - plan.unpaired)
    if left:
        problems.append(f"calls or results without their other half: {', '.join(left[:3])}")
    if problems:
        raise SessionDamaged(
            f"The repair was not made: {'; '.join(problems)}. The source is untouched.",
            findings=[],
        )
    return child
