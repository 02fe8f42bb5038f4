"""File systems hand out unsigned 64-bit numbers; SQLite's integers are signed."""

from __future__ import annotations

from typing import Any


def signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def as_written(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row that begins with a device and an inode, as the file system gave them."""
    if row[0] >= 0 and row[1] >= 0:
        return row
    return (row[0] % (1 << 64), row[1] % (1 << 64), *row[2:])
