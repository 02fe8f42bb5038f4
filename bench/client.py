"""A client that costs little, the same for our server and for the echo it is compared with."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

_BUFFER = 4 << 20


class Client:
    """A child process that speaks JSON-RPC with Content-Length framing over its pipes."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._source = self._process.stdout.fileno()
        self._target = self._process.stdin.fileno()
        self._buffer = memoryview(bytearray(_BUFFER))
        self._held = 0
        self._number = 0
        self.reply_bytes = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def timed(self, method: str, params: Any) -> tuple[float, Any]:
        """Seconds from the request to the last byte of its reply, and the result.

        Making the request and reading the JSON of the reply are not counted.  Raises
        RuntimeError for an error.
        """
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        frame = _framed(message)
        began = time.perf_counter()
        self._send(frame)
        while True:
            body = self._receive()
            seconds = time.perf_counter() - began
            reply = orjson.loads(body)
            if reply.get("id") == self._number and "method" not in reply:
                break
            # A notification came first; its time is the reply's, for it was on the way.
        self.reply_bytes = len(body)
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']}")
        return seconds, reply["result"]

    def call(self, method: str, params: Any) -> Any:
        return self.timed(method, params)[1]

    def seconds(self, method: str, params: Any) -> float:
        return self.timed(method, params)[0]

    def notify(self, method: str) -> None:
        self._send(_framed({"jsonrpc": "2.0", "method": method, "params": {}}))

    @property
    def since_start(self) -> float:
        """Seconds since the process was started."""
        return time.perf_counter() - self.began

    def peak_memory(self) -> int:
        """Bytes of physical memory that the process has held at most (Linux)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
        raise RuntimeError("no VmHWM in /proc/<pid>/status")

    def close(self) -> None:
        """Close its input, which ends it; kill it when it does not end."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _send(self, frame: bytes) -> None:
        view = memoryview(frame)
        while view:
            view = view[os.write(self._target, view) :]

    def _receive(self) -> bytes:
        """One body; bytes after it stay for the next call."""
        wanted = 0
        start = 0
        while True:
            if (
                not wanted
                and (end := bytes(self._buffer[: min(self._held, 128)]).find(b"\r\n\r\n")) > 0
            ):
                start = end + 4
                length = next(
                    line
                    for line in bytes(self._buffer[:end]).split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                wanted = start + int(length.partition(b":")[2])
                if wanted > len(self._buffer):
                    larger = memoryview(bytearray(wanted + _BUFFER))
                    larger[: self._held] = self._buffer[: self._held]
                    self._buffer = larger
            if wanted and self._held >= wanted:
                body = bytes(self._buffer[start:wanted])
                self._buffer[: self._held - wanted] = bytes(self._buffer[wanted : self._held])
                self._held -= wanted
                return body
            got = os.readv(self._source, [self._buffer[self._held :]])
            if not got:
                raise RuntimeError("the process closed its output")
            self._held += got


def _framed(message: dict[str, Any]) -> bytes:
    body = orjson.dumps(message)
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
