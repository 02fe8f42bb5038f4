"""What an undo or a redo does or did: to which operation, and what became of turns added since."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from server.render import words
from server.render.changes import file_changes, paste
from server.render.layout import Blank, Block, Line, fields, note
from server.render.sessions import title
from session.model import Operation, Session, UndoResult


@define(frozen=True)
class Aside:
    """Turns that an undo put aside: they are the branch that ends at `leaf`."""

    leaf: str
    turns: int


@define(frozen=True)
class Context:
    """What the result of an undo does not say.

    `added` counts turns that were added since the operation, `newer` are the rewinds that came
    after it; `aside` is known when the undo is done.
    """

    operation: Operation | None
    added: int = 0
    newer: Sequence[Operation] = ()
    aside: Aside | None = None

    @property
    def worth_asking(self) -> bool:
        return bool(self.added or self.newer)


def reversal(
    result: UndoResult, verb: str, context: Context, *, asking: bool = False, agreed: bool = False
) -> list[Block]:
    """A reversal that was made, or a preview: with `asking` of one that may follow at once.

    `verb` is `undo` or `redo`.  `agreed`: it was asked for with such a preview.
    """
    operation = context.operation
    preview = result.status == "preview"
    fork = operation is not None and operation.kind in ("fork", "repair")
    what: list[tuple[str, Line]] = [(_head(result, verb, asking), _named(result, operation))]
    if fork and operation is not None and verb == "undo" and result.status != "already_done":
        what.append(("Session", _gone(operation, preview)))
    elif result.session is not None:
        what.append(("Session", _described(result.session)))
    if since := _since(context, fork, preview):
        what.append(("Since then", since))
    if context.newer:
        what.append(("Newer", _newer(context.newer)))
    out: list[Block] = [Blank(), fields(what)] if agreed else [fields(what)]
    out += file_changes(result.files)
    if preview:
        return out if asking else [*out, Blank(), note(("Nothing was written.", "dim"))]
    if result.status in ("undone", "redone"):
        back = "redo" if verb == "undo" else "undo"
        command = f"turntree {back} --operation {words.short(result.operation_id)}"
        out += [
            Blank(),
            note((f"{back.capitalize()} with", "label")),
            paste(command),
        ]
    return out


def _head(result: UndoResult, verb: str, asking: bool) -> str:
    if result.status == "preview":
        return f"To {verb}" if asking else f"Would {verb}"
    if result.status == "already_done":
        return "Already undone" if verb == "undo" else "Not undone"
    return result.status.replace("_", " ").capitalize()


def _named(result: UndoResult, operation: Operation | None) -> Line:
    name: Line = [(words.short(result.operation_id), "id")]
    if operation is None:
        return name
    return [*name, "  ", words.line(operation.summary), (f", {words.ago(operation.at)}", "dim")]


def _described(session: Session) -> Line:
    facts = f"  {words.count(session.turn_count, 'turn')}"
    if session.updated_at:
        facts += f", last message {words.ago(session.updated_at)}"
    return [(words.short(session.session_id), "id"), (f"{facts}  ", "dim"), *title(session)]


def _gone(operation: Operation, preview: bool) -> Line:
    child = operation.new_session_id or ""
    agent = child.partition(":")[0]
    tense = "will no longer be" if preview else "is no longer"
    return [(words.short(child), "id"), f"  {tense} among the sessions of {agent}; it is kept"]


def _since(context: Context, fork: bool, preview: bool) -> Line:
    """What becomes, or became, of the turns added since."""
    if context.aside is not None:
        name = words.shorten([context.aside.leaf])[context.aside.leaf]
        return [f"{_added(context.aside.turns)}, now branch ", (name, "id")]
    if not context.added:
        return []
    if fork:
        return [f"{_added(context.added)}, kept with it: redo brings both back"]
    return [f"{_added(context.added)}, which becomes a branch"] if preview else []


def _added(turns: int) -> str:
    return f"{words.count(turns, 'turn')} added"


def _newer(newer: Sequence[Operation]) -> Line:
    names = ", ".join(words.short(one.operation_id) for one in newer)
    noun = "a rewind" if len(newer) == 1 else f"{len(newer):,} rewinds"
    return [f"{noun} of this session ({names}); this goes back to before it all"]
