"""Numbered, forward-only migrations.  Each runs once, in one transaction, in order."""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE operations (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        operation_id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,              -- fork, rewind, undo, redo
        session_id TEXT NOT NULL,        -- the session it works on, or forks from
        new_session_id TEXT,             -- the id it claims for a child
        target TEXT,                     -- the operation that an undo or redo works on
        state TEXT NOT NULL,             -- intended, staged, done, discarded, undone, indeterminate
        digest TEXT NOT NULL,            -- of the request, to tell a retry from another request
        summary TEXT NOT NULL,
        intent BLOB NOT NULL,            -- JSON: what is needed to roll forward or back
        result BLOB,                     -- JSON: the recorded answer
        owner_pid INTEGER NOT NULL,
        owner_start TEXT NOT NULL,       -- with the pid names one process for good
        owner_host TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX operations_child ON operations (new_session_id)
        WHERE new_session_id IS NOT NULL;
    CREATE INDEX operations_session ON operations (session_id, seq);
    CREATE INDEX operations_unfinished ON operations (state)
        WHERE state IN ('intended', 'staged', 'indeterminate');

    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        operation_id TEXT NOT NULL,
        state TEXT NOT NULL,
        at TEXT NOT NULL,
        digest TEXT NOT NULL             -- SHA-256 of the operation's payload at that moment
    ) STRICT;

    CREATE TABLE forks (
        child TEXT PRIMARY KEY,
        parent TEXT NOT NULL,
        turn_id TEXT,                    -- the last kept turn, NULL when none was kept
        turn_number INTEGER,
        created_at TEXT NOT NULL,
        operation_id TEXT NOT NULL
    ) STRICT;
    CREATE INDEX forks_parent ON forks (parent);

    CREATE TABLE native_files (
        path TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        device INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        native_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        title TEXT,
        cwd TEXT,
        last_cwd TEXT,
        changed_at TEXT NOT NULL,        -- what a listing is sorted by
        summary BLOB NOT NULL            -- JSON: what a listing shows; format is the agent's
    ) STRICT;
    """,
    """
    CREATE TABLE native_index (
        path TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        device INTEGER NOT NULL,         -- the file that the index describes, as it was then
        inode INTEGER NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        blob BLOB NOT NULL               -- the index; format is the agent's
    ) STRICT;
    """,
    """
    ALTER TABLE native_files ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0; -- counts are known
    UPDATE native_files SET indexed = 1
        WHERE json_extract(CAST(summary AS TEXT), '$.turn_count') IS NOT NULL;
    """,
)
