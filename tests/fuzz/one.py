"""One target in a process of its own: `python -m tests.fuzz.one TARGET [libFuzzer options]`."""

from __future__ import annotations

import sys

import atheris

from tests.fuzz.mutate import mutate

with atheris.instrument_imports(include=["server", "session"]):
    from tests.fuzz.targets import TARGETS

_BY_LINE = {"reader", "extension", "fork", "splicer"}


def _mutated(data: bytes, max_size: int, seed: int) -> bytes:
    if seed % 3:
        return mutate(data, seed, max_size)
    out: bytes = atheris.Mutate(data, max_size)
    return out


def main() -> None:
    name = sys.argv.pop(1)
    more = {"custom_mutator": _mutated} if name in _BY_LINE else {}
    atheris.Setup(sys.argv, TARGETS[name], **more)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
