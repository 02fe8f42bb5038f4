"""The log file that several servers write."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from server import log
from server.log import SharedLogFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turntree.log"


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("server.test", logging.INFO, "", 0, text, None, None)


def look_again(handler: SharedLogFile) -> None:
    """Do not wait for the second between two looks."""
    handler._look_at = 0.0


def test_a_large_file_is_moved_aside_and_three_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_MAX_BYTES", 100)
    handler = SharedLogFile(path)
    for number in range(12):
        look_again(handler)
        handler.emit(record(f"{number} " + "x" * 200))
    handler.close()
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "turntree.log",
        "turntree.log.1",
        "turntree.log.2",
        "turntree.log.3",
    ]
    assert path.read_text().startswith("11 ")
    assert path.with_name("turntree.log.1").read_text().startswith("10 ")


def test_a_server_follows_when_another_one_has_moved_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = SharedLogFile(path), SharedLogFile(path)
    one.emit(record("before"))
    other.emit(record("before too"))
    monkeypatch.setattr(log, "_MAX_BYTES", 1)
    look_again(one)
    one.emit(record("after"))
    monkeypatch.setattr(log, "_MAX_BYTES", 1 << 20)
    look_again(other)
    other.emit(record("after too"))
    one.close()
    other.close()
    assert path.read_text() == "after\nafter too\n"
    assert path.with_name("turntree.log.1").read_text() == "before\nbefore too\n"


def test_text_that_is_no_utf_8_is_logged_all_the_same(path: Path) -> None:
    handler = SharedLogFile(path)
    handler.emit(record("caf\udce9"))
    handler.close()
    assert path.read_text() == "caf\\udce9\n"


def test_a_full_disk_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    full = Path("/dev/full")
    if not full.exists():  # only Linux has a file that is always full
        return
    handler = SharedLogFile(full)
    for _ in range(3):
        handler.emit(record("a line"))
    handler.stream = None  # its buffer can never be written
    assert capsys.readouterr().err.count("the log cannot be written") == 1
