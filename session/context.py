"""What every verb works with: the store, the catalog, the operation log, the news."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define

from session.agents.base import History
from session.catalog import Catalog, Located
from session.errors import StaleRevision
from session.later import later
from session.model import Change, Session
from session.store.database import Store
from session.watch import Changes
from session.work import Work

if TYPE_CHECKING:
    from session import locks, operations
else:
    # What only looks does without the rooms that change files.
    locks = later("session.locks")
    operations = later("session.operations")


@define(frozen=True, slots=False, eq=False, repr=False)
class Context:
    """`home` is Turntree's own directory; `program` is what others are told of who holds a lock."""

    store: Store
    catalog: Catalog
    changes: Changes
    home: Path
    program: str

    @cached_property
    def operations(self) -> operations.Operations:
        guards = locks.Locks(self.home, self.program)
        return operations.Operations(self.store, guards, self.home)

    async def open(self, session_id: str, work: Work) -> tuple[Located, History]:
        """A session indexed as it is now.  Raises SessionNotFound, StorageError."""
        located = await self.catalog.find(session_id)
        history = located.known()
        if history is None:
            history = await self.catalog.index(located, work)
        return located, history

    async def open_for(
        self, session_id: str, operation: str, expect_revision: str | None, work: Work
    ) -> tuple[Located, History]:
        """A session to be forked or changed; raises StaleRevision when it is not as expected."""
        located = await self.catalog.find(session_id, operation)
        history = located.known()
        if history is None:
            history = await self.catalog.index(located, work)
        actual = history.summary.revision
        if expect_revision is not None and actual != expect_revision:
            raise StaleRevision(
                f"Session {session_id} changed: its revision is {actual}, not {expect_revision}."
                " Look at it again.",
                expected=expect_revision,
                actual=actual,
            )
        return located, history

    async def describe_now(self, session_id: str) -> Session:
        """A session after it was changed."""
        located, history = await self.open(session_id, Work())
        return await self.catalog.describe(located, history)

    def announce(self, change: Change, path: Path | None = None) -> None:
        self.changes.announce(change, path)
