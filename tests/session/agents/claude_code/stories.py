"""Transcripts as hypothesis draws them: what real files hold, in any order and odd spellings.

A story is a list of small steps that are told to a `Transcript`, so that a failing one shrinks
to the steps that matter.  Every text that someone says holds a mark of its own (`mk12x`), by
which a test finds out where the text went.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from attrs import define, field
from hypothesis import strategies as st

from tests.builders import Transcript
from tests.chain import Record
from tests.session.agents.spelling import ODD_NUMBERS, Pairs, Raw, Style, spell

MARK = re.compile(rb"mk\d+x")

_TEXTS = (
    "{m}",
    '{m} {{"sessionId":"{old}","cwd":"{cwd}","entrypoint":"sdk-cli"}}',
    '{m}","sessionId":"{old}"}}\n',
    "{m} 新聞 😀 \ud800 \u2028 é",
    "{m} projects/x/{old}.jsonl {cwd}/a.py",
    '{m}\\" \\ {old}\\',
    '\r\n\t"quoted" </tag> <b> {m}',
    '"sessionId":"{old}",{m}',
)


@define(repr=False)
class Story:
    """What was told.  `opening` are the records that open a turn, `leaf` is the one at which
    the conversation ends (None: it is empty)."""

    transcript: Transcript
    opening: set[str] = field(factory=set)
    compactions: dict[str, str] = field(factory=dict)
    told: list[str] = field(factory=list)
    _marks: int = 0
    _floor: int = 0
    _doubled: dict[int, int] = field(factory=dict)

    @property
    def leaf(self) -> str | None:
        return self.transcript.head

    @property
    def data(self) -> bytes:
        return self.transcript.dump()

    def outline(self) -> str:
        """A line a record, for whoever looks at an example that fails."""
        names: dict[str | None, str] = {None: "root"}
        lines = []
        for number, raw in enumerate(self.data.split(b"\n")[:-1], 1):
            try:
                record = json.loads(raw.decode("utf-8", "surrogatepass"), strict=False)
                names.setdefault(record.get("uuid"), f"#{number}")
            except (ValueError, AttributeError):
                lines.append(f"{number}: {raw[:40]!r}")
                continue
            what = [record.get("type"), record.get("subtype")]
            flags = ("isCompactSummary", "isSidechain", "isMeta", "explicit")
            more = [flag for flag in flags if record.get(flag)]
            place = ""
            if "uuid" in record:
                again = (
                    ""
                    if names[record["uuid"]] == f"#{number}"
                    else f" again {names[record['uuid']]}"
                )
                place = f"{again} below {names.get(record['parentUuid'], record['parentUuid'])}"
            elif "leafUuid" in record:
                place = f" to {names.get(record['leafUuid'])}"
            marks = " ".join(mark.decode() for mark in MARK.findall(raw))
            lines.append(f"{number}: {[w for w in what if w]}{place} {more} {marks}")
        return "\n".join(lines)

    def text(self, template: int) -> str:
        self._marks += 1
        t = self.transcript
        made = _TEXTS[template % len(_TEXTS)].format(
            m=f"mk{self._marks}x", old=t.session_id, cwd=t.cwd
        )
        self.told.append(made)
        return made

    def nested(self, template: int) -> Record:
        """Arguments of a tool that look like a record's own members."""
        t = self.transcript
        return {
            "sessionId": t.session_id,
            "cwd": t.cwd,
            "entrypoint": t.entrypoint,
            "text": self.text(template),
            "deep": [{"sessionId": t.session_id, "parentUuid": None, "type": "user"}],
            "number": Raw(ODD_NUMBERS[template % len(ODD_NUMBERS)]),
        }

    def prompt(self, template: int, **more: Any) -> str:
        turn_id = self.transcript.prompt(self.text(template), **more)
        self.opening.add(turn_id)
        return turn_id

    def here(self) -> list[str]:
        """Records of the conversation to which one may go back: none before a compaction."""
        t = self.transcript
        messages = [r for r in t.records[self._floor :] if isinstance(r, dict) and "uuid" in r]
        return [
            r["uuid"]
            for r in messages
            if not r["isSidechain"] and r["type"] in ("user", "assistant")
        ]

    def compacted(self, boundary: str, how: str) -> None:
        self.compactions[boundary] = how
        t = self.transcript
        self._floor = t.records.index(t.find(boundary)) + 1


