"""What the live branch would send to a model: calls, results, thinking; and what never was sent."""

from __future__ import annotations

from array import array
from typing import Any

from attrs import define

from session.agents.claude_code import records
from session.agents.claude_code.checking.findings import Findings, named, size
from session.agents.claude_code.checking.walk import Physical
from session.agents.claude_code.history import History
from session.agents.claude_code.records import (
    ASSISTANT,
    ATTACHMENT,
    KIND,
    PROMPT,
    RESULT,
    SPOKEN,
    Record,
)
from session.agents.claude_code.repairing import blocks

_OFF, _ASIDE = -1, -2
_READ_WHOLE = 5 << 20


@define
class _Call:
    row: int
    name: str
    message_id: object


@define
class _Queued:
    row: int
    text: str


class Conversation:
    """Looks at each record of the file once, in file order; `finish` tells what is left open."""

    def __init__(self, history: History, findings: Findings) -> None:
        t = self._t = history.transcript
        self._live = history.open_in is not None
        self._findings = findings
        # For each row its position on the live branch.
        self._at = array("i", [_OFF]) * len(t.kinds)
        for at, row in enumerate(t.chain):
            self._at[row] = at
        self._mark_aside()
        self._calls: dict[str, _Call] = {}
        self._results: dict[str, int] = {}
        self._server_calls: dict[str, _Call] = {}
        self._server_results: dict[str, _Call] = {}
        self._queue: list[_Queued] = []
        self._passed_over = False

    def _mark_aside(self) -> None:
        """Mark the records off the branch that are sent with it: parts of its messages, and the
        results of calls that these and the branch make."""
        t, at = self._t, self._at
        for row in t.side_calls(t.chain):
            if t.same_message(row, t.parents[row]):
                at[row] = _ASIDE
        for row, kind in enumerate(t.kinds):
            if kind == RESULT and at[row] == _OFF:
                call = t.parents[row]
                if call >= 0 and at[call] != _OFF and t.kinds[call] & KIND == ASSISTANT:
                    at[row] = _ASIDE

    def pass_over(self) -> None:
        """A line was too long to be looked into; the index has read it."""
        self._passed_over = True

    def look(self, line: Physical, record: Record) -> None:
        row = line.rows[0]
        kind = self._t.kinds[row] & KIND
        if self._at[row] != _OFF and kind in SPOKEN:
            for block in records.content_blocks(record):
                self._look_at_block(row, kind, record, block)
        elif record.get("type") == "queue-operation":
            self._follow_queue(row, record)

    def finish(self) -> None:
        self._tell_calls()
        self._tell_server_calls()
        self._tell_queue()
        self._tell_limit()

    def _look_at_block(self, row: int, kind: int, record: Record, block: Record) -> None:
        type_ = block.get("type")
        if type_ == "tool_use" and kind == ASSISTANT:
            id_ = blocks.call_of(block)
            if id_ is not None and self._results.pop(id_, None) is None:
                self._calls[id_] = _Call(row, _named(block), None)
        elif type_ == "tool_result" and kind == RESULT:
            call = blocks.result_of(block)
            if call is not None and self._calls.pop(call, None) is None:
                self._results[call] = row
        elif type_ == "thinking" and kind == ASSISTANT:
            if not block.get("signature"):
                thought = block.get("thinking")
                length = len(thought) if isinstance(thought, str) else 0
                self._findings.add(
                    "unsigned_thinking",
                    f"This thinking ({length:,} characters) has no signature: another model's, or "
                    "a proxy's. Claude Code sends it as it is, and the API then refuses every "
                    "request. The repair leaves the thinking out.",
                    row,
                )
        elif (served := blocks.served_call_of(block)) is not None:
            self._server_calls[served] = _Call(row, _named(block), _message(record))
        elif (
            kind == ASSISTANT
            and type_ != "tool_result"
            and (served := blocks.result_of(block)) is not None
        ):
            self._server_results[served] = _Call(row, str(type_), _message(record))

    def _tell_calls(self) -> None:
        t = self._t
        # While a program has the session open, the calls of its last turn are at work.
        busy = t.turn_starts[-1] if self._live and t.turn_starts else len(t.chain)
        for id_, call in sorted(self._calls.items(), key=lambda pair: pair[1].row):
            name = named(id_)
            at = self._at[call.row]
            if at >= busy or (at == _ASIDE and self._live):
                continue
            if self._passed_over and id_ not in t.open_calls:
                continue
            self._findings.add(
                "dangling_call",
                f"The call of {call.name} ({name}) has no result: the program was killed, or the "
                "result is lost. Claude Code leaves the call out when it resumes; the API and "
                "other programs refuse the whole history. The repair adds a result that says so, "
                "or with drop_calls leaves the call out.",
                call.row,
            )
        for id_, row in sorted(self._results.items(), key=lambda pair: pair[1]):
            name = named(id_)
            if self._passed_over and id_ not in t.orphan_results:
                continue
            self._findings.add(
                "orphan_result",
                f"This result answers the call {name}, which is not in the conversation. Claude "
                "Code sends an empty message in its place; the API and other programs refuse the "
                "whole history. The repair leaves the result out.",
                row,
            )

    def _tell_server_calls(self) -> None:
        for id_, call in self._server_calls.items():
            result, name = self._server_results.get(id_), named(id_)
            if result is None:
                self._findings.add(
                    "dangling_call",
                    f"The call of {call.name} ({name}), which the API's own servers run, has no "
                    "result. The repair leaves the call out.",
                    call.row,
                )
            elif self._are_parted(call, result):
                self._findings.add(
                    "split_call",
                    f"The call of {call.name} ({name}) and its result are parts of one message, "
                    "but something else stands between them. Claude Code sends “[Tool use "
                    "interrupted]” in place of both; other versions are refused by the API. The "
                    "repair puts the two together.",
                    call.row,
                )

    def _are_parted(self, call: _Call, result: _Call) -> bool:
        t, first, last = self._t, self._at[call.row], self._at[result.row]
        if first < 0 or last < 0:
            return False
        between = t.chain[first + 1 : last] if first < last else array("I")
        if any(t.kinds[row] & KIND in SPOKEN - {ASSISTANT} for row in between):
            return True
        if call.message_id != result.message_id:
            return True
        inner = [row for row in between if t.kinds[row] & KIND == ASSISTANT]
        return any(_message(record) != call.message_id for _, record in t.read(inner))

    # Prompts that wait

    def _follow_queue(self, row: int, record: Record) -> None:
        operation, text = record.get("operation"), record.get("content")
        if operation == "enqueue":
            if isinstance(text, str) and text.strip():
                self._queue.append(_Queued(row, text))
        elif operation == "popAll":
            self._queue.clear()
        elif operation in ("dequeue", "remove") and self._queue:
            named = (n for n, queued in enumerate(self._queue) if queued.text == text)
            self._queue.pop(next(named, 0))

    def _tell_queue(self) -> None:
        if self._live or not self._queue:
            return
        t = self._t
        wanted = {" ".join(queued.text.split()) for queued in self._queue}
        rows = [r for r, kind in enumerate(t.kinds) if kind & KIND in (PROMPT, ATTACHMENT)]
        sent = {
            said
            for _, record in t.read(rows)
            if (said := " ".join(_prompted(record).split())) in wanted
        }
        for queued in self._queue:
            if " ".join(queued.text.split()) in sent:
                continue
            self._findings.add(
                "undelivered_prompt",
                f"A prompt was typed here ({size(len(queued.text.encode('utf-8', 'replace')))}) "
                f"and never sent: “{records.preview(queued.text, 60)}”. The program ended before "
                "its turn came. It is in no turn; type it again if it is still wanted.",
                queued.row,
            )

    def _tell_limit(self) -> None:
        t = self._t
        if t.compactions and t.scanned > _READ_WHOLE:
            newest = t.compactions[-1]
            self._findings.add(
                "over_read_limit",
                f"The file is {size(t.scanned)} long and was compacted here. Over 5 MiB Claude "
                "Code reads from its newest compaction on: it cannot go back to an earlier turn, "
                "though Turntree lists them and can fork there.",
                newest.line,
            )


def _named(block: Record) -> str:
    name = block.get("name")
    return named(name) if isinstance(name, str) and name else "a tool"


def _message(record: Record) -> Any:
    message = record.get("message")
    return message.get("id") if isinstance(message, dict) else None


def _prompted(record: Record) -> str:
    attachment = record.get("attachment")
    if isinstance(attachment, dict):
        return records.block_text({"content": attachment.get("prompt")})
    return records.prompt_text(record) or ""
