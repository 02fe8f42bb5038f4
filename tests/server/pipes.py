"""A `turntree serve` process at the end of two pipes, spoken to in bytes."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Mapping
from typing import Any, Self

from tests.client import PATIENCE, turntree

NOTHING = object()


def frame(message: Any) -> bytes:
    """`message` behind its header; bytes are sent as they are, all else as JSON."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def request(request_id: Any, method: str, params: Any = NOTHING, **members: Any) -> bytes:
    """A framed request; without `params` it has no such member."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, **members}
    return frame(message if params is NOTHING else message | {"params": params})


def notification(method: str, params: Any = NOTHING) -> bytes:
    message = {"jsonrpc": "2.0", "method": method}
    return frame(message if params is NOTHING else message | {"params": params})


def small(request_id: Any) -> bytes:
    """A request that any working server answers with a result."""
    return request(request_id, "allocate_session_id", {"agent": "claude-code"})


INITIALIZE = request(
    "initialize", "initialize", {"processId": None, "rootUri": None, "capabilities": {}}
)
SHUTDOWN = request("shutdown", "shutdown")
EXIT = notification("exit")


class RawServer:
    """The process.  A context manager that leaves none behind.

    Clearing `reading` makes a client that no longer takes what the server writes.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [turntree(), "serve"],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.reading = threading.Event()
        self.reading.set()
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.reading.set()
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass

    def send(self, *parts: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(b"".join(parts))
        while view:
            view = view[self.process.stdin.write(view) :]

    def initialize(self) -> dict[str, Any]:
        """Open the session as LSP says; the result of `initialize`."""
        self.send(INITIALIZE)
        result: dict[str, Any] = self.message()["result"]
        self.send(notification("initialized", {}))
        return result

    def message(self) -> dict[str, Any]:
        """The next message of the server, but for news of changed sessions."""
        while (message := self._messages.get(timeout=PATIENCE)) is not None:
            if message.get("method") != "turntree/didChangeSessions":
                return message
        raise AssertionError(f"the server ended; its stderr: {self.stderr()}")

    def reply(self, request_id: Any) -> dict[str, Any]:
        """The next message, which has to be the reply to `request_id`."""
        message = self.message()
        assert message.get("id", NOTHING) == request_id, message
        return message

    def error(self, request_id: Any) -> dict[str, Any]:
        """The error of the next message, which has to be the reply to `request_id`."""
        reply = self.reply(request_id)
        assert set(reply) == {"jsonrpc", "id", "error"}, reply
        error: dict[str, Any] = reply["error"]
        return error

    def works(self) -> bool:
        """Whether the next thing that is answered is a request sent now."""
        self.send(small("works"))
        return "result" in self.reply("works")

    def rest(self) -> list[dict[str, Any]]:
        """What the server still sends, to its end."""
        messages = []
        while (message := self._messages.get(timeout=PATIENCE)) is not None:
            messages.append(message)
        return messages

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE)

    def stderr(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode(errors="replace")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with open(self.process.stdout.fileno(), "rb", closefd=False) as stream:
            while self.reading.wait() and (header := stream.readline()):
                assert stream.readline() == b"\r\n"
                self._messages.put(json.loads(stream.read(int(header.split(b":")[1]))))
        self._messages.put(None)