Step = Callable[[Story, int, int], None]


def _turn(s: Story, a: int, b: int) -> None:
    s.prompt(a)
    s.transcript.answer(s.text(b))


def _unanswered(s: Story, a: int, b: int) -> None:
    s.prompt(a)


def _tool(s: Story, a: int, b: int) -> None:
    s.prompt(a)
    arguments = s.nested(b)
    structured = s.nested(a)
    s.transcript.tool("Bash", arguments, s.text(b), say=s.text(a), structured=structured)
    if b % 2:
        s.transcript.answer(s.text(b))


def _parallel(s: Story, a: int, b: int) -> None:
    s.prompt(a)
    calls = [("Read", s.nested(n), s.text(n)) for n in range(a, a + 2 + b % 2)]
    s.transcript.parallel_tools(calls, say=s.text(a) if b % 3 else None)
    s.transcript.answer(s.text(b))


def _dangling(s: Story, a: int, b: int) -> None:
    s.prompt(a)
    s.transcript.tool("Bash", s.nested(b), None)


def _more(s: Story, a: int, b: int) -> None:
    """The open turn goes on."""
    if s.opening and s.transcript.head is not None:
        s.transcript.thinking(s.text(a), s.text(b))


def _queued(s: Story, a: int, b: int) -> None:
    if not s.opening or s.transcript.head is None:
        return
    text = s.text(a)
    s.transcript.queue_operation("enqueue", text)
    s.transcript.queued_prompt(text)
    s.transcript.answer(s.text(b))


def _injected(s: Story, a: int, b: int) -> None:
    t = s.transcript
    kind = b % 5
    if kind == 0:
        t.attachment("note", content=s.text(a))
    elif kind == 1 and s.opening:
        t.meta(s.text(a))
    elif kind == 2:
        t.slash_command("cost", s.text(a))
    elif kind == 3 and s.opening:
        t.interrupt(in_tool=bool(a % 2))
    else:
        t.turn_duration()


def _command(s: Story, a: int, b: int) -> None:
    t = s.transcript
    opened = t.bash_mode("ls", s.text(a)) if b % 2 else t.custom_command("x", s.text(a))
    s.opening.add(opened)
    t.answer(s.text(b))


def _sidechain(s: Story, a: int, b: int) -> None:
    if s.transcript.head is not None:
        s.transcript.sidechain(s.text(a), s.text(b))


def _by_hand(s: Story, a: int, b: int) -> None:
    if s.transcript.head is not None:
        preserved = None if b % 2 else []
        s.compacted(s.transcript.compact(summary=s.text(a), preserved=preserved), "manual")


def _by_itself(s: Story, a: int, b: int) -> None:
    t = s.transcript
    if t.head is None:
        return
    s.prompt(a)
    if b % 2:
        t.tool("Bash", s.nested(a), s.text(b))
        s.compacted(t.compact_in_turn_as_the_tui(answer=s.text(b)), "tui")
    else:
        s.compacted(t.compact("auto", summary=s.text(a)), "auto")
        t.answer(s.text(b))


def _branch(s: Story, a: int, b: int) -> None:
    places = s.here()
    if places:
        s.transcript.branch_from(places[(a * 8 + b) % len(places)])
        _turn(s, a, b)


def _rewind(s: Story, a: int, b: int) -> None:
    places = [*s.here(), *([] if s.compactions else [None])]
    if places:
        s.transcript.rewind_pointer(places[(a * 8 + b) % len(places)])


