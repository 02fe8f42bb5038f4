"""`turntree serve`: what happens before the server's libraries are imported."""

from __future__ import annotations

import asyncio
import gc
import sys


def main(log_level: str | None = None) -> int:
    """Serve one client on stdin and stdout until it leaves; the process's exit code.

    0 after `shutdown`, 1 without, 128 + n for signal n.  `log_level` is one of
    `log.LEVELS`, by default `$TURNTREE_LOG` or info.
    """
    # Importing the LSP types makes 10^5 objects that stay: a tenth of that time goes into
    # looking for garbage among them.  The process turns collection on again.
    gc.disable()
    # So they come after that.
    from server.process import serve
    from server.stdio import take_over

    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("turntree serve speaks JSON-RPC on stdin and stdout; editors start it.\n")
    try:
        source, target = take_over()
    except OSError as error:
        sys.stderr.write(f"turntree serve needs a stdin and a stdout: {error}\n")
        return 1
    return asyncio.run(serve(source, target, log_level))
