"""What makes a file large: images and the outputs of tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from session.agents.claude_code import records
from session.agents.claude_code.checking.findings import Findings, count, size
from session.agents.claude_code.checking.walk import Physical
from session.agents.claude_code.records import KIND, RESULT, Record
from session.agents.claude_code.transcript import Transcript

_LARGEST_IMAGE = 5 << 20  # characters of base64; the program itself refuses to send more
_LARGE_OUTPUT = 16 << 10  # what `strip_outputs` begins at
_WORTH_TELLING = 1 << 20


class Sizes:
    """Looks at each record of the file once."""

    def __init__(self, transcript: Transcript, findings: Findings) -> None:
        self._t = transcript
        self._findings = findings
        self._images = 0
        self._image_bytes = 0
        self._first_image = -1
        self._outputs = 0
        self._output_bytes = 0
        self._largest = (0, -1)

    def look(self, line: Physical, record: Record) -> None:
        row = line.rows[0]
        if b"base64" in line.data:
            self._look_at_images(row, record)
        if line.size > _LARGE_OUTPUT and self._t.kinds[row] & KIND == RESULT:
            self._look_at_outputs(row, record)

    def _look_at_images(self, row: int, record: Record) -> None:
        largest = 0
        for length in _base64(record):
            self._images += 1
            self._image_bytes += length
            largest = max(largest, length)
            if self._first_image < 0:
                self._first_image = row
        if largest > _LARGEST_IMAGE:
            self._findings.add(
                "oversized_image",
                f"An image of {size(largest)} in base64: over 5 MiB, Claude Code and the API "
                "refuse every request that holds it. The repair puts a short text in its place.",
                row,
            )

    def _look_at_outputs(self, row: int, record: Record) -> None:
        for block in records.content_blocks(record):
            if block.get("type") != "tool_result":
                continue
            for text in _texts(block.get("content")):
                length = len(text.encode("utf-8", "replace"))
                if length > _LARGE_OUTPUT:
                    self._outputs += 1
                    self._output_bytes += length
                    self._largest = max(self._largest, (length, -row))

    def finish(self) -> None:
        total = self._t.scanned
        if self._image_bytes > _WORTH_TELLING and self._image_bytes * 2 > total:
            share = round(100 * self._image_bytes / total)
            self._findings.add(
                "images_dominate",
                f"{count(self._images, 'image')} in base64 "
                f"{'makes' if self._images == 1 else 'make'} up {size(self._image_bytes)} of "
                f"{size(total)} ({share} %), from here on. All of them are sent with each request, "
                "which then may fail. The repair puts short texts in their place.",
                self._first_image,
            )
        if self._output_bytes > _WORTH_TELLING:
            length, row = self._largest
            self._findings.add(
                "large_outputs",
                f"{count(self._outputs, 'output')} of tools over 16 KiB "
                f"{'makes' if self._outputs == 1 else 'make'} up "
                f"{size(self._output_bytes)}; the largest, here, {size(length)}. The repair cuts "
                "them, if asked to.",
                -row,
            )


def _base64(value: Any) -> Iterator[int]:
    """Lengths of all images in a record; each stands twice in the result of a tool."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            data = part.get("data") if part.get("type") == "base64" else part.get("base64")
            if isinstance(data, str):
                yield len(data)
            else:
                waiting += part.values()


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield part["text"]
