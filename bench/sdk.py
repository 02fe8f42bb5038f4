"""The peer: forks and lists by the Claude Agent SDK, in one node process that stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
from attrs import define, field

from bench.measure import Row, row
from bench.world import Place

VERSION = "0.3.318"
PACKAGE = "@anthropic-ai/claude-agent-sdk"
_HERE = Path(__file__).parent


def install() -> None:
    """Put the peer under bench/node_modules, from npm as it is configured."""
    options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund"]
    # Its optional parts are the agent's program, which neither lists nor forks need.
    options += ["--omit=optional", "--ignore-scripts"]
    subprocess.run(
        ["npm", "install", *options, "--prefix", str(_HERE), f"{PACKAGE}@{VERSION}"], check=True
    )


def _module() -> Path | None:
    """`$TURNTREE_BENCH_SDK` names the package's directory, or a node_modules that holds it."""
    named = os.environ.get("TURNTREE_BENCH_SDK")
    places = [Path(named), Path(named, PACKAGE)] if named else []
    places.append(_HERE / "node_modules" / PACKAGE)
    return next((place for place in places if (place / "sdk.mjs").is_file()), None)


@define
class Sdk:
    """The peer in a store of ours; use it as a context manager."""

    place: Place
    module: Path
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    @classmethod
    def find(cls, place: Place) -> Sdk | None:
        module = _module()
        return None if module is None or shutil.which("node") is None else cls(place, module)

    @staticmethod
    def missing(operation: str, ours: float, what: str, goal: float | None = None) -> Row:
        """The row of a run without the peer."""
        note = "peer not installed: make bench ARGS=--install-peers"
        return row(operation, ours, None, f"Agent SDK {what}", None, note)

    def __enter__(self) -> Sdk:
        script = _HERE / "sdk.mjs"
        self._process = subprocess.Popen(
            ["node", str(script), str(self.module / "sdk.mjs")],
            env=self.place.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.wait(60)
        process.stdout.close()

    def fork(self, session_id: str, through: str) -> tuple[float, str]:
        """Seconds of a fork that ends at the message `through`, and the fork's id."""
        answer = self._ask({"fork": session_id, "through": through})
        return answer["ms"] / 1e3, answer["session"]

    def list(self, limit: int) -> float:
        """Seconds of a listing of the newest `limit` sessions."""
        seconds: float = self._ask({"list": limit})["ms"] / 1e3
        return seconds

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(orjson.dumps(order) + b"\n")
        process.stdin.flush()
        answer: dict[str, Any] = orjson.loads(process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"the peer failed: {answer['error']}")
        return answer
