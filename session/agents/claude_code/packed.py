"""An index as bytes, to be kept between processes, and back.

A header of facts as JSON, then the columns as they lie in memory, under a checksum.  What
follows from the columns (the live branch) is left out.  An index is worth what the code that
made it knew: one that other code made is not unpacked.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import sys
import zlib
from base64 import b64decode, b64encode
from functools import cache, reduce
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson

from session.agents.claude_code import branch, links, records, table
from session.agents.claude_code.links import Missing
from session.agents.claude_code.table import Compaction, Origin
from session.agents.claude_code.transcript import Transcript
from session.store.native_files import Identity
from session.store.native_index import Piece, SavedIndex

_MAGIC = b"turntree index\n\0"
_FRONT = struct.Struct("<16s16sI")  # magic, edition, checksum of what follows
_SIZE = struct.Struct("<I")  # of the header
_WORTH = 64 << 10  # bytes of a file that are read again sooner than an index of them is kept
_PART = 16

_COLUMNS = (
    "offsets",
    "ids",
    "parents",
    "kinds",
    "prompts",
    "prompt_parents",
    "prompt_ids",
)
_AS_THEY_ARE = (
    "first",
    "cwd",
    "last_cwd",
    "version",
    "entrypoint",
    "created_at",
    "updated_at",
    "custom_title",
    "ai_title",
    "summary",
    "first_prompt",
    "torn_lines",
    "other_encoding",
    "circles",
    "mixed",
    "has_own",
    "open_calls",
    "orphan_results",
    "agent_calls",
    "recovered",
    "unterminated",
    "open_end",
    "relocations",
    "awaited",
    "newest",
    "pointer",
    "explicit",
    "cleared",
    "parents_below",
    "last_entrypoint",
    "last_session",
    "scanned",
    "leaf_id",
    "_last_main",
    "_remembered_from",
)

_columns = attrgetter(*_COLUMNS)
_as_they_are = attrgetter(*_AS_THEY_ARE)


def pack(index: Transcript) -> list[Piece] | None:
    """An index that is up to date as bytes, in pieces: its columns are its own.  None for one
    that cannot be (half a character in a title, say)."""
    columns = _columns(index)
    origin = index.forked_from
    facts = {
        "as they are": _as_they_are(index),
        "own_ids": None if index.own_ids is None else sorted(index.own_ids),
        "entrypoints": sorted(index.entrypoints),
        "adopted": sorted(index.adopted),
        "foreign": list(index.foreign.items()),
        "forked_from": origin and (origin.session, origin.turn_id, origin.turn_number),
        "gaps": [(gap.line, gap.missing) for gap in index.gaps.values()],
        "aside": [(gap.line, gap.missing) for gap in index._aside],
        "pending": [(gap.line, gap.missing) for gaps in index._pending.values() for gap in gaps],
        "compactions": [(one.line, one.preserved) for one in index.compactions],
        "known again": [at for at in index._recent.values() if at < index._remembered_from]
        if index._remembered_from
        else [],
        "identity": list(index.identity or ()),
        "guard": b64encode(index._guard).decode(),
        "lengths": list(map(len, columns)),
    }
    try:
        header = orjson.dumps(facts)
    except orjson.JSONEncodeError:
        return None
    body = [_SIZE.pack(len(header)), header, *columns]
    checksum = reduce(lambda sum_, piece: zlib.crc32(piece, sum_), body, 0)
    return [_FRONT.pack(_MAGIC, _edition(), checksum), *body]


def worth_keeping(index: Transcript) -> bool:
    """Whether much would have to be read again without this index.

    Not after each turn of a long session: what is kept grows with the file, what is read again
    is a small part of it.
    """
    unkept = index.scanned - index.kept_until
    return index.identity is not None and unkept >= max(_WORTH, index.scanned // _PART)


def saved(index: Transcript) -> SavedIndex | None:
    """An index as it is kept, None when that is not worth it."""
    pieces = pack(index) if worth_keeping(index) else None
    if pieces is None or index.identity is None:
        return None
    index.kept_until = index.scanned
    return SavedIndex(*index.identity, str(index.path), pieces)


def unpack(blob: bytes, path: Path, session: str | None) -> Transcript | None:
    """The index of the file at `path` that `pack` made; None for bytes that are anything else.
    Whether the file is still the one that was indexed, `refresh` looks."""
    if len(blob) < _FRONT.size:
        return None
    magic, edition, checksum = _FRONT.unpack_from(blob)
    body = memoryview(blob)[_FRONT.size :]
    if (magic, edition, checksum) != (_MAGIC, _edition(), zlib.crc32(body)):
        return None
    (size,) = _SIZE.unpack_from(body)
    body = body[_SIZE.size :]
    facts: dict[str, Any] = orjson.loads(body[:size])
    index = Transcript(path, session)
    for name, fact in zip(_AS_THEY_ARE, facts["as they are"], strict=True):
        setattr(index, name, fact)
    own_ids, origin = facts["own_ids"], facts["forked_from"]
    index.own_ids = None if own_ids is None else frozenset(own_ids)
    index.entrypoints, index.adopted = set(facts["entrypoints"]), set(facts["adopted"])
    index.foreign = dict(facts["foreign"])
    index.forked_from = None if origin is None else Origin(*origin)
    index.gaps = {line: Missing(line, missing) for line, missing in facts["gaps"]}
    index._aside = [Missing(line, missing) for line, missing in facts["aside"]]
    for line, missing in facts["pending"]:
        index.expect(Missing(line, missing))
    index.compactions = [Compaction(*one) for one in facts["compactions"]]
    index.identity, index._guard = Identity(*facts["identity"]), b64decode(facts["guard"])
    for column, length in zip(_columns(index), facts["lengths"], strict=True):
        data = body[size : size + length * getattr(column, "itemsize", 1)]
        size += len(data)
        if isinstance(column, bytearray):
            column += data
        else:
            column.frombytes(data)
    index.kept_until = index.scanned
    index.remember_from(index._remembered_from, facts["known again"])
    index._bridges = {line: index.parents[line] for line in index.gaps}
    index.part_gaps()
    index.resolve(0)
    return index


@cache
def _edition() -> bytes:
    """Names the code that makes indexes, and the machine's way to write numbers.

    A number to be raised by hand would be forgotten once, and an old index then be believed.
    """
    digest = hashlib.blake2b(sys.byteorder.encode(), digest_size=16)
    for module in (records, links, table, branch, sys.modules[__name__]):
        with contextlib.suppress(OSError):
            digest.update(Path(module.__file__ or "").read_bytes())
    return digest.digest()
