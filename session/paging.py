"""Pages of turns, and the cursors between them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from session.agents.base import History
from session.errors import InvalidParams, StaleCursor
from session.model import Session, Turn, TurnPage
from session.values import value


@value
class _TurnCursor:
    """Pins the history it was made on: how many turns, the id of the last, and how far it got."""

    branch: str
    order: str
    total: int
    last: str
    done: int


def turn_page(
    history: History, session: Session, order: str, branch: str, limit: int, cursor: str | None
) -> TurnPage:
    """One page; raises StaleCursor when the pinned turns are no longer this history's."""
    if branch == "active":
        count = history.turn_count

        def id_of(number: int) -> str:
            return history.turn_id(number)

        handles: Sequence[Any] = range(1, count + 1)
        read: Callable[[list[Any]], list[Turn]] = history.turns
    else:
        found = history.branch_turns(branch)
        count = len(found)

        def id_of(number: int) -> str:
            return history.turns_of([found[number - 1]])[0].turn_id

        handles = found
        read = history.turns_of
    place = _read(cursor, order, branch)
    if place is None:
        place = _TurnCursor(branch, order, count, id_of(count) if count else "", 0)
    elif place.total > count or (place.total and id_of(place.total) != place.last):
        raise StaleCursor(
            "The session's history was rewound or rewritten since this cursor was made; "
            "list its turns again from the start."
        )
    pinned = handles[: place.total]
    if order == "newest":
        pinned = pinned[::-1]
    page = pinned[place.done : place.done + limit]
    done = place.done + len(page)
    more = done < place.total
    return TurnPage(
        session=session,
        turns=read(list(page)),
        next_cursor=_written(place, done) if more else None,
        total_turns=place.total,
        gaps=history.gaps(),
    )


def _written(place: _TurnCursor, done: int) -> str:
    fields = [place.branch, place.order, place.total, place.last, done]
    return base64.urlsafe_b64encode(orjson.dumps(fields)).decode()


def _read(cursor: str | None, order: str, branch: str) -> _TurnCursor | None:
    if cursor is None:
        return None
    try:
        made_branch, made_order, total, last, done = orjson.loads(base64.urlsafe_b64decode(cursor))
        place = _TurnCursor(str(made_branch), str(made_order), int(total), str(last), int(done))
    except (ValueError, TypeError):
        raise InvalidParams(
            "cursor: not a cursor of list_turns; leave it out to begin again.", field="cursor"
        ) from None
    if (place.branch, place.order) != (branch, order) or place.total < 0 or place.done < 0:
        raise InvalidParams(
            f"cursor: it was made with branch {place.branch!r} and order {place.order!r}; "
            "use it with the same.",
            field="cursor",
        )
    return place


def read_number(cursor: str | None, method: str) -> int | None:
    """A cursor that is a number."""
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise InvalidParams(f"cursor: not a cursor of {method}", field="cursor")
    return int(cursor)
