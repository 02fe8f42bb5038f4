"""`python -m bench.whole STORE HOME WORKERS`: index all sessions of a store as a server does
behind the first page, durably, and tell in JSON what that took."""

from __future__ import annotations

import resource
import sqlite3
import sys
import threading
import time
from pathlib import Path

import orjson

from session.agents.base import Indexed
from session.agents.claude_code.agent import ClaudeCode
from session.agents.claude_code.store import ClaudeStore
from session.store import native_files
from session.store.database import Store
from session.work import Work, at_once

_TOGETHER = 1 << 20  # bytes of indexes that are kept in one transaction


def main() -> None:
    root, home, workers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    at_once(_migrated(home))
    agent = ClaudeCode(ClaudeStore(root))
    began = time.perf_counter()
    database = sqlite3.connect(home / "turntree.db", isolation_level=None, check_same_thread=False)
    files = sorted(agent.store.files([], {}), key=lambda file: file.identity.mtime_ns)
    guard = threading.Lock()

    def work() -> None:
        made: list[Indexed] = []
        size = 0
        while files:
            try:
                path = Path(files.pop().path)  # the newest first
            except IndexError:
                break
            made.append(agent.index(path, None, Work()))
            saved = made[-1].saved
            size += saved.length if saved else 0
            if size > _TOGETHER:
                keep(made)
                size = 0
        keep(made)

    def keep(made: list[Indexed]) -> None:
        entries = [one.entry for one in made if one.entry]
        with guard:
            native_files.save(
                database, agent.name, entries, [one.saved for one in made if one.saved]
            )
        made.clear()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Everything is in the database's file, and that on the disk.
    database.execute("PRAGMA synchronous=FULL")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    seconds = time.perf_counter() - began
    (sessions,) = database.execute("SELECT count(*) FROM native_files").fetchone()
    database.close()
    told = {
        "seconds": seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "stored": (home / "turntree.db").stat().st_size,
        "sessions": sessions,
    }
    sys.stdout.buffer.write(orjson.dumps(told))


async def _migrated(home: Path) -> None:
    await (await Store.open(home)).close()


if __name__ == "__main__":
    main()
