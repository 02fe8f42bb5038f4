"""The bundled sample sessions, laid out as Claude Code would have them on a disk."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from attrs import define

SAMPLES = Path(__file__).parent / "sessions"
TIDES = "ff9cf86d-fd28-457a-9273-ce2c355b817a"
"""The sample that is forked and rewound: four turns, and a branch left at the third."""


@define(frozen=True)
class SampleStore:
    """`env` makes every program started with it see the samples and nothing else."""

    project: Path
    transcripts: Path
    env: dict[str, str]

    def transcript(self, native_id: str) -> Path:
        return self.transcripts / f"{native_id}.jsonl"


def lay_out(root: Path) -> SampleStore:
    """Copy the samples below `root`, with the paths in them pointing to `root/harbour`."""
    root = root.resolve()
    project = root / "harbour"
    project.mkdir()
    config = root / "claude"
    # Claude Code names a project's folder after its directory in just this way.
    transcripts = config / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(project))
    transcripts.mkdir(parents=True)
    cwd = json.dumps(str(project))[1:-1]
    for sample in SAMPLES.glob("*.jsonl"):
        text = sample.read_text(encoding="utf-8").replace("{{CWD}}", cwd)
        (transcripts / sample.name).write_text(text, encoding="utf-8", newline="\n")
    for backups in SAMPLES.glob("*.files"):
        shutil.copytree(backups, config / "file-history" / backups.stem)

    env = {k: v for k, v in os.environ.items() if not k.startswith(("CLAUDE", "TURNTREE_"))}
    home = root / "home"
    home.mkdir()
    env |= {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "CLAUDE_CONFIG_DIR": str(config),
        "TURNTREE_HOME": str(root / "turntree"),
        "NO_COLOR": "1",
        "COLUMNS": "96",
        "PYTHONUTF8": "1",
    }
    return SampleStore(project, transcripts, env)
