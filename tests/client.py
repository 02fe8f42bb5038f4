"""A raw JSON-RPC client for a real `turntree serve` process over stdio."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

PATIENCE = 60.0
"""Seconds to wait for an answer before the test fails."""


def turntree() -> str:
    """The `turntree` command of the environment that runs the tests."""
    command = Path(sys.executable).with_name("turntree")
    if not command.exists():
        raise AssertionError(f"{command} is missing: run `make test`, which installs it")
    return str(command)


class RpcError(Exception):
    """An error reply.  `data["kind"]` tells application errors apart."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code}: {message} {data if data is not None else ''}")
        self.code = code
        self.message = message
        self.data = data

    @property
    def kind(self) -> str | None:
        return self.data.get("kind") if isinstance(self.data, dict) else None


class Client:
    """One server process, initialized.  A context manager.

    `notifications` holds what the server sent unasked, oldest first, as
    {"method", "params"}; `asked` the server's own requests, each answered with null or
    with what `answers[method]` holds.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        cwd: Path | str | None = None,
        initialize: bool = True,
        answers: Mapping[str, Any] | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        """`launcher`: a command that starts the server, such as setpriv with its options."""
        self.notifications: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.answers = dict(answers or {})
        self.capabilities: dict[str, Any] = {}
        self._replies: dict[Any, dict[str, Any]] = {}
        self._news = threading.Condition()
        self._writing = threading.Lock()
        self._last_id = 0
        self._ended = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [*launcher, turntree(), "serve"],
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if initialize:
            self.capabilities = self.call(
                "initialize",
                {"processId": None, "rootUri": None, "capabilities": {}},
            )["capabilities"]
            self.notify("initialized", {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def call(self, method: str, params: Any = None, *, timeout: float = PATIENCE) -> Any:
        """The result of a request.  Raises RpcError on an error reply."""
        return self.wait(self.send(method, params), timeout=timeout)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """`client.fork_session(session_id=…)` is `client.call("fork_session", {…})`."""
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda **params: self.call(method, params)

    def send(self, method: str, params: Any = None) -> int:
        """Send a request without waiting; returns its id for `wait` or `cancel`."""
        self._last_id += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        if params is not None:
            message["params"] = params
        self._write(message)
        return self._last_id

    def wait(self, request_id: int, *, timeout: float = PATIENCE) -> Any:
        """The result of a request sent before."""
        with self._news:
            arrived = self._news.wait_for(
                lambda: request_id in self._replies or self._ended, timeout
            )
            reply = self._replies.pop(request_id, None)
        if reply is None:
            why = "the server ended" if arrived else f"no answer within {timeout} s"
            raise AssertionError(f"{why}; its stderr:\n{self.stderr()}")
        if "error" in reply:
            error = reply["error"]
            raise RpcError(error["code"], error["message"], error.get("data"))
        return reply["result"]

    def cancel(self, request_id: int) -> None:
        self.notify("$/cancelRequest", {"id": request_id})

    def notify(self, method: str, params: Any = None) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def changes(self) -> list[dict[str, Any]]:
        """The params of the `turntree/didChangeSessions` notifications so far."""
        with self._news:
            return [
                n["params"]
                for n in self.notifications
                if n["method"] == "turntree/didChangeSessions"
            ]

    def wait_for_notification(
        self,
        method: str,
        fits: Callable[[dict[str, Any]], bool] = lambda params: True,
        *,
        timeout: float = PATIENCE,
    ) -> dict[str, Any]:
        """The params of the first notification, past or to come, that fits."""
        found: list[dict[str, Any]] = []

        def arrived() -> bool:
            found[:] = [
                n["params"]
                for n in self.notifications
                if n["method"] == method and fits(n["params"])
            ]
            return bool(found) or self._ended

        with self._news:
            self._news.wait_for(arrived, timeout)
        if not found:
            raise AssertionError(f"no {method} came that fits; came: {self.notifications}")
        return found[0]

    def close(self) -> int:
        """Shut the server down as the protocol says; returns its exit code."""
        if self.process.poll() is None:
            try:
                self.call("shutdown")
                self.notify("exit")
            except (AssertionError, BrokenPipeError, RpcError):
                self.process.kill()
        return self._reap()

    def kill(self) -> int:
        """SIGKILL, as the power or a person would; returns the exit code."""
        self.process.kill()
        return self._reap()

    def _reap(self) -> int:
        try:
            code = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the server did not end; stderr:\n{self.stderr()}") from None
        self._reader.join(timeout=PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass  # what was not sent has no reader any more
        return code

    def stderr(self) -> str:
        if self._log.closed:
            return ""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-4000:]

    def _write(self, message: dict[str, Any]) -> None:
        self.write_raw(json.dumps(message).encode())

    def write_raw(self, body: bytes) -> None:
        """Send one framed body of any bytes."""
        stream = self.process.stdin
        assert stream is not None
        with self._writing:
            stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            stream.flush()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = None
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if length is None:
                break
            self._take(json.loads(stream.read(length)))
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        with self._news:
            if "method" not in message:
                self._replies[message.get("id")] = message
            elif "id" in message:
                self.asked.append(message)
            else:
                self.notifications.append(
                    {"method": message["method"], "params": message.get("params")}
                )
            self._news.notify_all()
        if "method" in message and "id" in message:
            result = self.answers.get(message["method"])
            self._write({"jsonrpc": "2.0", "id": message["id"], "result": result})


def wait_until(
    true: Callable[[], Any], *, timeout: float = PATIENCE, what: str = "it happened"
) -> Any:
    """Poll until `true()` is truthy and return that; for changes that no one announces."""
    end = time.monotonic() + timeout
    while not (value := true()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout} s in vain until {what}")
        time.sleep(0.02)
    return value
