"""A JSON-RPC client for `turntree serve` in its smallest readable form."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

LONGEST_SECONDS = 60


class RpcError(Exception):
    """An error reply: `code`, and `data` with the error's `kind`."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']} {error['message']}")
        self.code = error["code"]
        self.data = error.get("data") or {}


class Client:
    """One server process and its pipes; leaving the `with` block shuts it down.

    `exit_code` is the server's, known once the block is left.
    """

    def __init__(self, command: list[str], env: Mapping[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        # A server that does not answer must not hang its client: killed, its pipe ends.
        self._watchdog = threading.Timer(LONGEST_SECONDS, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        self._last_id = 0
        self.exit_code: int | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.request("shutdown")
                self.notify("exit")
            else:
                self._process.kill()
        finally:
            if self._process.stdin:
                self._process.stdin.close()
            self.exit_code = self._process.wait()
            self._watchdog.cancel()
            if self._process.stdout:
                self._process.stdout.close()

    def request(self, method: str, **params: Any) -> Any:
        """The result of one request; notifications that arrive before it are passed over."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self._last_id and "method" not in message:
                if "error" in message:
                    raise RpcError(message["error"])
                return message["result"]

    def notify(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout
        length = 0
        while (line := self._process.stdout.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if not length:
            raise ConnectionError("the server ended without a reply")
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message
