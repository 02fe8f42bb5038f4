"""Files that records refer to: large outputs of tools, and backups of files that were changed."""

from __future__ import annotations

import os
import re

from session.agents.claude_code.checking.findings import Findings, count, named
from session.agents.claude_code.checking.walk import Physical
from session.agents.claude_code.history import History
from session.agents.claude_code.records import KIND, RESULT, SNAPSHOT, Record
from session.agents.claude_code.store import ClaudeStore
from session.staging import PREFIX

_OUTPUT = re.compile(rb'saved to: (?P<path>[^"\\]*/tool-results/(?P<name>[^"\\/]+?))(?=\\n|"|\s|$)')


class Companions:
    """Looks at each record of the file once; tells one finding for each kind of file."""

    def __init__(self, store: ClaudeStore, history: History, findings: Findings) -> None:
        t = self._t = history.transcript
        self._findings = findings
        # A staged session's are where its stage keeps them, and were just copied.
        self._staged = t.path.parent.name.startswith(PREFIX)
        self._outputs = t.path.with_suffix("") / "tool-results"
        self._backups = store.file_history / history.native_id
        self._kept: frozenset[str] | None = None  # names of the backups that are there
        self._first_gone = {"output": -1, "backup": -1}
        self._gone: dict[str, dict[str, None]] = {"output": {}, "backup": {}}

    def look(self, line: Physical, record: Record) -> None:
        if self._staged:
            return
        row = line.rows[0]
        kind = self._t.kinds[row] & KIND
        if kind == RESULT and b"<persisted-output>" in line.data:
            for match in _OUTPUT.finditer(line.data):
                name = match["name"].decode("utf-8", "replace")
                path = match["path"].decode("utf-8", "replace")
                if not (os.path.isfile(self._outputs / name) or os.path.isfile(path)):
                    self._miss("output", row, path)
        elif kind == SNAPSHOT:
            snapshot = record.get("snapshot")
            backups = snapshot.get("trackedFileBackups") if isinstance(snapshot, dict) else None
            for backup in backups.values() if isinstance(backups, dict) else ():
                name = backup.get("backupFileName") if isinstance(backup, dict) else None
                if isinstance(name, str) and name not in self._backups_there():
                    self._miss("backup", row, name)

    def _backups_there(self) -> frozenset[str]:
        if self._kept is None:
            # A long session names tens of thousands.
            try:
                self._kept = frozenset(os.listdir(self._backups))
            except OSError:
                self._kept = frozenset()
        return self._kept

    def _miss(self, kind: str, row: int, name: str) -> None:
        self._gone[kind][name] = None
        if self._first_gone[kind] < 0:
            self._first_gone[kind] = row

    def finish(self) -> None:
        for kind, one, several, loss in _KINDS:
            gone = self._gone[kind]
            if not gone:
                continue
            first = next(iter(gone))
            example = first if len(gone) == 1 else f"the first is {named(os.path.basename(first))}"
            self._findings.add(
                "missing_companion",
                f"{count(len(gone), one, several)} that the session refers to "
                f"{'is' if len(gone) == 1 else 'are'} gone ({example}). {loss}",
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
