"""Sessions as a tree of forks, and one session with the branches and forks of its turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from server.render import words
from server.render.layout import Blank, Block, Line, Node, Span
from server.render.sessions import heading
from session.model import Branch, Session, SessionPage, Turn

_RUN = 6
"""A longer run of turns that nothing leaves from is shown by its first and last turns."""
_ENDS = 2


def forest(result: SessionPage, below: str | None) -> list[Block]:
    """Sessions under the ones they were forked from; the newest family first."""
    known = {s.session_id: s for s in result.sessions}
    children = _children(result.sessions)
    roots = [s for s in result.sessions if _parent(s) not in known]
    out: list[Block] = []
    for root in roots:
        if out and (children[root.session_id] or (isinstance(out[-1], Node) and out[-1].children)):
            out.append(Blank())
        out.append(_session_node(root, children, below or "", lineage=True))
    return out


def _parent(session: Session) -> str | None:
    return session.forked_from.session_id if session.forked_from else None


def _children(sessions: Sequence[Session]) -> dict[str, list[Session]]:
    """Forks by their parent's id, in the order of the turns they leave from, oldest first."""
    out: dict[str, list[Session]] = defaultdict(list)
    for session in sorted(sessions, key=_place):
        parent = _parent(session)
        if parent is not None:
            out[parent].append(session)
    return out


def _place(session: Session) -> tuple[int, str]:
    origin = session.forked_from
    return (origin.turn_number or 0 if origin else 0, session.created_at or "")


def _session_node(
    session: Session,
    children: dict[str, list[Session]],
    below: str | None,
    before: Sequence[Span] = (),
    lineage: bool = False,
) -> Node:
    """A session and its forks; `before` stands in front of it, `lineage` names its parent."""
    forks = [
        _session_node(child, children, session.cwd, [(f"at {_turn(child)}  ", "dim")])
        for child in children[session.session_id]
    ]
    return Node([*before, *heading(session, below, lineage)], forks)


def _turn(session: Session) -> str:
    """The number of the turn that a fork leaves from."""
    number = session.forked_from.turn_number if session.forked_from else None
    return "?" if number is None else f"{number:,}"


def family(
    session: Session,
    ancestors: Sequence[Session],
    forks: Sequence[Session],
    branches: Sequence[Branch],
    turns: Sequence[Turn],
) -> list[Block]:
    """A session's turns, with abandoned branches and forks under the turn they leave from."""
    out: list[Block] = []
    if ancestors or session.forked_from:
        out += [*_origin(session, ancestors), Blank()]
    children = _children(forks)
    leaving: dict[str | None, list[Node]] = defaultdict(list)
    numbers = {t.turn_number: t.turn_id for t in turns if t.branch == "active"}
    ids = {t.turn_id for t in turns}
    for fork in children[session.session_id]:
        origin = fork.forked_from
        assert origin is not None
        at = origin.turn_id if origin.turn_id in ids else numbers.get(origin.turn_number or 0)
        leaving[at].append(_session_node(fork, children, session.cwd, [("fork ", "good")]))
    for branch in branches:
        if not branch.active:
            path = [t for t in turns if t.branch == branch.leaf_id]
            start = path[0].parent_turn_id if path else branch.forked_at_turn_id
            leaving[start].insert(0, _branch_node(branch, path, leaving))
    active = [t for t in turns if t.branch == "active"]
    steps = [Node([("start", "dim")], leaving[None])] if leaving[None] else []
    steps += _collapsed(active, leaving)
    return [*out, Node(heading(session, lineage=False), steps)]


def _origin(session: Session, ancestors: Sequence[Session]) -> list[Block]:
    out: list[Block] = []
    child = session
    for parent in [*ancestors, None]:
        origin = child.forked_from
        if origin is None:
            break
        name: Line = (
            heading(parent, lineage=False)
            if parent
            else [(words.short(origin.session_id), "id"), ("  no longer there", "dim")]
        )
        out.append(Node([(f"forked at turn {_turn(child)} from ", "dim"), *name]))
        if parent is None:
            break
        child = parent
    return out


def _branch_node(
    branch: Branch, path: Sequence[Turn], leaving: dict[str | None, list[Node]]
) -> Node:
    label: list[Span] = [
        ("branch ", "warn"),
        (words.shorten([branch.leaf_id])[branch.leaf_id], "id"),
        (f"  left behind, {words.count(len(path), 'turn')}", "dim"),
    ]
    return Node(label, _collapsed(path, leaving))


def _collapsed(turns: Sequence[Turn], leaving: dict[str | None, list[Node]]) -> list[Node]:
    """The turns as nodes; long runs from which nothing leaves become one line."""
    out: list[Node] = []
    run: list[Turn] = []
    for turn in turns:
        run.append(turn)
        if leaving.get(turn.turn_id):
            out += _run(run[:-1])
            out.append(_turn_node(turn, leaving))
            run = []
    return out + _run(run)


def _run(run: Sequence[Turn]) -> list[Node]:
    if len(run) <= _RUN:
        return [_turn_node(turn, {}) for turn in run]
    hidden = len(run) - 2 * _ENDS
    middle = Node([(f"… {words.count(hidden, 'turn')}", "dim")])
    ends = [_turn_node(turn, {}) for turn in (*run[:_ENDS], *run[-_ENDS:])]
    return [*ends[:_ENDS], middle, *ends[_ENDS:]]


def _turn_node(turn: Turn, leaving: dict[str | None, list[Node]]) -> Node:
    abandoned = turn.branch != "active"
    label: list[Span] = [
        (f"{turn.turn_number:,}", "dim" if abandoned else "title"),
        "  ",
        (words.line(turn.prompt), "dim" if abandoned else ""),
    ]
    if turn.status == "interrupted":
        label.append(("  interrupted", "warn"))
    elif turn.status == "in_progress":
        label.append(("  running", "good"))
    return Node(label, leaving.get(turn.turn_id, ()))
