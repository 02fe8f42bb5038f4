"""Operations: durable intents, recorded answers, and what is done about those left unfinished."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from session import effects, scratch
from session.effects import Effect, Move
from session.errors import SessionExists, TurntreeError
from session.locks import Locks
from session.staging import Stage
from session.store import lineage, native_files, operations
from session.store.database import Store, transaction
from session.store.lineage import ForkRow
from session.store.native_files import Learnt
from session.store.operations import OperationRow
from session.values import value

log = logging.getLogger(__name__)

STAGED_SECONDS = 24 * 3600


@value
class Operations:
    """The operation log of one store, and the locks that guard what operations touch."""

    store: Store
    locks: Locks
    home: Path

    def archive(self, operation_id: str) -> Path:
        """Where an operation keeps what it takes out of an agent's store."""
        return self.home / "archive" / operation_id.replace(":", "+")

    async def get(self, operation_id: str) -> OperationRow | None:
        return await self.store.read(operations.get, operation_id)

    async def of_child(self, session_id: str) -> OperationRow | None:
        return await self.store.read(operations.of_child, session_id)

    async def intend(self, **fields: Any) -> None:
        await self.store.require_writable()
        await self.store.run(operations.insert, **fields)

    async def advance(self, operation_id: str, state: str, **fields: Any) -> None:
        await self.store.run(operations.advance, operation_id, state, **fields)

    async def release(self, operation_id: str) -> None:
        await self.store.run(operations.release, operation_id)

    async def take_over(self, row: OperationRow, intent: dict[str, Any]) -> None:
        """This process goes on with an operation of another's, with a new intent."""

        def commit(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                operations.own_within(connection, row.operation_id)
                operations.advance_within(connection, row.operation_id, row.state, intent=intent)

        await self.store.run(commit)

    async def finish_fork(self, operation_id: str, fork: ForkRow) -> None:
        def commit(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                operations.advance_within(connection, operation_id, "done")
                lineage.insert_within(connection, fork)

        await self.store.run(commit)

    async def finish_rewind(self, operation_id: str, result: Any, learnt: Learnt | None) -> None:
        """A rewind took place: it is done.  Until that is on the disk, its effect tells so."""

        def commit(connection: sqlite3.Connection) -> None:
            with transaction(connection, durable=False):
                operations.advance_within(connection, operation_id, "done", result=result)
                _keep(connection, learnt)

        await self.store.run(commit)

    async def finish_undo(
        self,
        operation_id: str,
        target: str,
        state: str,
        *,
        intent: dict[str, Any] | None = None,
        learnt: Learnt | None = None,
        durable: bool = True,
    ) -> None:
        """An undo or redo took place: it is done, and its target `undone` or `done`, from now on
        with `intent`.  Not `durable` will do where the effect itself tells that it took place."""

        def commit(connection: sqlite3.Connection) -> None:
            with transaction(connection, durable=durable):
                operations.advance_within(connection, target, state, intent=intent)
                operations.advance_within(connection, operation_id, "done")
                _keep(connection, learnt)

        await self.store.run(commit)

    # Unfinished operations

    async def sweep(self) -> list[str]:
        """Finish or take back what dead processes left; returns ids of sessions that changed.

        Nothing of a living process is touched: the owner is looked at, then the lock of the
        session is taken without waiting, and under it the row is read again.
        """
        if self.store.refusal is not None:
            return []
        scratch.sweep(self.home)
        changed = []
        for row in await self.store.run(operations.unfinished):
            if not _is_stranded(row):
                continue
            guarded = row.new_session_id or row.session_id
            with self.locks.try_hold(guarded) as held:
                if not held:
                    continue
                again = await self.get(row.operation_id)
                if again is None or again.state != row.state or not _is_stranded(again):
                    continue
                log.info("op=%s sweep of an unfinished %s", row.operation_id, row.kind)
                try:
                    await self.settle(again)
                except (OSError, TurntreeError) as error:
                    log.error("op=%s cannot be settled now: %s", row.operation_id, error)
                    continue
                changed.append(guarded)
        return changed

    async def settle_session(self, session_id: str) -> None:
        """Before a session is changed: settle what was left unfinished on it.

        The caller holds the session's lock, so nobody can be at work on these, not even a
        living process (it died to this session when it lost the lock).
        """
        for row in await self.store.read(operations.unfinished_of, session_id):
            await self.settle(row)

    async def settle(self, row: OperationRow) -> None:
        """Roll one unfinished operation forward or back.  The caller holds its session's lock."""
        if row.kind in operations.FORKS:
            await self._settle_fork(row)
        else:
            await self._settle_effect(row)

    async def _settle_fork(self, row: OperationRow) -> None:
        stage = Stage.from_json(row.intent["stage"])
        keeps_stage = row.intent["staged"] and not row.intent.get("promoting")
        if row.intent.get("discarding") or (row.state == "staged" and keeps_stage):
            stage.remove()
            await self.advance(row.operation_id, "discarded", durable=True)
        elif row.state == "staged" and self._publishes(stage, row.kind):
            await self.finish_fork(row.operation_id, ForkRow(**row.intent["fork"]))
        else:
            stage.remove()
            await self.release(row.operation_id)

    def _publishes(self, stage: Stage, kind: str) -> bool:
        """Finish a publication; False when there is nothing to publish, or the name is taken."""
        if stage.destination is not None and not stage.file.exists() and not stage.published:
            return False
        try:
            stage.publish(kind)
        except SessionExists:
            stage.retract()
            return False
        return True

    async def _settle_effect(self, row: OperationRow) -> None:
        planned = row.intent.get("effect")
        effect = effects.from_json(planned) if planned else None
        if effect is not None and _took_place(effect, row.kind):
            effect.finish()
            if row.target is None:
                await self.advance(row.operation_id, "done", durable=True)
            else:
                state = "undone" if row.kind == "undo" else "done"
                intent = row.intent.get("target_intent")
                target = await self.get(row.target)
                if row.kind == "redo" and intent is None and target is not None:
                    intent = {**target.intent, "effect": planned}
                await self.finish_undo(row.operation_id, row.target, state, intent=intent)
            return
        if effect is not None:
            effect.clean()
        if row.intent.get("stage"):
            shutil.rmtree(row.intent["stage"], ignore_errors=True)
        await self.release(row.operation_id)


def _keep(connection: sqlite3.Connection, learnt: Learnt | None) -> None:
    """Along with what must be recorded, what may be: it costs no step of its own there."""
    if learnt is not None:
        with contextlib.suppress(sqlite3.Error):
            native_files.save_within(connection, *learnt)


def _is_stranded(row: OperationRow) -> bool:
    """Whether no living process is at work on it and nothing waits for a person."""
    if row.state == "staged" and row.intent.get("staged"):
        busy = row.intent.get("promoting") or row.intent.get("discarding")
        if not busy:
            return _age(row) > STAGED_SECONDS
    return not row.owner_lives


def _age(row: OperationRow) -> float:
    created = datetime.fromisoformat(row.created_at)
    return (datetime.now(UTC) - created).total_seconds()


def _took_place(effect: Effect, kind: str) -> bool:
    try:
        happened = effect.state() == effects.AFTER
        if happened and isinstance(effect, Move):
            # A move that began is finished: its parts belong together.
            effect.apply(kind)
        return happened
    except FileNotFoundError:
        return False
