"""The `turntree` command: where the process starts, and the one way in which it ends.

Exit codes: 0; 1 for an error of the engine or the machine; 2 for wrong usage; 130 after
SIGINT; 141 when the reader of the output went away, as programs that die of SIGPIPE.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run `sys.argv` and leave the process."""
    if sys.argv[1:] == ["serve"]:
        # An editor waits for this one, and click is 20 ms of it.
        from server.app import main as serve

        sys.exit(serve())
    try:
        code = _command_line()
    except BrokenPipeError:
        code = 141
    except KeyboardInterrupt:
        code = 130
        if sys.stderr is not None and sys.stderr.isatty():
            # The terminal has echoed ^C; the shell's prompt belongs on the next line.
            sys.stderr.write("\n")
    _let_go_of_output()
    sys.exit(code)


def _command_line() -> int:
    # What is imported is kept, and so is nearly all that a command makes until it ends: looking
    # for garbage every 700 objects is time for nothing.
    gc.disable()
    # After the fast way out above; see there.
    from server.commands.run import run

    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()
    return run(sys.argv[1:])


def _let_go_of_output() -> None:
    """Write what is left of the output; if that fails, drop it, for the interpreter would
    complain about it at its own end."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())


if __name__ == "__main__":
    main()
