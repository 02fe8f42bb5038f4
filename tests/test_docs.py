"""What the documentation says, compared with what the code does."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import attrs
import pytest

from server.methods import VERBS
from session import errors, faults, model
from session.agents.claude_code.checking.codes import CODES
from session.service import Service
from session.values import made

ROOT = Path(__file__).parent.parent
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next heading of the same or a higher level."""
    level = heading.split(" ")[0]
    found = re.search(
        rf"^{re.escape(heading)}$(.*?)(?=^#{{1,{len(level)}}} |\Z)", page, re.M | re.S
    )
    assert found, f"no section {heading!r}"
    return found[1]


def errors_of(base: type[errors.TurntreeError]) -> Iterator[type[errors.TurntreeError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from errors_of(kind)


@pytest.mark.parametrize("error", list(errors_of(errors.TurntreeError)), ids=lambda e: e.kind)
def test_the_protocol_page_lists_each_error_with_its_code(
    error: type[errors.TurntreeError],
) -> None:
    table = section(PROTOCOL, "## Application errors")
    if error.code > 0:
        assert f"| {error.code} | `{error.kind}` |" in table
    else:
        assert f'{error.code} carries `kind: "{error.kind}"`' in table


@pytest.mark.parametrize("shape", [model.Session, model.Turn], ids=lambda s: s.__name__)
def test_the_protocol_page_names_each_field_of_an_object(shape: type) -> None:
    text = section(PROTOCOL, f"### {shape.__name__}")
    assert [f.name for f in attrs.fields(made(shape)) if f"`{f.name}`" not in text] == []


@pytest.mark.parametrize("method", VERBS)
def test_the_protocol_page_names_each_parameter_and_whether_it_may_be_left_out(method: str) -> None:
    text = section(PROTOCOL, f"### `{method}`")
    for parameter in attrs.fields(VERBS[method].params):
        mark = "" if parameter.default is attrs.NOTHING else "?"
        assert f"`{parameter.name}{mark}`" in text


@pytest.mark.parametrize("method", VERBS)
def test_the_protocol_page_names_each_field_of_a_result(method: str) -> None:
    returned = get_type_hints(getattr(Service, VERBS[method].call.__name__))["return"]
    text = section(PROTOCOL, f"### `{method}`")
    missing = [
        f.name for f in attrs.fields(made(returned)) if not re.search(rf"\b{f.name}\b", text)
    ]
    assert missing == []


def test_the_protocol_page_describes_no_method_that_is_not_there() -> None:
    described = set(re.findall(r"^### `(\w+)`$", section(PROTOCOL, "## Methods"), re.M))
    assert described == set(VERBS)


def test_the_protocol_page_does_not_call_a_method_that_is_there_still_to_come() -> None:
    reserved = section(PROTOCOL, "## Still to come in version 1").partition(".")[0]
    assert set(re.findall(r"`(\w+)`", reserved)) & {*VERBS} == set()


@pytest.mark.parametrize("point", faults.POINTS + faults.BEHIND)
def test_the_architecture_page_says_what_each_fault_point_proves(point: str) -> None:
    assert f"| `{point}` |" in ARCHITECTURE


def test_the_readme_has_exactly_two_set_up_commands_and_the_makefile_has_them() -> None:
    commands = re.findall(r"^    make (\w+)", README, re.M)
    assert commands == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in {*commands, *re.findall(r"`make (\w+)`", README), "lint", "bench"}:
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"


@pytest.mark.parametrize("target", ["demo", "lint", "format", "fuzz", "bench"])
def test_the_makefile_works_in_a_folder_with_a_space_in_its_name(
    tmp_path: Path, target: str
) -> None:
    folder = tmp_path / "turn tree"
    folder.mkdir()
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    shown = subprocess.run(["make", "-n", target], cwd=folder, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    programs = [
        word
        for line in shown.stdout.splitlines()
        if "/.venv/bin/" in line
        for word in shlex.split(line)
        if "/.venv/bin/" in word
    ]
    assert programs and all(str(folder / ".venv" / "bin") in word for word in programs)


def test_the_readme_is_one_screen() -> None:
    assert len(README.splitlines()) <= 60


@pytest.mark.parametrize("command", sorted(set(re.findall(r"bin/turntree (\w+)", README))))
def test_the_commands_in_the_readme_exist(command: str) -> None:
    turntree = shutil.which("turntree", path=str(Path(sys.executable).parent))
    assert turntree, "the turntree command is installed beside this Python"
    shown = subprocess.run([turntree, command, "--help"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CHANGELOG.md",
        *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md")),
    ],
)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    names = re.findall(r"`((?:docs|demo|server|session|tests|bench)/[\w./]*\w/?)`", text)
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_protocol_page_has_each_code_of_a_finding_with_its_severity_and_repair() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (?:`(\w+)`)? ?\| .+ \|$",
        section(PROTOCOL, "### `check_session`"),
        re.M,
    )
    assert rows == [(code, known.severity, known.repair or "") for code, known in CODES.items()]
