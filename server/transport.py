"""JSON-RPC over our own read loop: which message is what, and one door for every reply.

pygls keeps what it is good at: the LSP types, document sync and features that are registered
with it, and requests to the client.  Its reader and its dispatch are replaced, because they
leave requests unanswered (missing params, unknown members, after shutdown, …) and build a
class for each object of a message.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

import attrs
import orjson
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcMethodNotFound
from pygls.protocol import LanguageServerProtocol, default_converter

from server import errors, log
from server.checking import describe
from server.encoding import decode, encode, exact_number
from server.errors import ErrorObject
from server.framing import Fault
from server.progress import Progress, Token
from session.errors import InvalidParams

if TYPE_CHECKING:
    from server.stdio import Stdio

logger = logging.getLogger(__name__)

NOT_YET = object()

_NULL = b"null"
_ABSENT = object()

_BIG = 1 << 16
_PUBLISH_SECONDS = 10.0


@attrs.define(eq=False)
class Request:
    """One request from its arrival to its reply.

    `params` is what the client sent, unchecked.  `operation` is what the log calls it.
    """

    id: Any
    wire_id: bytes
    method: str
    params: Any
    operation: str
    began: float
    task: asyncio.Task[None] | None = None
    running: bool = False
    answered: bool = False
    progress: Progress | None = None


Handler = Callable[[Request], Awaitable[Any]]


class DeferredConverter:
    """The LSP converter, built when first used: 20 ms that no `initialize` should wait for."""

    @cached_property
    def _converter(self) -> Any:
        return default_converter()  # type: ignore[no-untyped-call]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._converter, name)


class Protocol(LanguageServerProtocol):
    """Receives frames, answers each request once through `answer`."""

    stdio: Stdio

    def __init__(self, server: Any, converter: Any) -> None:
        super().__init__(server, converter)
        self.methods: Mapping[str, Handler] = {}
        """Requests that are ours; any other goes to a feature registered with pygls."""
        self.at_once: Mapping[str, Callable[[Request], Any]] = {}
        """Requests of ours that wait for nothing; `NOT_YET` sends one through `methods`."""
        self.on_exit: Callable[[], None] = lambda: None
        self._initialized = False
        self._initialize_params: Any = None
        self._closing = False
        self.request_log = log.RequestLog(logger)
        self._numbers = itertools.count(1)
        self._in_flight: set[Request] = set()

    @property
    def leaving(self) -> bool:
        """Whether the client has sent `shutdown`."""
        return self._shutdown

    def initialized_with(self, params: Any) -> None:
        """Note that the client has sent `initialize`.  Raises when it has done so before."""
        if self._initialized:
            raise JsonRpcException("The server is initialized already.", errors.INVALID_REQUEST)
        self._initialized = True
        self._initialize_params = params if type(params) is dict else {}

    def receive(self, frame: bytes | bytearray | Fault) -> None:
        """Take one body or fault from the connection; never raises."""
        try:
            if isinstance(frame, Fault):
                self._refuse(_NULL, errors.INVALID_REQUEST, frame.message)
            else:
                self._message(frame)
        except Exception:
            logger.exception("a message could not be handled")
            self._refuse(_NULL, errors.INTERNAL_ERROR, "Internal error. The log holds details.")

    def _message(self, body: bytes | bytearray) -> None:
        try:
            message = decode(body)
        except (ValueError, RecursionError) as error:
            self._refuse(_NULL, errors.PARSE_ERROR, f"The body is not JSON: {error}.")
            return
        if type(message) is not dict:
            what = "A batch" if type(message) is list else "Anything but an object"
            self._refuse(_NULL, errors.INVALID_REQUEST, f"{what} is not supported.")
            return
        method = message.get("method")
        if method is None and self._response(message):
            return
        message_id = message.get("id", _ABSENT)
        kind = type(message_id)
        if kind is str:
            wire_id = encode(message_id)
        elif kind is int:
            wire_id = b"%d" % message_id
        elif kind is float and isfinite(message_id):
            wire_id = exact_number(body, "id")
        elif message_id is _ABSENT:
            wire_id = b""
        else:
            self._refuse(_NULL, errors.INVALID_REQUEST, "An id must be a string or a number.")
            return
        if type(method) is not str or message.get("jsonrpc") != "2.0":
            wrong = 'method: "…"' if type(method) is not str else 'jsonrpc: "2.0"'
            self._refuse(
                wire_id or _NULL, errors.INVALID_REQUEST, f"The message has no member {wrong}."
            )
        elif wire_id:
            self._request(message_id, wire_id, method, message.get("params"))
        else:
            self._notification(method, message.get("params"))

    def _request(self, message_id: Any, wire_id: bytes, method: str, params: Any) -> None:
        number = next(self._numbers)
        request = Request(message_id, wire_id, method, params, f"r{number}", time.perf_counter())
        if self._shutdown:
            error = ErrorObject(errors.INVALID_REQUEST, "The server is shutting down.")
            self.answer(request, error=error)
            return
        if method in self.at_once:
            try:
                result = self.at_once[method](request)
            except Exception as failure:
                self.fail(request, failure)
                return
            if result is not NOT_YET:
                self.answer(request, result)
                return
        self._in_flight.add(request)
        self._shutdown = method == types.SHUTDOWN
        handler = self.methods.get(method) or self._feature
        request.task = asyncio.get_running_loop().create_task(self._run(request, handler))

    async def _run(self, request: Request, handler: Handler) -> None:
        request.running = True
        log.operation.set(request.operation)
        try:
            result = await handler(request)
        except (Exception, asyncio.CancelledError) as failure:
            self.fail(request, failure)
        else:
            self.answer(request, result)

    def answer(
        self, request: Request, result: Any = None, *, error: ErrorObject | None = None
    ) -> None:
        """The one door through which each reply leaves, and each request only once."""
        if request.answered:
            return
        request.answered = True
        self._in_flight.discard(request)
        if request.progress is not None:
            request.progress.end()
        if error is None:
            try:
                member, content = b"result", encode(result)
            except Exception as failure:
                error = self._told(request, failure)
        if error is not None:
            member, content = b"error", self._encoded(error)
        self._write(b'{"jsonrpc":"2.0","id":%b,"%b":' % (request.wire_id, member), content, b"}")
        took = (time.perf_counter() - request.began) * 1000
        outcome = getattr(result, "operation_id", None) or "ok"
        if error is not None:
            outcome = f"{error.code} {(error.data or {}).get('kind', '-')}"
        self.request_log.note(request.operation, f"{request.method} {took:.1f} ms {outcome}")

    def fail(self, request: Request, failure: BaseException) -> None:
        """Answer `request` with what `failure` means to a client."""
        self.answer(request, error=self._told(request, failure))

    def _told(self, request: Request, failure: BaseException) -> ErrorObject:
        error = errors.error_of(failure, request.operation)
        if error.unexpected:
            logger.error("%s failed", request.method, exc_info=failure)
        return error

    def _encoded(self, error: ErrorObject) -> bytes:
        try:
            return encode(error.on_the_wire())
        except Exception:
            # Whatever a failure carries, the request is owed a reply.
            logger.exception("the data of error %d is no JSON", error.code)
            return encode({"code": error.code, "message": error.message})

    def _refuse(self, wire_id: bytes, code: int, message: str) -> None:
        logger.warning("a message was refused with %d: %s", code, message)
        error = encode({"code": code, "message": message})
        self._write(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (wire_id, error))

    def _write(self, *parts: bytes) -> None:
        size = sum(map(len, parts))
        frame = (b"Content-Length: %d\r\n\r\n" % size, *parts)
        # One write for what is small; what is big is not copied for it.
        for data in (b"".join(frame),) if size < _BIG else frame:
            self.stdio.write(data)

    def _notification(self, method: str, params: Any) -> None:
        fields = params if type(params) is dict else {}
        if method == types.EXIT:
            self.on_exit()
        elif method == types.CANCEL_REQUEST:
            wanted = fields.get("id")
            self._cancel(lambda r: r.id == wanted and type(r.id) is type(wanted))
        elif method == types.WINDOW_WORK_DONE_PROGRESS_CANCEL:
            token = fields.get("token")
            self._cancel(lambda r: r.progress is not None and r.progress.token == token)
        elif self._initialized:
            self._tell_pygls(method, fields)

    def _tell_pygls(self, method: str, params: dict[str, Any]) -> None:
        if method not in self.fm.features and method not in self.fm.builtin_features:
            logger.debug("notification %s is ignored", method)
            return
        self._adopt()
        try:
            typed = self.structure_message({"jsonrpc": "2.0", "method": method, "params": params})
        except JsonRpcException:
            logger.warning("notification %s does not fit its type", method)
            return
        self._handle_notification(method, typed.params)

    async def _feature(self, request: Request) -> Any:
        handler = self.fm.features.get(request.method)
        if handler is None:
            raise JsonRpcMethodNotFound(f"There is no method {request.method}.")
        if not self._initialized:
            raise JsonRpcException("The server is not initialized.", errors.NOT_INITIALIZED)
        self._adopt()
        params = request.params if type(request.params) is dict else {}
        message = {"jsonrpc": "2.0", "id": 0, "method": request.method, "params": params}
        outcome = handler(self.structure_message(message).params)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _adopt(self) -> None:
        """Let pygls learn the client's capabilities, before its first use and no earlier.

        Structuring them takes longer than everything else at start.
        """
        params, self._initialize_params = self._initialize_params, None
        if params is None:
            return
        needed: dict[str, Any] = {"capabilities": {}, "processId": None, "rootUri": None}
        message = {"jsonrpc": "2.0", "id": 0, "method": types.INITIALIZE}
        try:
            typed = self.structure_message(message | {"params": needed | params})
        except JsonRpcException:
            logger.warning("the client's capabilities do not fit their type")
            typed = self.structure_message(message | {"params": needed})
        for _ in self.lsp_initialize(typed.params):
            pass

    def _response(self, message: dict[str, Any]) -> bool:
        """Take `message` as the answer to a question of ours; whether it was one."""
        message_id = str(message.get("id"))
        future = self._request_futures.pop(message_id, None)
        if future is None:
            # One that comes late or to nobody is no request, so it is not answered either.
            return "result" in message or "error" in message
        self._result_types.pop(message_id, None)
        if future.done():
            return True
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
        else:
            text = error.get("message") if type(error) is dict else None
            future.set_exception(JsonRpcException(str(text or "refused by the client")))
        return True

    async def ask(self, method: str, params: Any) -> Any:
        """Send the client a request and wait for its result, as decoded JSON.

        Raises `JsonRpcException` when the client answers with an error or is leaving.
        Cancelling the wait withdraws the question.
        """
        if self._closing:
            raise JsonRpcException("the client is leaving")
        message_id = str(uuid.uuid4())
        try:
            return await self.send_request_async(method, params, message_id)
        except asyncio.CancelledError:
            self._request_futures.pop(message_id, None)
            self.notify(types.CANCEL_REQUEST, types.CancelParams(message_id))
            raise

    def _send_data(self, data: Any) -> None:
        """What pygls itself sends: notifications and questions in LSP types."""
        self._write(orjson.dumps(data, default=self._serialize_message))

    def tell(self, method: str, params: Any) -> None:
        """Send a notification whose params are model values or plain JSON."""
        self._write(
            b'{"jsonrpc":"2.0","method":%b,"params":' % encode(method), encode(params), b"}"
        )

    def track(self, request: Request, token: Any, title: str) -> None:
        """Report `request`'s progress under the client's `token`."""
        if type(token) is not str and type(token) is not int:
            wrong = f"expected a string or an integer, got {describe(token)}"
            raise InvalidParams(f"params.workDoneToken: {wrong}", field="workDoneToken")
        request.progress = Progress(token, title, self._send_progress)

    def _send_progress(self, token: Token, value: dict[str, Any]) -> None:
        if value["kind"] != "report" or not self.stdio.congested:
            self.tell(types.PROGRESS, {"token": token, "value": value})

    def _cancel(self, which: Callable[[Request], bool]) -> None:
        for request in [r for r in self._in_flight if which(r)]:
            if not request.running:
                # A task cancelled before its first step never runs, so it cannot answer.
                self.fail(request, asyncio.CancelledError())
            if request.task is not None:
                request.task.cancel()

    async def settle(self, seconds: float) -> bool:
        """End all work: wait `seconds` for requests in flight, then cancel what is left.

        Each is answered.  Work past its publish step cannot be cancelled and is waited for;
        False when some does not end at all.
        """
        self._closing = True
        for message_id in list(self._request_futures):
            self._response({"id": message_id, "error": {"message": "the client is leaving"}})
        mine = asyncio.current_task()
        tasks = {r.task for r in self._in_flight if r.task is not None and r.task is not mine}
        if tasks and seconds:
            _, tasks = await asyncio.wait(tasks, timeout=seconds)
        if tasks:
            self._cancel(lambda r: r.task in tasks)
            _, tasks = await asyncio.wait(tasks, timeout=_PUBLISH_SECONDS)
        return not tasks
