"""One session of Claude Code, as the rooms above see it: a view of its transcript."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from session import osfile
from session.agents.base import Summary
from session.agents.claude_code import records, turns
from session.agents.claude_code.cut import Cut, active_number, cut_at, dropped_prompt, find_turn
from session.agents.claude_code.records import Record
from session.agents.claude_code.transcript import Transcript
from session.agents.claude_code.turns import ItemPlace, Place
from session.errors import InvalidParams, SessionDamaged
from session.model import Boundary, Branch, Finding, Gap, Item, Live, Turn
from session.values import value


@value
class History:
    """See `base.History`: a view of a transcript and who has it open."""

    transcript: Transcript
    native_id: str
    live_sessions: dict[str, Live]

    @property
    def open_in(self) -> Live | None:
        return self.live_sessions.get(self.native_id)

    @property
    def turn_count(self) -> int:
        return self.transcript.turn_count

    @property
    def leaf_id(self) -> str | None:
        return self.transcript.leaf_id

    @property
    def given_title(self) -> str | None:
        """The title that a person or the agent gave."""
        return self.transcript.custom_title or self.transcript.ai_title or self.transcript.summary

    @property
    def first_prompt(self) -> str | None:
        """A preview of the first prompt of the live branch."""
        t = self.transcript
        if t.identity is None or not t.prompts:
            return t.first_prompt
        if not t.turn_starts:
            return None
        line = t.chain[t.turn_starts[0]]
        return t.first_prompt if line == t.prompts[0] else self._prompt_at(line)

    @cached_property
    def summary(self) -> Summary:
        t = self.transcript
        indexed = t.identity is not None
        given = self.given_title
        origin = t.forked_from
        updated = t.updated_at or (_mtime(t.path) if t.kinds else None)
        return Summary(
            native_id=self.native_id,
            path=str(t.path),
            kind=_kind(self.native_id, t),
            title=records.preview(given) if given else self.first_prompt,
            cwd=t.cwd,
            last_cwd=t.last_cwd,
            created_at=t.created_at,
            updated_at=updated,
            first_prompt=self.first_prompt,
            turn_count=t.turn_count if indexed else None,
            branch_count=len(self._branch_leaves()) if indexed else None,
            revision=t.revision if indexed else None,
            finding_count=t.torn_lines + len(t.gaps) if indexed else None,
            damaged=indexed and bool(t.torn_lines or t.gaps),
            forked_from=origin.session if origin else None,
            forked_at=origin.turn_id if origin else None,
            forked_turn=origin.turn_number if origin and indexed else None,
            parent_id=_parent(self.native_id, t),
        )

    def _branch_leaves(self) -> list[int]:
        """Prompt lines of the last turn of each branch, the active one's first (-1: no turn)."""
        t = self.transcript
        active = t.chain[t.turn_starts[-1]] if t.turn_starts else -1
        return [active, *(leaf for leaf in t.tree.leaves if leaf != active)]

    def gaps(self) -> list[Gap]:
        t = self.transcript
        if not t.gaps:
            return []
        lines = sorted(t.gaps)
        after = [bisect_left(t.prompts, line) for line in lines]
        prompts = [t.prompts[at] if at < len(t.prompts) else -1 for at in after]
        ids = {line: record.get("uuid") for line, record in t.read([p for p in prompts if p >= 0])}
        return [
            Gap(ids.get(prompt), t.gaps[line].missing, number)
            for line, prompt, number in zip(lines, prompts, t.line_numbers(lines), strict=True)
        ]

    def damaged_at(self, line: int) -> SessionDamaged:
        t = self.transcript
        (number,) = t.line_numbers([line])
        missing = t.gaps[line].missing
        finding = Finding(
            code="missing_parent",
            severity="error",
            line=number,
            byte_offset=t.offsets[line],
            turn_id=None,
            message=f"Line {number} follows record {missing}, which is not in the file.",
            repair="bridge_gaps",
        )
        return SessionDamaged(
            f"The kept turns cross a gap: {finding.message} A person may have rewound there. "
            "With bridge_gaps the fork joins both sides.",
            findings=[finding],
        )

    # Turns

    def turn_id(self, number: int) -> str:
        t = self.transcript
        return t.uuid_at(t.chain[t.turn_starts[number - 1]]) or ""

    def turns(self, numbers: Sequence[int]) -> list[Turn]:
        out: dict[int, Turn] = {}
        for number in sorted(numbers):
            before = out.get(number - 1)
            parent = before.turn_id if before else self.turn_id(number - 1) if number > 1 else None
            out[number] = self._turn(turns.active_place(self.transcript, number, parent))
        return [out[number] for number in numbers]

    def _turn(self, place: Place) -> Turn:
        return self._turn_of(place, turns.read_place(self.transcript, place, records.SPOKEN))

    def _turn_of(self, place: Place, read: list[tuple[int, Record]]) -> Turn:
        last = place.branch == "active" and place.number == self.turn_count
        return turns.turn_at(self.transcript, place, read, live=last and self.open_in is not None)

    def branches(self) -> list[Branch]:
        t = self.transcript
        active = {t.chain[at] for at in t.turn_starts}
        out = []
        for prompt in self._branch_leaves():
            is_active = prompt in active or prompt < 0
            leaf = t.leaf if is_active else t.spoken(t.tree.end_of(prompt))
            shared = prompt
            while not is_active and shared >= 0 and shared not in active:
                shared = t.tree.parent(shared)
            out.append(
                Branch(
                    leaf_id=(t.uuid_at(leaf) if leaf >= 0 else None) or "",
                    active=is_active,
                    turn_count=t.tree.depth(prompt),
                    last_prompt=self._prompt_at(prompt),
                    updated_at=self._time_at(leaf),
                    forked_at_turn_id=None if is_active or shared < 0 else t.uuid_at(shared),
                )
            )
        return out

    def _prompt_at(self, line: int) -> str | None:
        for _, record in self.transcript.read([line] if line >= 0 else []):
            return records.preview(records.prompt_text(record) or "")
        return None

    def _time_at(self, line: int) -> str | None:
        for _, record in self.transcript.read([line] if line >= 0 else []):
            return records.time_of(record)
        return None

    def branch_turns(self, branch: str) -> list[tuple[int, int]]:
        """(prompt line, prompt line of the branch's last turn) of each turn, oldest first."""
        t = self.transcript
        leaves = self._branch_leaves()
        if branch == "all":
            owner: dict[int, int] = {}
            for leaf in leaves:
                prompt = leaf
                while prompt >= 0 and prompt not in owner:
                    owner[prompt] = leaf
                    prompt = t.tree.parent(prompt)
            return sorted(owner.items())
        leaf_line = t.find(branch)
        wanted = t.spoken(leaf_line) if leaf_line is not None else -1
        for leaf in leaves:
            end = t.leaf if leaf == leaves[0] else t.spoken(t.tree.end_of(leaf))
            if end == wanted >= 0:
                return [(prompt, leaf) for prompt in t.tree.path(leaf)]
        raise InvalidParams(
            f"branch: no branch ends at {branch}; list_branches names them.", field="branch"
        )

    def turns_of(self, handles: Sequence[tuple[int, int]]) -> list[Turn]:
        return [self._turn(self._place(prompt, leaf)) for prompt, leaf in handles]

    def _place(self, prompt: int, leaf: int | None = None) -> Place:
        """Where the turn with this prompt line stands; `leaf` as in `branch_turns`."""
        t = self.transcript
        parent_line = t.tree.parent(prompt)
        parent = t.uuid_at(parent_line) if parent_line >= 0 else None
        number = active_number(t, prompt)
        if number is not None:
            return turns.active_place(t, number, parent)
        if leaf is None:
            leaf = next((leaf for at, leaf in self.branch_turns("all") if at == prompt), prompt)
        name = t.uuid_at(t.spoken(t.tree.end_of(leaf))) or ""
        path = t.path_to(t.spoken(t.tree.end_of(prompt)), trailing=True)
        lines = path[path.index(prompt) :] if prompt in path else path[-1:]
        return Place(lines, t.tree.depth(prompt), name, parent, False)

    def items(
        self, turn_id: str, max_bytes: int, cursor: str | None
    ) -> tuple[Turn, list[Item], str | None]:
        t = self.transcript
        place = self._place(find_turn(t, turn_id))
        read = turns.read_place(t, place)
        items, after = turns.items_from(t, read, _place_of(cursor), max_bytes)
        return self._turn_of(place, read), items, None if after is None else _cursor_of(after)

    # Cuts

    def cut(self, boundary: Boundary) -> Cut:
        return cut_at(self.transcript, boundary, open_turn=self._last_turn_is_open())

    def _last_turn_is_open(self) -> bool:
        count = self.turn_count
        return bool(self.open_in and count and self.turns([count])[0].status == "in_progress")

    def has_live(self, record_id: str | None) -> bool:
        """Whether the record with this id is on the active branch."""
        t = self.transcript
        line = t.find(record_id) if record_id else None
        number = active_number(t, t.owner(line)) if line is not None else None
        return number is not None and line in t.turn_lines(number)

    def dropped_numbers(self, cut: Cut) -> range:
        if cut.abandoned:
            return range(0)
        return range(cut.kept + 1, self.turn_count + 1)

    def dropped_prompt(self, cut: Cut) -> str | None:
        return dropped_prompt(self.transcript, cut)


