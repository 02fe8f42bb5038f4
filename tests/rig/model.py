"""A scripted model on loopback: enough of the Anthropic Messages API for the real `claude`.

    with Model() as model:
        model.script(
            Reply("looking", tools=(Tool("Bash", {"command": "ls"}),)),
            Reply("two files"),
        )
        ...                                  # run claude with ANTHROPIC_BASE_URL=model.url
        assert model.last().said() == [...]

A request that offers the model tools is a conversation's; each takes the first reply of
the script that fits it.  When none is left, the answer is "answer to: <newest prompt>".
Requests without tools (titles, probes) are answered beside the script, as are those of
which a scripted reply with `aside=True` matches.
Everything that was asked is kept in `requests`, in a form that tests can compare.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field

PATIENCE = 60.0
"""Seconds that a held answer, or a test waiting for a request, waits before it fails."""


@define(frozen=True)
class Tool:
    """A tool call that the model makes."""

    name: str
    input: dict[str, Any]


@define(frozen=True, eq=False)
class Reply:
    """One scripted answer.

    `match`: a regular expression that the newest prompt must contain.  `aside`: also for
    requests without tools.  `repeat`: never used up.  `tokens`: the input tokens to report,
    with which a test can make the program think that its context is full.  `hold`: sent
    only once this event is set.  `status`: an HTTP error instead of an answer, with the
    message `error`.
    """

    text: str = ""
    tools: tuple[Tool, ...] = ()
    thinking: str = ""
    match: str | None = None
    aside: bool = False
    repeat: bool = False
    tokens: int | None = None
    hold: threading.Event | None = None
    status: int | None = None
    error: str = "scripted error"


@define(frozen=True)
class Said:
    """One block of a conversation.  kind: text, thinking, tool_use, tool_result or other."""

    role: str
    kind: str
    text: str


@define(frozen=True)
class Request:
    """What the program asked.  kind: main (with tools), side (without), count or other."""

    kind: str
    history: tuple[Said, ...]
    body: dict[str, Any] = field(repr=False)

    def said(self) -> list[tuple[str, str, str]]:
        """The conversation as (role, kind, text), without the context that the program adds."""
        return [(s.role, s.kind, s.text) for s in self.history if not _is_context(s)]

    def prompts(self) -> list[str]:
        """The user's texts, oldest first, without the context that the program adds."""
        return [text for role, kind, text in self.said() if (role, kind) == ("user", "text")]

    @property
    def newest(self) -> str:
        prompts = self.prompts()
        return prompts[-1] if prompts else ""


def _is_context(said: Said) -> bool:
    """Lists of tools come as system messages, reminders and command echoes in a tag."""
    tagged = said.kind == "text" and said.text.lstrip().startswith("<")
    return said.role == "system" or (said.role == "user" and tagged)


