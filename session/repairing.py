"""repair_session: which repairs are made together, and the fork that makes them."""

from __future__ import annotations

from session.errors import InvalidParams
from session.model import OUTPUTS_OVER, REPAIRS, USUAL_REPAIRS, Repairs

_ONE_OF = (("bridge_gaps", "cut_gaps"), ("close_calls", "drop_calls"))


def chosen(names: list[str] | None, outputs_over: int | None) -> Repairs:
    """The repairs that a request asks for; lines are recovered in each.

    Raises InvalidParams for a name that there is not, and for two that exclude each other.
    """
    if names is None:
        return Repairs(USUAL_REPAIRS, outputs_over or OUTPUTS_OVER)
    for at, name in enumerate(names):
        if name not in REPAIRS:
            raise InvalidParams(
                f"repairs[{at}]: there is no repair {name!r}; there are {', '.join(REPAIRS)}",
                field="repairs",
            )
    for one, other in _ONE_OF:
        if one in names and other in names:
            raise InvalidParams(
                f"repairs: {one} and {other} exclude each other; name one of them",
                field="repairs",
            )
    wanted = {"recover_lines", *names}
    return Repairs(tuple(name for name in REPAIRS if name in wanted), outputs_over or OUTPUTS_OVER)
