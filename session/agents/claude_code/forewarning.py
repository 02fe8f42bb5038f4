"""What a fork carries that its agent, or the model's service, may refuse: told, not mended.

A fork reads no record that it only passes on.  Calls without results are known from the index;
thinking is looked for in the bytes as they are copied, which costs a search for a few bytes.
"""

from __future__ import annotations

from session.agents.claude_code import records
from session.agents.claude_code.cut import Cut, Selection
from session.agents.claude_code.records import ASSISTANT, KIND, PROMPT
from session.agents.claude_code.repairing import blocks
from session.agents.claude_code.transcript import Transcript
from session.model import Warn

# As the program writes it; within a string a quote has a backslash before it.
_THINKING = b'{"type":"thinking","thinking":"'
_SIGNATURE = b'","signature":"'


def dangling_calls(transcript: Transcript, cut: Cut, selection: Selection) -> list[Warn]:
    """A warning where kept calls have no result though the conversation goes on behind them."""
    left = {call: line for call, line in transcript.open_calls.items() if selection.has(line)}
    if left:
        last = next((at for at in reversed(cut.lines) if _kind(transcript, at) == PROMPT), -1)
        ended = _kind(transcript, cut.leaf) == ASSISTANT and cut.leaf not in left.values()
        if not ended:
            left = {call: line for call, line in left.items() if transcript.owner(line) != last}
    if not left:
        return []
    one = len(left) == 1
    return [
        Warn(
            "dangling_calls",
            f"{len(left):,} tool call{'' if one else 's'} in the kept turns "
            f"{'has' if one else 'have'} no result ({', '.join(sorted(left)[:3])}"
            f"{'' if len(left) < 4 else ', …'}): a model's service may refuse the whole history. "
            "repair_session makes a session in which they have one.",
        )
    ]


def _kind(transcript: Transcript, line: int) -> int:
    return transcript.kinds[line] & KIND if line >= 0 else -1


class Thoughts:
    """Counts thinking without a signature in blocks of whole lines as they pass."""

    def __init__(self) -> None:
        self.unsigned = 0

    def pass_by(self, block: bytes) -> None:
        at = block.find(_THINKING)
        while at >= 0:
            end = block.find(b"\n", at) + 1 or len(block)
            signature = block.find(_SIGNATURE, at, end) + len(_SIGNATURE)
            if signature < at or block[signature : signature + 1] == b'"':
                record = records.parse(block[block.rfind(b"\n", 0, at) + 1 : end])
                found = records.content_blocks(record) if record is not None else []
                self.unsigned += sum(map(blocks.is_unsigned_thinking, found))
            at = block.find(_THINKING, end)

    def warnings(self) -> list[Warn]:
        if not self.unsigned:
            return []
        one = self.unsigned == 1
        return [
            Warn(
                "unsigned_thinking",
                f"{self.unsigned:,} thinking block{'' if one else 's'} in the kept turns "
                f"{'has' if one else 'have'} no signature: the model's service refuses every "
                "request with such a block. repair_session makes a session without them.",
            )
        ]
