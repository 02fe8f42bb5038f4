"""The server process, from its first byte to its exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from server import log
from server.engine import Engine
from server.framing import Fault
from server.methods import VERBS, Methods
from server.stdio import Stdio
from server.transport import DeferredConverter, Protocol, Request
from server.twins import PREFIX, Twins, title
from server.version import version
from session.model import Change
from session.service import Service

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 10.0
"""How long requests in flight may still run after `shutdown` or the end of input."""

_CLOSE_SECONDS = 5.0

_STOPPING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class TurntreeServer(LanguageServer):
    """pygls' server with our transport, and the engine's methods on it."""

    protocol: Protocol

    def __init__(self, source: int, target: int, log_level: str | None) -> None:
        super().__init__(
            "turntree",
            version(),
            text_document_sync_kind=types.TextDocumentSyncKind.None_,
            protocol_cls=Protocol,
            converter_factory=DeferredConverter,
        )
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._log_level = log_level
        self._grace = 0.0
        self._awake = False
        self._stdio = Stdio(source, target, self._receive, self._ended)
        self._engine = Engine(self._announce, self._warn, self._stdio.drained)
        self._methods = Methods(self._engine, self._stdio)
        self.protocol.stdio = self._stdio
        self.protocol.on_exit = self._exit
        self.protocol.at_once = {
            types.INITIALIZE: self._initialize,
            **{name: self._verb_at_once for name, verb in VERBS.items() if verb.at_once},
        }
        self.protocol.methods = {
            **dict.fromkeys(VERBS, self._verb),
            types.WORKSPACE_EXECUTE_COMMAND: Twins(self.protocol, self._methods).execute,
            types.SHUTDOWN: self._shut_down,
        }

    async def run(self) -> int:
        """Serve until the client leaves or a signal comes; the process's exit code."""
        self._stdio.start()
        code = await self._exit_code
        self._stdio.stop_reading()
        whole = await self.protocol.settle(self._grace)
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._engine.close()
        except TimeoutError:
            whole = False
        await self._stdio.close(_CLOSE_SECONDS)
        self.protocol.request_log.flush()
        if not whole:
            # A thread that is stuck in the file system would keep the process alive.  Ending
            # it here is no worse than the power going, which every step survives.
            logger.error("work that does not end is given up")
            logging.shutdown()
            os._exit(code)
        return code

    def interrupt(self, signum: int) -> None:
        """Stop for a signal: at once, but whole; a second one does not wait."""
        if self._exit_code.done():
            os._exit(128 + signum)
        self._leave(128 + signum, 0.0)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log what pygls would show to the person as a message, paths and all."""
        logger.error("a notification could not be handled", exc_info=error)

    async def _verb(self, request: Request) -> Any:
        params = request.params
        if type(params) is dict and params.get("workDoneToken") is not None:
            self.protocol.track(request, params["workDoneToken"], title(request.method))
        return await self._methods.call(request.method, params, request.progress)

    async def _shut_down(self, request: Request) -> None:
        await self.protocol.settle(_GRACE_SECONDS)

    def _receive(self, frame: bytes | bytearray | Fault) -> None:
        self.protocol.receive(frame)
        if not self._awake:
            self._awake = True
            self._wake()
        if isinstance(frame, Fault) and frame.fatal:
            self._leave(1, _GRACE_SECONDS)

    def _wake(self) -> None:
        """What the first answer should not wait for."""
        log.start(self._log_level)
        # The LSP types alone are 10^5 objects that no collection needs to look at again.
        gc.freeze()
        gc.enable()
        self._engine.start()

    def _verb_at_once(self, request: Request) -> Any:
        return self._methods.call_at_once(request.method, request.params)

    def _initialize(self, request: Request) -> dict[str, Any]:
        result = {
            "serverInfo": {"name": self.name, "version": self.version},
            "capabilities": {
                "executeCommandProvider": {
                    "commands": [PREFIX + name for name in VERBS],
                    "workDoneProgress": True,
                },
                "experimental": {
                    "turntree": {
                        "protocol": 1,
                        "methods": list(VERBS),
                        "agents": Service.agents(),
                    }
                },
            },
        }
        self.protocol.initialized_with(request.params)
        return result

    def _announce(self, change: Change) -> None:
        self.protocol.tell("turntree/didChangeSessions", change)

    def _warn(self, text: str) -> None:
        message = {"type": types.MessageType.Warning.value, "message": text}
        self.protocol.tell(types.WINDOW_SHOW_MESSAGE, message)

    def _exit(self) -> None:
        self._leave(self._code(), _GRACE_SECONDS if self.protocol.leaving else 0.0)

    def _ended(self, broken: bool) -> None:
        logger.info("the client %s", "no longer reads" if broken else "closed its end")
        # Requests that were sent before the end, as a script's pipe does it, are answered.
        self._leave(self._code(), 0.0 if broken else _GRACE_SECONDS)

    def _code(self) -> int:
        return 0 if self.protocol.leaving else 1

    def _leave(self, code: int, grace: float) -> None:
        if not self._exit_code.done():
            self._grace = grace
            self._exit_code.set_result(code)
            self._stdio.stop_reading()


async def serve(source: int, target: int, log_level: str | None) -> int:
    """Serve one client on two descriptors; the process's exit code."""
    server = TurntreeServer(source, target, log_level)
    loop = asyncio.get_running_loop()
    for name in _STOPPING_SIGNALS:
        signum = getattr(signal, name, None)
        if signum is None:
            continue
        try:
            loop.add_signal_handler(signum, server.interrupt, signum)
        except NotImplementedError:  # Windows
            signal.signal(signum, lambda n, _: loop.call_soon_threadsafe(server.interrupt, n))
    return await server.run()
