"""What is wrong with a session, or dangerous for it, in words that a person understands.

One pass over the file, a look at what lies beside it, and nothing is written anywhere.
"""

from __future__ import annotations

import os

from session import osfile
from session.agents.claude_code.checking import (
    companions,
    conversation,
    lines,
    neighbours,
    places,
    sizes,
    tree,
)
from session.agents.claude_code.checking.findings import Findings
from session.agents.claude_code.checking.walk import physical_lines
from session.agents.claude_code.history import History
from session.agents.claude_code.store import ClaudeStore
from session.agents.claude_code.strays import candidates
from session.model import Finding
from session.store.native_files import NO_FILE
from session.work import Work


def check(store: ClaudeStore, history: History, *, siblings: bool, work: Work) -> list[Finding]:
    """All findings about a session: errors first, then by line.

    With `siblings` the other transcripts of its project folder are searched for records of
    this session, which takes a pass over them.  Raises OSError, StorageError when the file was
    replaced meanwhile, Cancelled.
    """
    transcript = history.transcript
    identity = transcript.identity
    if identity is None or identity == NO_FILE:
        return []
    findings = Findings(transcript)
    others = candidates(store, history) if siblings else []
    size = identity.size
    total = size + sum(other.size for other in others)
    tree.look(transcript, findings)
    with osfile.opened(transcript.path, os.O_RDONLY) as fd:
        told = lines.Lines(transcript, findings)
        said = conversation.Conversation(history, findings)
        weighed = sizes.Sizes(transcript, findings)
        named = companions.Companions(store, history, findings)
        for line in physical_lines(transcript, fd, total, work):
            record = told.look(line)
            if record is not None:
                said.look(line, record)
                weighed.look(line, record)
                named.look(line, record)
            elif len(line.data) < line.size:
                said.pass_over()
        told.finish(fd, live=history.open_in is not None)
        said.finish()
        weighed.finish()
    named.finish()
    places.look(store, history, findings)
    if others:
        neighbours.look(history, others, findings, done=size, total=total, work=work)
    return findings.sorted()


__all__ = ["check"]
