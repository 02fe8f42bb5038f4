"""Files that records refer to: large outputs of tools, and backups of files that were changed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from session.agents.claude_code.checking.findings import Findings, count
from session.agents.claude_code.checking.walk import Physical
from session.agents.claude_code.history import History
from session.agents.claude_code.records import KIND, RESULT, SNAPSHOT, Record
from session.agents.claude_code.store import ClaudeStore

_OUTPUT = re.compile(rb'saved to: (?P<path>[^"\\]*/tool-results/(?P<name>[^"\\/]+?))(?=\\n|"|\s|$)')


class Companions:
    """Looks at each record of the file once; tells one finding for each kind of file."""

    def __init__(self, store: ClaudeStore, history: History, findings: Findings) -> None:
        t = self._t = history.transcript
        self._findings = findings
        self._outputs = t.path.with_suffix("") / "tool-results"
        self._backups = store.file_history / history.native_id
        # What has been looked for: whether it is there, by path.
        self._there: dict[str, bool] = {}
        self._first_gone = {"output": -1, "backup": -1}
        self._gone: dict[str, list[str]] = {"output": [], "backup": []}

    def look(self, line: Physical, record: Record) -> None:
        row = line.rows[0]
        kind = self._t.kinds[row] & KIND
        if kind == RESULT and b"<persisted-output>" in line.data:
            for match in _OUTPUT.finditer(line.data):
                name = match["name"].decode("utf-8", "replace")
                path = match["path"].decode("utf-8", "replace")
                self._ask("output", row, str(self._outputs / name), path)
        elif kind == SNAPSHOT:
            snapshot = record.get("snapshot")
            backups = snapshot.get("trackedFileBackups") if isinstance(snapshot, dict) else None
            for backup in backups.values() if isinstance(backups, dict) else ():
                named = backup.get("backupFileName") if isinstance(backup, dict) else None
                if isinstance(named, str) and named and os.sep not in named:
                    self._ask("backup", row, str(self._backups / named))

    def _ask(self, kind: str, row: int, *paths: str) -> None:
        if paths[0] in self._there:
            return
        there = self._there[paths[0]] = any(os.path.isfile(path) for path in paths)
        if not there:
            self._gone[kind].append(paths[-1])
            if self._first_gone[kind] < 0:
                self._first_gone[kind] = row

    def finish(self) -> None:
        for kind, one, several, loss in _KINDS:
            gone = self._gone[kind]
            if not gone:
                continue
            named = gone[0] if len(gone) == 1 else f"the first is {Path(gone[0]).name}"
            self._findings.add(
                "missing_companion",
                f"{count(len(gone), one, several)} that the session refers to "
                f"{'is' if len(gone) == 1 else 'are'} gone ({named}). {loss}",
                self._first_gone[kind],
            )


_KINDS = (
    (
        "output",
        "large output of a tool",
        "large outputs of tools",
        "Claude Code cannot look it up again; its beginning is in the record.",
    ),
    (
        "backup",
        "backup of a changed file",
        "backups of changed files",
        "What it held cannot be put back.",
    ),
)