def _setting(s: Story, a: int, b: int) -> None:
    t = s.transcript
    kind = (a * 8 + b) % 7
    quoted = s.told[-1] if s.told else "nothing"
    if kind == 0:
        t.mode()
    elif kind == 1:
        t.permission_mode()
    elif kind == 2:
        t.ai_title("a title")
    elif kind == 3 and t.head is not None:
        t.last_prompt(quoted)
    elif kind == 4:
        t.queue_operation("enqueue", quoted)
    elif kind == 5:
        t.append({"type": "progress-of-a-kind", "content": {"sessionId": t.session_id}})
    else:
        t.unknown("from-the-future", payload=s.nested(b), when=Raw("1.0"))


def _snapshot(s: Story, a: int, b: int) -> None:
    t = s.transcript
    if t.prompts:
        t.snapshot(t.prompts[-1], {"a.py": None})


def _odd(s: Story, a: int, b: int) -> None:
    """The last record gets members that no version known to us writes, or some of its own twice."""
    last = s.transcript.records[-1] if s.transcript.records else None
    if isinstance(last, dict):
        last["odd"] = [s.nested(a), [Raw(number) for number in ODD_NUMBERS]]
        if b % 2:
            s._doubled[id(last)] = b


def _twice(s: Story, a: int, b: int) -> None:
    places = s.here()
    last = s.transcript.records[-1] if s.transcript.records else b""
    if places and isinstance(last, dict) and "uuid" in last:
        s.transcript.repeat(places[(a * 8 + b) % len(places)])


def _answer_first(s: Story, a: int, b: int) -> None:
    """As the terminal program writes a first turn: the answer stands before its prompt."""
    turn_id = s.prompt(a)
    answer = s.transcript.answer(s.text(b))
    s.transcript.move_before(answer, turn_id)


def _no_record(s: Story, a: int, b: int) -> None:
    line = (b"", b'{"type":"user","uuid":"torn', b"\x00\x00\x00", b"not JSON", b"[1,2]")[a % 5]
    s.transcript.append(line)


_STEPS: tuple[Step, ...] = (
    _turn,
    _turn,
    _tool,
    _parallel,
    _dangling,
    _unanswered,
    _more,
    _queued,
    _injected,
    _command,
    _sidechain,
    _by_hand,
    _by_itself,
    _branch,
    _rewind,
    _setting,
    _setting,
    _snapshot,
    _odd,
    _twice,
    _answer_first,
    _no_record,
)
_STYLES = (
    Style(),
    Style(ascii=True),
    Style(gap=" "),
    Style(ending="\r"),
    Style(gap="\t", ascii=True, ending=" \r"),
)
_small = st.integers(0, 7)
_steps = st.lists(st.tuples(st.sampled_from(_STEPS), _small, _small), min_size=1, max_size=14)


@st.composite
def stories(draw: st.DrawFn, *, without: tuple[str, ...] = ()) -> Story:
    """Stories; `without` names steps (as in this file, without underscore) to leave out."""
    entrypoint = draw(st.sampled_from(["sdk-cli", "cli"]))
    story = Story(Transcript("/home/ada/my project 新聞", seed=11, entrypoint=entrypoint))
    for step, a, b in draw(_steps):
        if step.__name__.removeprefix("_") not in without:
            step(story, a, b)
    _point_at_leaf(story)
    styles = draw(st.lists(st.sampled_from(_STYLES), min_size=1, max_size=3))
    turns = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    _spell_records(story, styles, turns)
    return story


def _point_at_leaf(story: Story) -> None:
    """Make it plain which branch is the live one, as the program does when it leaves."""
    t = story.transcript
    last = next((r for r in reversed(t.records) if isinstance(r, dict)), {})
    if t.head is not None and not last.get("explicit"):
        t.last_prompt("", t.head)


def _spell_records(story: Story, styles: list[Style], turns: list[int]) -> None:
    t = story.transcript
    for at, record in enumerate(t.records):
        if isinstance(record, bytes):
            continue
        items = list(record.items())
        turn = turns[at % len(turns)] % len(items)
        items = items[turn:] + items[:turn]
        if id(record) in story._doubled:
            items = [("sessionId", "another"), ("type", "nothing"), *items]
        t.records[at] = spell(Pairs(items), styles[at % len(styles)])
