"""`make demo`'s program, as a process, in an environment that has nothing of a person's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "demo" / "sessions"


def run_demo(
    tmp_path: Path, demo: Path = ROOT / "demo", **env: str
) -> subprocess.CompletedProcess[str]:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, str(demo / "demo.py")],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary), **env},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    root = tmp_path_factory.mktemp("demo")
    return run_demo(root), root


def test_the_demo_keeps_every_promise_it_makes(
    demo: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, _ = demo
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("forked: 2 of 4 turns", "rewound: 3 turns kept, 1 removed", "byte for byte"):
        assert words in done.stdout


def test_the_demo_fits_on_a_page(demo: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, _ = demo
    lines = done.stdout.splitlines()
    assert 20 < len(lines) < 80
    assert [line for line in lines if len(line) > 120] == []


def test_the_demo_leaves_nothing_behind(
    demo: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    _, root = demo
    assert [p for p in root.rglob("*") if p.is_file()] == []


def test_settings_for_a_persons_own_turntree_do_not_disturb_the_demo(tmp_path: Path) -> None:
    done = run_demo(
        tmp_path,
        TURNTREE_FAULT="fork.published",
        TURNTREE_HOME=str(tmp_path / "own"),
        CLAUDE_CONFIG_DIR=str(tmp_path / "own"),
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "own").exists()


def test_a_step_that_is_not_as_promised_fails_the_demo(tmp_path: Path) -> None:
    changed = tmp_path / "demo"
    shutil.copytree(ROOT / "demo", changed)
    for sample in changed.glob("sessions/*.jsonl"):
        sample.write_text(sample.read_text().replace("Keep it simple", "Keep it short"))
    done = run_demo(tmp_path, changed)
    assert done.returncode == 1
    assert "Not as promised: the output names 'Keep it simple'" in done.stderr


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.jsonl")), ids=lambda p: p.stem[:8])
def test_a_sample_session_names_no_machine_and_hangs_together(sample: Path) -> None:
    text = sample.read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    chain = {r["uuid"]: r["parentUuid"] for r in records if "uuid" in r}
    assert {parent for parent in chain.values() if parent} <= set(chain)
    assert {r["cwd"] for r in records if "cwd" in r} == {"{{CWD}}"}
    calls, results = set(), set()
    for record in records:
        content = record.get("message", {}).get("content", [])
        for block in content if isinstance(content, list) else []:
            if block["type"] == "tool_use":
                calls.add(block["id"])
            elif block["type"] == "tool_result":
                results.add(block["tool_use_id"])
    assert calls == results
