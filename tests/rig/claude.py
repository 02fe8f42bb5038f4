"""Runs the real `claude` in a world of its own against the scripted model.

The program is the pinned one in tests/rig/node_modules, put there by `make test`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define

from tests.rig.model import PATIENCE, Model

BIN = Path(__file__).parent / "node_modules" / ".bin" / "claude"
TOOLS = "Bash,Edit,Write,Read,Agent"
API_KEY = "scripted-key-for-loopback"


@define(frozen=True)
class Answer:
    """What one `claude -p` run printed."""

    session_id: str
    text: str
    output: dict[str, Any]


class Claude:
    """The program with HOME, and optionally CLAUDE_CONFIG_DIR, of a test's own."""

    def __init__(
        self,
        model: Model,
        home: Path,
        config_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings`: more environment variables for the program."""
        if not BIN.exists():
            raise AssertionError(f"{BIN} is missing: run `make test`, which installs it")
        self.model = model
        self.home = home
        self.config_dir = config_dir
        self.settings = dict(settings or {})

    @property
    def store(self) -> Path:
        return self.config_dir or self.home / ".claude"

    def env(self) -> dict[str, str]:
        env = {
            "PATH": f"{BIN.parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": API_KEY,
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # File history in -p mode; in the TUI it is on by itself.
            "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1",
        }
        if self.config_dir is not None:
            env["CLAUDE_CONFIG_DIR"] = str(self.config_dir)
        return {**env, **self.settings}

    def start(
        self, prompt: str, cwd: Path, *options: str, resume: str | None = None
    ) -> subprocess.Popen[str]:
        """`claude -p` running; give it to `finish`."""
        command = ["-p", prompt, "--output-format", "json", "--allowedTools", TOOLS]
        if resume is not None:
            command += ["--resume", resume]
        return self._start([*command, *options], cwd, self.env())

    def _start(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(BIN), *arguments],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Answer:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"claude did not end: {out}{err}") from None
        if process.returncode:
            raise AssertionError(f"claude exited {process.returncode}: {out}{err}")
        output = json.loads(out)
        return Answer(output["session_id"], output.get("result", ""), output)

    def ask(self, prompt: str, cwd: Path, *options: str, resume: str | None = None) -> Answer:
        """One `claude -p` run to its end."""
        return self.finish(self.start(prompt, cwd, *options, resume=resume))

    def talk(self, cwd: Path, *prompts: str, resume: str | None = None) -> str:
        """Several turns of one session, one run each; returns its native id."""
        for prompt in prompts:
            resume = self.ask(prompt, cwd, resume=resume).session_id
        assert resume is not None
        return resume

    def resume(self, resume: Mapping[str, Any], prompt: str, *options: str) -> Answer:
        """Do what a person would with the `resume` of a session, and ask one prompt."""
        assert resume["resumable"], resume["reason"]
        program, *arguments = resume["command"]
        assert program == "claude"
        env = {**self.env(), **resume["env"]}
        if "CLAUDE_CONFIG_DIR" not in resume["env"]:
            env.pop("CLAUDE_CONFIG_DIR", None)
        command = [*arguments, "-p", prompt, "--output-format", "json", "--allowedTools", TOOLS]
        return self.finish(self._start([*command, *options], Path(resume["cwd"]), env))

    def rewind_files(self, session_id: str, prompt_uuid: str, cwd: Path) -> None:
        """Let the program put back the files as they were before a prompt."""
        arguments = ["--resume", session_id, "--rewind-files", prompt_uuid]
        process = self._start(arguments, cwd, self.env())
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, f"claude exited {process.returncode}: {out}{err}"

    def tui(self, cwd: Path, *options: str) -> Tui:
        """The terminal program, past its first questions."""
        self._answer_first_questions(cwd)
        return Tui(self, cwd, options)

    def _answer_first_questions(self, cwd: Path) -> None:
        path = (self.config_dir or self.home) / ".claude.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(path.read_text()) if path.exists() else {}
        known.update(
            hasCompletedOnboarding=True,
            theme="dark",
            customApiKeyResponses={"approved": [API_KEY[-20:]], "rejected": []},
        )
        known.setdefault("projects", {})[str(cwd.resolve())] = {
            "hasTrustDialogAccepted": True,
            "hasCompletedProjectOnboarding": True,
        }
        path.write_text(json.dumps(known))


class Tui:
    """`claude` in a tmux of its own.  A context manager; leaving it ends the program."""

    def __init__(self, claude: Claude, cwd: Path, options: Sequence[str]) -> None:
        # Not below the test's folder: the path of a socket may hold about 100 bytes only.
        self._dir = tempfile.mkdtemp(prefix="tui-")
        self._env = claude.env()
        self._command = [str(BIN), *options]
        self._cwd = cwd

    def __enter__(self) -> Tui:
        # Wide, so that a prompt or title is on one line.
        size = ("-x", "160", "-y", "50")
        self._tmux("new-session", "-d", "-s", "s", *size, "-c", str(self._cwd), *self._command)
        self.wait_for("❯")
        return self

    def __exit__(self, *exc: object) -> None:
        self._tmux("kill-server", check=False)
        shutil.rmtree(self._dir, ignore_errors=True)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        socket = os.path.join(self._dir, "s")
        done = subprocess.run(
            ["tmux", "-f", os.devnull, "-S", socket, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
        )
        if check and done.returncode:
            raise AssertionError(f"tmux {arguments[0]}: {done.stderr}")
        return done.stdout

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return int(self._tmux("list-panes", "-t", "s", "-F", "#{pane_pid}"))

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "s", check=False)

    def wait_for(self, text: str, timeout: float = 30.0) -> str:
        """Wait until the screen shows `text`; returns the screen."""
        end = time.monotonic() + timeout
        while text not in (screen := self.screen()):
            if time.monotonic() > end:
                raise AssertionError(f"waited for {text!r} in vain; the screen:\n{screen}")
            time.sleep(0.05)
        return screen

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names (Enter, Escape, Up, C-u); the program needs a moment
        after each, or takes them for one pasted text."""
        for name in names:
            self._tmux("send-keys", "-t", "s", name)
            time.sleep(0.3)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", "s", "-l", text)
        time.sleep(0.3)

    def say(self, prompt: str, wait_for: str | None = None) -> None:
        """Type a prompt, press Enter, wait for a text on the screen."""
        self.type(prompt)
        self.keys("Enter")
        if wait_for is not None:
            self.wait_for(wait_for)

    def leave(self) -> None:
        """End the program as a person does."""
        self.say("/exit")
        end = time.monotonic() + 15
        while time.monotonic() < end and self._tmux("list-panes", "-t", "s", check=False):
            time.sleep(0.05)