class Model:
    """The server.  A context manager; `url` is the base address to give the program."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._script: list[Reply] = []
        self._changed = threading.Condition()
        self._http = _Server(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Model:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        with self._changed:
            held = [r.hold for r in self._script if r.hold]
        for event in [*held, *self._http.holding]:
            event.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def script(self, *replies: Reply | str) -> None:
        """Replies to give after those that are still left."""
        with self._changed:
            self._script += [Reply(r) if isinstance(r, str) else r for r in replies]

    def mains(self) -> list[Request]:
        with self._changed:
            return [r for r in self.requests if r.kind == "main"]

    def last(self) -> Request:
        """The newest request of a conversation."""
        return self.mains()[-1]

    def asked(self, prompt: str) -> Request:
        """The first request of a conversation whose newest prompt is `prompt`."""
        return next(r for r in self.mains() if r.newest == prompt)

    def wait(self, until: Callable[[list[Request]], bool], timeout: float = PATIENCE) -> None:
        """Wait until the requests so far satisfy `until`; AssertionError after `timeout` s."""
        with self._changed:
            if not self._changed.wait_for(lambda: until(self.requests), timeout):
                seen = [(r.kind, r.newest[:60]) for r in self.requests]
                raise AssertionError(f"the program did not ask what was waited for; asked: {seen}")

    def wait_for_prompt(self, prompt: str, times: int = 1) -> None:
        """Wait until `times` requests had `prompt` as their newest prompt."""
        self.wait(lambda all_: sum(r.kind == "main" and r.newest == prompt for r in all_) >= times)

    def _take(self, request: Request) -> Reply:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            for reply in self._script:
                if request.kind == "side" and not reply.aside:
                    continue
                if reply.match and not re.search(reply.match, request.newest):
                    continue
                if not reply.repeat:
                    self._script.remove(reply)
                return reply
        if request.kind == "side":
            return Reply(json.dumps({"title": "a title"}))
        return Reply(f"answer to: {request.newest[:200]}")

    def _note(self, request: Request) -> None:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: Model) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model
        self.holding: list[threading.Event] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A program that was killed in mid-answer is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """The requests are kept in `Model.requests`; stderr stays clean."""

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        self._json({"data": [], "has_more": False})

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/messages/count_tokens"):
            self.server.model._note(Request("count", _history(body), body))
            self._json({"input_tokens": _tokens(body)})
        elif path.endswith("/messages"):
            self._answer(body)
        else:
            self.server.model._note(Request("other", (), body))
            self._json({})

    def _answer(self, body: dict[str, Any]) -> None:
        request = Request("main" if body.get("tools") else "side", _history(body), body)
        reply = self.server.model._take(request)
        if reply.hold is not None:
            self.server.holding.append(reply.hold)
            reply.hold.wait(PATIENCE)
        if reply.status is not None:
            kind = "api_error" if reply.status >= 500 else "invalid_request_error"
            error = {"type": kind, "message": reply.error}
            self._json({"type": "error", "error": error}, reply.status)
            return
        message = _message(reply, body)
        if body.get("stream"):
            self._events(_events(message))
        else:
            self._json(message)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _events(self, events: Iterable[dict[str, Any]]) -> None:
        lines = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events]
        self._send("".join(lines).encode(), "text/event-stream", 200)

    def _send(self, data: bytes, content_type: str, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("request-id", _fresh("req_"))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _history(body: dict[str, Any]) -> tuple[Said, ...]:
    out = []
    for message in body.get("messages", []):
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        out += [_said(message["role"], block) for block in content]
    return tuple(out)


def _said(role: str, block: dict[str, Any]) -> Said:
    match block.get("type"):
        case "text":
            return Said(role, "text", block["text"])
        case "thinking":
            return Said(role, "thinking", block["thinking"])
        case "tool_use":
            return Said(role, "tool_use", f"{block['name']} {json.dumps(block['input'])}")
        case "tool_result":
            return Said(role, "tool_result", _text_of(block.get("content")))
        case _:
            return Said(role, "other", json.dumps(block))


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(_text_of(block) for block in content)
    if isinstance(content, dict):
        return content.get("text") or json.dumps(content)
    return content or ""


def _tokens(body: dict[str, Any]) -> int:
    return max(1, len(json.dumps(body)) // 4)


def _fresh(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]


def _message(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": "c2ln"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for tool in reply.tools:
        content.append(
            {"type": "tool_use", "id": _fresh("toolu_"), "name": tool.name, "input": tool.input}
        )
    return {
        "id": _fresh("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": content,
        "stop_reason": "tool_use" if reply.tools else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.tokens or _tokens(body),
            "output_tokens": 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _events(message: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The message as the API streams it: each block opened empty, filled, closed."""
    opened = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": opened}
    for index, block in enumerate(message["content"]):
        at = {"index": index}
        match block["type"]:
            case "text":
                empty = {**block, "text": ""}
                deltas = [{"type": "text_delta", "text": block["text"]}]
            case "thinking":
                empty = {**block, "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case _:
                empty = {**block, "input": {}}
                text = json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": text}]
        yield {"type": "content_block_start", "content_block": empty, **at}
        for delta in deltas:
            yield {"type": "content_block_delta", "delta": delta, **at}
        yield {"type": "content_block_stop", **at}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": message["usage"]}
    yield {"type": "message_stop"}
