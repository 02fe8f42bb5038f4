"""What a repair does, in words that a person understands."""

from __future__ import annotations

from session.model import Repaired, Repairs
from session.values import value


@value
class Counts:
    """How often there is something for each repair to do.  `encoding` is the file's, where it
    is not UTF-8; `saved` are bytes."""

    torn: int
    recovered: int
    unfinished: bool
    empty: int
    repeated: int
    foreign: int
    dirty: int
    encoding: str | None
    strays: int
    stray_files: int
    bridged: int
    cut_turns: int
    closed: int
    left_out: int
    orphans: int
    joined: int
    thoughts: int
    images: int
    images_saved: int
    outputs: int
    outputs_saved: int


def noted(wanted: Repairs, counts: Counts) -> list[Repaired]:
    """The repairs among `wanted` that have something to do, in a fixed order."""
    calls = (
        counts.closed + counts.left_out + counts.orphans + counts.joined,
        _joined(
            _of(counts.closed, "call gets", "calls get", "a result that says that it was lost"),
            _of(counts.left_out, "call is left out", "calls are left out"),
            _of(
                counts.orphans,
                "result without a call is left out",
                "results without a call are left out",
            ),
            _of(
                counts.joined,
                "result is put back behind its call",
                "results are put back behind their calls",
            ),
        ),
    )
    found = {
        "recover_lines": _lines(counts),
        "collect_strays": (
            counts.strays,
            _of(
                counts.strays,
                "record of this session is collected",
                "records of this session are collected",
                f"from {_number(counts.stray_files, 'other file', 'other files')}",
            ),
        ),
        "bridge_gaps": (
            counts.bridged,
            _of(counts.bridged, "gap is joined", "gaps are joined"),
        ),
        "cut_gaps": (
            counts.cut_turns,
            _of(
                counts.cut_turns,
                "turn before the newest gap is left out",
                "turns before the newest gap are left out",
            ),
        ),
        "close_calls": calls,
        "drop_calls": calls,
        "drop_thinking": (
            counts.thoughts,
            _of(
                counts.thoughts,
                "thinking block without a signature is left out",
                "thinking blocks without a signature are left out",
            ),
        ),
        "strip_images": (
            counts.images,
            _of(
                counts.images,
                "image or document is replaced",
                "images and documents are replaced",
                f"by a note ({counts.images_saved:,} bytes less)",
            ),
        ),
        "strip_outputs": (
            counts.outputs,
            _of(
                counts.outputs,
                "long output is cut to its beginning",
                "long outputs are cut to their beginnings",
                f"({counts.outputs_saved:,} bytes less)",
            ),
        ),
    }
    return [
        Repaired(name, count, f"{message}.")
        for name, (count, message) in found.items()
        if count and wanted.has(name)
    ]


def _lines(counts: Counts) -> tuple[int, str]:
    number = (
        counts.torn
        + counts.unfinished
        + counts.empty
        + counts.repeated
        + counts.foreign
        + counts.dirty
        + (counts.encoding is not None)
    )
    damaged = _of(counts.torn, "damaged line", "damaged lines")
    if damaged:
        whole = _of(counts.recovered, "whole record", "whole records") or "no whole record"
        damaged += f" {'gives' if counts.torn == 1 else 'give'} {whole}"
    return number, _joined(
        f"the file is read as {counts.encoding}" if counts.encoding else "",
        damaged,
        "an unfinished line at the end is left out" if counts.unfinished else "",
        _of(
            counts.empty,
            "line that holds nothing, or NUL bytes, is left out",
            "lines that hold nothing, or NUL bytes, are left out",
        ),
        _of(counts.repeated, "repeated record is left out", "repeated records are left out"),
        _of(
            counts.foreign,
            "record of another session is left out",
            "records of other sessions are left out",
        ),
        _of(
            counts.dirty,
            "line is cleaned",
            "lines are cleaned",
            "of byte order marks, carriage returns, NUL bytes or invalid UTF-8",
        ),
    )


def _number(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _of(count: int, one: str, many: str, more: str = "") -> str:
    return f"{_number(count, one, many)} {more}".rstrip() if count else ""


def _joined(*parts: str) -> str:
    text = "; ".join(part for part in parts if part)
    return text[:1].upper() + text[1:]
