"""Single values in words: harmless text, times, sizes, short ids, shell commands."""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

from session.model import Resume

_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff]",
)
"""Characters that steer a terminal, reorder what is shown, or cannot be encoded at all."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

_SHORT = 8
"""Characters of a shortened id: the first group of a UUID."""


REPAIRS = {
    "recover_lines": "whole records once each, from damaged lines too: always done",
    "collect_strays": "records that went to another session's file",
    "bridge_gaps": "join both sides of missing records",
    "cut_gaps": "keep the whole turns after the newest gap",
    "close_calls": "give calls without a result one that says it was lost",
    "drop_calls": "leave calls without a result out",
    "drop_thinking": "leave thinking without a signature out",
    "strip_images": "a note in the place of each image and document",
    "strip_outputs": "the beginning of long tool outputs only",
}
"""What each repair does, in a few words."""


def line(text: str | None) -> str:
    """`text` on one line, safe to print: runs of white space become one space."""
    return _CONTROL.sub(_visible, " ".join((text or "").split()))


def block(text: str) -> list[str]:
    """The lines of `text`, safe to print, tabs expanded, without trailing blank lines."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4).rstrip().split("\n")
    return [_CONTROL.sub(_visible, row) for row in rows]


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"


def width(text: str) -> int:
    """Terminal columns that `text` takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return len(text) + sum([_columns(char) - 1 for char in text if char > "\x7f"])


def head(text: str, room: int) -> str:
    """The beginning of `text` in `room` columns, before an ellipsis where something is left out."""
    if len(text) * 2 <= room or width(text) <= room:
        return text
    kept, left = [], room - 1
    for char in text:
        left -= _columns(char)
        if left < 0:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def tail(text: str, room: int) -> str:
    """The end of `text` in `room` columns, behind an ellipsis where something is left out."""
    if width(text) <= room:
        return text
    kept, left = "", room - 1
    for char in reversed(text):
        left -= _columns(char)
        if left < 0:
            break
        kept = char + kept
    return "…" + kept


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def ago(then: str | None, now: datetime | None = None) -> str:
    """An RFC 3339 time relative to `now`; the date alone when it is over 60 days away."""
    if not then:
        return ""
    try:
        moment = datetime.fromisoformat(then)
    except ValueError:
        return line(then)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if -60 < seconds < 45:
        return "just now"
    for unit, length, below in _UNITS:
        if 0 < seconds < below:
            return f"{max(1, round(seconds / length))} {unit} ago"
    return moment.astimezone().strftime("%Y-%m-%d")


_UNITS = (
    ("min", 60, 59.5 * 60),
    ("h", 3600, 23.5 * 3600),
    ("d", 86400, 13.5 * 86400),
    ("wk", 7 * 86400, 60 * 86400),
)


def size(count: int) -> str:
    """Bytes in decimal units: `512 B`, `12.3 kB`, `110 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.{0 if value >= 99.95 else 1}f} {unit}"


def count(number: int | None, noun: str) -> str:
    """`1 turn`, `2 turns`, `12,345 turns`; `? turns` where the number is not known."""
    plural = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{'?' if number is None else f'{number:,}'} {noun}{'' if number == 1 else plural}"


def native(session_id: str) -> str:
    """The part of a session id that its agent knows."""
    return line(session_id.partition(":")[2] or session_id)


def shorten(ids: Iterable[str], least: int = _SHORT) -> dict[str, str]:
    """For each id the shortest prefix, of at least `least` characters, that no other one has."""
    ordered = sorted(set(ids))
    out = {}
    for index, name in enumerate(ordered):
        near = ordered[max(0, index - 1) : index] + ordered[index + 1 : index + 2]
        keep = max([least, *(_shared(name, other) + 1 for other in near)])
        out[name] = line(name[:keep])
    return out


def short(session_id: str) -> str:
    """One session id as hints name it."""
    return line((session_id.partition(":")[2] or session_id)[:_SHORT])


def named_after(path: str) -> str | None:
    """The native session id that is the name of a file; None where it has another name."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return stem if _UUID.fullmatch(stem) else None


def _shared(one: str, other: str) -> int:
    """Length of the common beginning."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length


def path(name: str | None, base: str | None = None) -> str:
    """A path as a person would write it: relative below `base`, else with `~` for the home."""
    if not name:
        return ""
    if base and (name == base or name.startswith(base.rstrip("/") + "/")):
        return line(os.path.relpath(name, base))
    home = os.path.expanduser("~")
    if home != "/" and (name == home or name.startswith(home + "/")):
        name = "~" + name[len(home) :]
    return line(name)


def command(resume: Resume, here: str | None) -> str:
    """What to paste into a shell standing in `here` to run `resume.command`."""
    words = [f"{name}={quote(value)}" for name, value in sorted(resume.env.items())]
    words += [quote(word) for word in resume.command]
    if resume.cwd and (here is None or os.path.realpath(resume.cwd) != os.path.realpath(here)):
        words[:0] = ["cd", quote(resume.cwd), "&&"]
    return " ".join(words)


def quote(word: str) -> str:
    """One word for a shell; control characters in the `$'…'` form, which shows as it pastes."""
    if not _CONTROL.search(word):
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _CONTROL.sub(_escaped, plain) + "'"


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape"))
