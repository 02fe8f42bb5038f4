"""What the tree of records says by itself: parents that are missing, circles, roots."""

from __future__ import annotations

from collections.abc import Iterator

from session.agents.claude_code.checking.findings import Findings, count, named
from session.agents.claude_code.records import (
    COMPACT,
    DUPLICATE,
    GAP,
    KIND,
    POINTER,
    PROMPT,
    SIDECHAIN,
    TREE,
)
from session.agents.claude_code.transcript import Transcript


def look(transcript: Transcript, findings: Findings) -> None:
    """Findings from the table alone; nothing is read but the ids that are named."""
    _gaps(transcript, findings)
    _circles(transcript, findings)
    _roots(transcript, findings)
    _parents_below(transcript, findings)
    _duplicates(transcript, findings)
    _pointer(transcript, findings)


def _gaps(t: Transcript, findings: Findings) -> None:
    for row in sorted(t.gaps):
        known, missing = t.find(t.gaps[row].missing), named(t.gaps[row].missing)
        if known is not None and t.kinds[known] & SIDECHAIN:
            findings.add(
                "sidechain_parent",
                f"This record follows {missing}, which a subagent wrote. Claude Code takes the "
                "subagent's conversation for the history and forgets what came before in this "
                "one. The repair lets it follow the record before it.",
                row,
            )
        elif t.parents[row] < 0:
            findings.add(
                "missing_parent",
                f"This record follows {missing}, which is not in the file, and nothing stands "
                "before it: the beginning of the session is lost.",
                row,
            )
        else:
            prompts = sum(1 for line in t.prompts if line < row)
            findings.add(
                "missing_parent",
                f"This record follows {missing}, which is not in the file. What stands before "
                f"({count(row, 'line')}, {count(prompts, 'prompt')}) hangs together with what "
                "follows only by its place in the file; a person may have rewound here. Claude "
                "Code goes on from the nearest record of the five seconds before, or else forgets "
                "what stands before. The repair joins both sides, or with cut_gaps keeps what "
                "follows.",
                row,
            )


def _main(t: Transcript) -> Iterator[int]:
    """Rows of the main line of the conversation."""
    for row, kind in enumerate(t.kinds):
        if kind & KIND in TREE and not kind & (SIDECHAIN | DUPLICATE):
            yield row


def _circles(t: Transcript, findings: Findings) -> None:
    for row in t.circles:
        findings.add(
            "parent_circle",
            "This record descends from itself, so that none of those in the circle is the first. "
            "The conversation is taken to begin here; the repair writes it so.",
            row,
        )


def _roots(t: Transcript, findings: Findings) -> None:
    roots = [
        row
        for row in _main(t)
        if t.parents[row] < 0
        and not t.kinds[row] & GAP
        and t.kinds[row] & KIND != COMPACT
        and row not in t.circles
    ]
    if len(roots) > 1:
        findings.add(
            "several_roots",
            f"The file holds {count(len(roots), 'beginning')} of a conversation, of which this is "
            "the second: it was rewound to its start, or put together from several. Turns below "
            "the others are on branches of their own.",
            roots[1],
        )


def _parents_below(t: Transcript, findings: Findings) -> None:
    below = [row for row in _main(t) if t.parents[row] > row]
    if below:
        first = count(len(below), "record stands", "records stand")
        findings.add(
            "parent_below",
            f"{first} in the file before the one that it answers, as the terminal program "
            "sometimes writes. Nothing is lost; tools that go by the order of lines are misled.",
            below[0],
        )


def _duplicates(t: Transcript, findings: Findings) -> None:
    """Runs of records whose ids were there before, less those that a compaction repeats."""
    named = {id_ for compaction in t.compactions for id_ in compaction.preserved or ()}
    run: list[int] = []
    for row, kind in enumerate(t.kinds):
        if kind & DUPLICATE:
            if t.ids[row] not in named:
                run.append(row)
        elif kind & KIND in TREE and run:
            _tell_run(t, run, findings)
            run = []
    if run:
        _tell_run(t, run, findings)


def _tell_run(t: Transcript, run: list[int], findings: Findings) -> None:
    prompts = sum(1 for row in run if t.kinds[row] & KIND == PROMPT)
    findings.add(
        "duplicate_record",
        f"{count(len(run), 'record')} from here on, with {count(prompts, 'prompt')}, "
        f"{'repeats one' if len(run) == 1 else 'repeat some'} that stood in the file before. "
        "Turntree goes by the first copy; Claude Code goes by the last, and where that hangs "
        "elsewhere it forgets what came before. The repair leaves the copies out.",
        run[0],
    )


def _pointer(t: Transcript, findings: Findings) -> None:
    if t.pointer is None or t.cleared:
        return
    try:
        t.ids.index(t.pointer)
    except ValueError:
        findings.add(
            "unreadable_pointer",
            "The record that says where to go on names one that is not in the file. Claude Code "
            "goes on from the newest record instead.",
            _last_pointer(t),
        )


def _last_pointer(t: Transcript) -> int:
    from_records = t.kinds
    for row in range(len(from_records) - 1, -1, -1):
        if from_records[row] & KIND == POINTER:
            return row
    return -1
