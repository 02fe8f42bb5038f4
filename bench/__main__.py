"""`python -m bench`: measure, print a table.  `--help` says what can be chosen."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench import changing, indexing, listing, paging, requesting, sdk, starting
from bench.measure import Row
from bench.world import World, world

SUBJECTS: dict[str, Callable[[World], Iterator[Row]]] = {
    "start": starting.rows,
    "requests": requesting.rows,
    "listing": listing.rows,
    "changes": changing.rows,
    "pages": paging.rows,
    "indexing": indexing.rows,
}
_HEAD = ("operation", "turntree", "against", "", "ratio", "goal", "met")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Ratios of medians, both sides measured in turn in this run.",
    )
    parser.add_argument("subject", nargs="*", help=f"of {', '.join(SUBJECTS)}; default: all")
    parser.add_argument("--big", action="store_true", help="100,000 turns too: 2.2 GB, minutes")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="of each pair (7)")
    parser.add_argument("--directory", type=Path, help="where the stores are made meanwhile")
    parser.add_argument("--markdown", action="store_true", help="print the table for a document")
    parser.add_argument(
        "--install-peers", action="store_true", help=f"get {sdk.PACKAGE} {sdk.VERSION}, and leave"
    )
    chosen = parser.parse_args()
    unknown = [name for name in chosen.subject if name not in SUBJECTS]
    if unknown:
        parser.error(f"no subject {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    if chosen.install_peers:
        sdk.install()
        return 0
    began = time.monotonic()
    with world(max(5, chosen.rounds), big=chosen.big, parent=chosen.directory) as place:
        rows = []
        for name in chosen.subject or SUBJECTS:
            for row in SUBJECTS[name](place):
                rows.append(row)
                if sys.stderr.isatty():
                    print(f"\r{len(rows)} lines \r", end="", file=sys.stderr)
    print(_markdown(rows) if chosen.markdown else _table(rows))
    print(f"\n{_machine()}; {time.monotonic() - began:.0f} s")
    return 0


def _cells(row: Row) -> tuple[str, ...]:
    met = {True: "yes", False: "no", None: ""}[row.met]
    goal = "" if row.goal is None else f"{row.goal:g}{'' if row.other is not None else row.unit}"
    return (
        row.operation,
        _figure(row.ours, row.unit),
        "" if row.other is None else _figure(row.other, row.unit),
        row.against + (f" ({row.note})" if row.note else ""),
        "" if row.ratio is None else f"{row.ratio:.3f}" if row.ratio < 0.1 else f"{row.ratio:.2f}",
        goal,
        met,
    )


def _figure(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or not unit else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}".strip()


def _table(rows: Iterable[Row]) -> str:
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(_HEAD))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at in (1, 2, 4, 5) else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _markdown(rows: Iterable[Row]) -> str:
    lines = [_HEAD, ("---", "---:", "---:", "---", "---:", "---:", "---"), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _machine() -> str:
    """What a reader must know of the machine to read the figures."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors,"
        f" {memory:.0f} GiB, Python {platform.python_version()},"
        f" node {'present' if shutil.which('node') else 'absent'}"
    )


if __name__ == "__main__":
    sys.exit(main())
