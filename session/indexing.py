"""The index that grows behind a server: who makes it, when, and who hears of it.

A process of its own does the work, so that no request waits for the interpreter while files
are read.  Of all servers on one home, one has it done; the others take what it learns from the
database, and take over when it dies.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from session.catalog import Catalog
from session.later import later
from session.model import Change
from session.store import search
from session.store.database import Store
from session.watch import Changes
from session.work import Work

if TYPE_CHECKING:
    import asyncio
    import logging
else:
    # Only a server has an index made behind it.
    asyncio = later("asyncio")
    logging = later("logging")

_FIRST_SECONDS = 0.5
"""What a client asks at once is answered first."""
_REST_SECONDS = 5.0
_LONGEST_REST = 60.0
_LONGEST_LINE = 1 << 26
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from session.worker import main; main(sys.argv[2])"
)


class Indexing:
    """Has what is not indexed indexed behind a server, and again whenever that is `want`ed."""

    def __init__(self, store: Store, catalog: Catalog, changes: Changes, home: Path) -> None:
        self._store = store
        self._catalog = catalog
        self._changes = changes
        self._home = home
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._following = asyncio.ensure_future(self._follow())

    def want(self) -> None:
        """A listing or a search came upon something that is not indexed."""
        self._wanted.set()

    async def close(self) -> None:
        """Stop at once; what was committed stays."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        await asyncio.sleep(_FIRST_SECONDS)
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            began = time.monotonic()
            failed = False
            try:
                failed = await self._is_pending() and await self._run() != 0
            except Exception:
                failed = True
                logging.getLogger(__name__).exception("the index cannot be made")
            # A long session that grows all the time must not be read all the time.
            rest = _LONGEST_REST if failed else 5 * (time.monotonic() - began)
            await asyncio.sleep(max(_REST_SECONDS, min(rest, _LONGEST_REST)))

    async def _is_pending(self) -> bool:
        if self._store.refusal is not None:
            return False  # nothing could be kept
        files, _ = await self._catalog.files(None, None, Work())
        self._catalog.has_news = False
        if self._catalog.unindexed:
            return True
        everything = [file for _, file in files]
        return bool(await Work().in_thread(search.count_behind, self._home, everything))

    async def _run(self) -> int:
        """The exit code of a process that indexed what there was."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # else the current directory's modules would be found first
            "-c",
            _START,
            orjson.dumps(sys.path).decode(),
            str(self._home),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            # A terminal's Ctrl-C is for the server, which ends it.
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            await self._listen(process.stdout)
            code = await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if code:
            logging.getLogger(__name__).warning("indexing ended with code %s", code)
        return code

    async def _listen(self, source: asyncio.StreamReader) -> None:
        while line := await source.readline():
            news: dict[str, Any] = orjson.loads(line)
            # Without paths it tells of another server's process, which is at it, or of words.
            paths = {news["agent"]: news["paths"]} if news["paths"] else self._catalog.unindexed
            for name, files in paths.items():
                await self._take(name, files)

    async def _take(self, name: str, paths: list[str]) -> None:
        session_ids = await self._catalog.learn(name, paths)
        if session_ids:
            self._changes.announce(Change(session_ids, "changed"))
