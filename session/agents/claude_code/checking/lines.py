"""What single lines say: torn and glued ones, odd bytes, records of others, missing times."""

from __future__ import annotations

import re

import orjson

from session import osfile
from session.agents.claude_code import records
from session.agents.claude_code.checking.findings import Findings, count, named, size
from session.agents.claude_code.checking.walk import Physical
from session.agents.claude_code.records import KIND, SIDECHAIN, SPOKEN, TORN, Record
from session.agents.claude_code.transcript import Transcript

_MARK = b"\xef\xbb\xbf"
_SPACE = b" \t\r\x0b\x0c"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class Lines:
    """Looks at each line of the file once; `finish` tells what only the whole shows."""

    def __init__(self, transcript: Transcript, findings: Findings) -> None:
        self._t = transcript
        self._findings = findings
        self._blank: list[int] = []
        self._returns = [0, -1]  # how many, and the first row
        self._nuls: list[int] = []  # rows of a run of lines of NULs
        self._nul_bytes = 0
        self._wide = [0, 0, -1]  # lines and bytes of another encoding, and the first row
        self._untimed: list[int] = []
        self._last = 0

    def look(self, line: Physical) -> Record | None:
        """Take in a line; the record on it, when it is one and nothing else."""
        self._last = line.number
        if not line.rows:
            return None
        self._findings.inner.extend(line.rows[1:])
        row, data = line.rows[0], line.data
        if not data.strip(_SPACE + b"\x00"):
            self._look_at_blank(row, data, line.size)
            return None
        if len(data) < line.size:
            self._tell_huge(line)
            return None
        self._end_of_nuls()
        if data.endswith(b"\r"):
            self._returns[0] += 1
            self._returns[1] = row if self._returns[1] < 0 else self._returns[1]
        if len(line.rows) > 1 or self._t.kinds[row] & KIND == TORN:
            self._look_at_damaged(line)
            return None
        return self._look_at_record(row, data)

    def finish(self, fd: int, *, live: bool) -> None:
        """Tell of the whole, and of what stands behind the last line; `live`: of a file that a
        living program may be writing at this moment."""
        self._end_of_nuls()
        self._end_of_untimed()
        self._look_at_end(fd, live)
        if self._blank:
            some = count(len(self._blank), "line")
            holds = "holds" if len(self._blank) == 1 else "hold"
            message = f"{some} {holds} nothing. Claude Code skips them; the repair leaves them out."
            self._findings.add("blank_lines", message, self._blank[0])
        if self._returns[0]:
            some = count(self._returns[0], "line ends", "lines end")
            self._findings.add(
                "crlf",
                f"{some} in carriage return and newline, as an editor on Windows writes. Claude "
                "Code reads them; the repair writes plain newlines.",
                self._returns[1],
            )
        if self._wide[0]:
            some = count(self._wide[0], "line is", "lines are")
            self._findings.add(
                "other_encoding",
                f"{some} in UTF-16 ({size(self._wide[1])} from here on), as a Windows shell writes "
                "when it copies a file. Claude Code finds no conversation in them; the repair "
                "writes them as UTF-8.",
                self._wide[2],
            )
        if self._t.is_empty and not self._wide[0]:
            self._findings.add(
                "no_records",
                "The file is empty: Claude Code finds no conversation in it."
                if not self._t.identity or not self._t.identity.size
                else "The file holds no message that can be read: Claude Code finds no "
                "conversation in it.",
            )
        for session, rows in sorted(self._t.foreign_lines().items(), key=lambda pair: pair[1]):
            session = named(session)
            self._findings.add(
                "foreign_records",
                f"{count(len(rows), 'record')} from here on belong to session {session}: a "
                "program wrote them into the wrong file. They are no turns of this session, but "
                "Claude Code does not tell them apart: it goes on from the newest record, and may "
                "forget all of this session's. The repair leaves them out; a repair of "
                f"{session} collects them.",
                rows[0],
            )

    def _look_at_blank(self, row: int, data: bytes, size: int) -> None:
        nuls = size if len(data) < size else data.count(0)
        if nuls:
            self._nuls.append(row)
            self._nul_bytes += nuls
        else:
            self._end_of_nuls()
            self._blank.append(row)

    def _end_of_nuls(self) -> None:
        if self._nuls:
            some = count(self._nul_bytes, "NUL byte")
            self._findings.add(
                "nul_bytes",
                f"{some} on {count(len(self._nuls), 'line')} of nothing else: the system or the "
                "disk failed in mid-write. Claude Code skips them; the repair leaves them out.",
                self._nuls[0],
            )
            self._nuls, self._nul_bytes = [], 0

    def _look_at_record(self, row: int, data: bytes) -> Record | None:
        kind = self._t.kinds[row]
        try:
            record = orjson.loads(data)
        except orjson.JSONDecodeError:
            self._look_at_bytes(row, data)
            record = records.parse(data)
        if not isinstance(record, dict):
            return None
        if kind & KIND in SPOKEN and not kind & SIDECHAIN and records.time_of(record) is None:
            self._untimed.append(row)
        elif kind & KIND in SPOKEN:
            self._end_of_untimed()
        return record

    def _end_of_untimed(self) -> None:
        if self._untimed:
            some = count(len(self._untimed), "record")
            self._findings.add(
                "untimed_record",
                f"{some} from here on {'has' if len(self._untimed) == 1 else 'have'} no time that "
                "can be read. A session in which none has one is not found by Claude Code, and it "
                "bridges a missing parent by time.",
                self._untimed[0],
            )
            self._untimed = []

    def _look_at_bytes(self, row: int, data: bytes) -> None:
        """Say why a record is read only by a parser that takes everything."""
        add, body = self._findings.add, data.strip(b"\x00")
        if len(body) < len(data):
            some = count(len(data) - len(body), "NUL byte")
            add(
                "nul_bytes",
                f"{some} around this record: what was written after a failure of the system went "
                "behind them. Claude Code does not see the record; the repair brings it back.",
                row,
            )
        if body.lstrip(_SPACE).startswith(_MARK):
            what = (
                "Claude Code passes over it"
                if row == 0 and len(body) == len(data)
                else "Claude Code does not see this record"
            )
            add(
                "byte_order_mark",
                f"A byte order mark (EF BB BF) stands before this record: an editor wrote it, or "
                f"files were put behind each other. {what}; the repair leaves the mark out.",
                row,
            )
        try:
            body.decode()
        except UnicodeDecodeError as error:
            bad = len(re.findall("\ufffd", body.decode("utf-8", "replace")))
            add(
                "not_utf8",
                f"This record holds bytes that are no UTF-8 ({bad:,}, the first {error.start:,} "
                "bytes into the line): the output of a tool, as it came. They are read as the "
                "replacement character.",
                row,
            )
        else:
            if _HALF.search(body):
                add(
                    "lone_surrogate",
                    "This record holds half of a surrogate pair: a text was cut in the middle of "
                    "a character. It is read as the replacement character.",
                    row,
                )

    def _look_at_damaged(self, line: Physical) -> None:
        t, data = self._t, line.data
        row = line.rows[0]
        if records.is_utf16(data):
            self._wide = [
                self._wide[0] + 1,
                self._wide[1] + line.size,
                row if self._wide[2] < 0 else self._wide[2],
            ]
            return
        nuls = data.count(0)
        hole = f", {count(nuls, 'NUL byte')} in it" if nuls else ""
        whole = sum(1 for at in line.rows if t.kinds[at] & KIND != TORN)
        if not whole:
            self._findings.add(
                "torn_line",
                f"This line ({size(line.size)}{hole}) is no record: its end or its beginning was "
                "never written, and is lost. Claude Code skips it; the repair leaves it out.",
                row,
            )
            return
        stubs = len(line.rows) - whole
        lost = f" and what is left of {count(stubs, 'torn one')}" if stubs else ""
        some = count(whole, "whole record")
        self._findings.add(
            "glued_line",
            f"{some}{lost}{hole} on one line ({size(line.size)}): a program was killed "
            "in mid-write and the next one wrote on. Claude Code sees none of it; the repair gives "
            f"{'the record a line of its own' if whole == 1 else 'each record a line of its own'}.",
            row,
            of=next(at for at in line.rows if t.kinds[at] & KIND != TORN),
        )

    def _tell_huge(self, line: Physical) -> None:
        self._findings.add(
            "huge_line",
            f"This line is {size(line.size)} long, longer than Claude Code's own program can hold, "
            "and was not read. The repair leaves it out.",
            line.rows[0],
        )

    def _look_at_end(self, fd: int, live: bool) -> None:
        """What stands behind the last whole line."""
        t = self._t
        end = t.identity.size if t.identity else t.scanned
        left = end - t.scanned
        if left <= 0:
            return
        head = osfile.pread(fd, min(left, 1 << 20), t.scanned)
        if self._wide[0] and head == b"\x00":
            return  # the second byte of the last newline
        line, offset = self._last + 1, t.scanned
        if not head.strip(b"\x00"):
            self._findings.add(
                "nul_bytes",
                f"{count(left, 'NUL byte')} at the end of the file: its size was written, its "
                "bytes were not. The first record that Claude Code writes next goes behind them "
                "and is lost; the repair leaves them out.",
                line=line,
                offset=offset,
            )
        elif self._wide[0] and records.is_utf16(head):
            self._wide[1] += left
        elif not live and head.strip():
            self._findings.add(
                "torn_end",
                f"The last line ({size(left)}) is unfinished and nobody is writing it. The first "
                "record that Claude Code writes next goes on the same line and is lost; the "
                "repair leaves the unfinished one out.",
                line=line,
                offset=offset,
            )