def _kind(native_id: str, transcript: Transcript) -> str:
    only_aside = transcript.first.get("isSidechain") and transcript.newest < 0
    if native_id.startswith("agent-") or only_aside:
        return "subagent"
    # `sdk-cli` is a person's `claude -p`.
    return "sdk" if transcript.entrypoint in ("sdk-py", "sdk-ts") else "main"


def _parent(native_id: str, transcript: Transcript) -> str | None:
    """A subagent's records carry the session id of its parent."""
    session = transcript.first.get("sessionId")
    is_subagent = _kind(native_id, transcript) == "subagent"
    return session if is_subagent and isinstance(session, str) else None


def _mtime(path: Path) -> str | None:
    try:
        return osfile.utc(path.stat().st_mtime)
    except OSError:
        return None


def _place_of(cursor: str | None) -> ItemPlace:
    if cursor is None:
        return ItemPlace()
    try:
        index, block, offset = (int(part) for part in cursor.split("."))
        if min(index, block, offset) < 0:
            raise ValueError
    except ValueError:
        raise InvalidParams("cursor: not a cursor of read_turn", field="cursor") from None
    return ItemPlace(index, block, offset)


def _cursor_of(place: ItemPlace) -> str:
    return f"{place.index}.{place.block}.{place.offset}"
