"""The import directions of docs/architecture.md, read from the source with `ast`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from attrs import define

ROOT = Path(__file__).parent.parent
PROTOCOL_LIBRARIES = {"pygls", "lsprotocol"}
FACE = {"session.service", "session.model", "session.errors", "session.work", "session.home"}
"""What of the engine the server may name: its verbs, its values, its errors, its directory."""
WORDS = {"session.model", "session.errors", "session.work"}
"""The floor: values, errors and the handle on blocking work, which every room may use."""
INSTALLED_AS = {"attrs": {"attrs", "attr"}}


@define(frozen=True)
class Import:
    module: str
    line: int
    in_function: bool


@define(frozen=True)
class Source:
    name: str
    path: Path
    imports: list[Import]


def read(path: Path) -> Source:
    parts = path.relative_to(ROOT).with_suffix("").parts
    package = parts if path.name == "__init__.py" else parts[:-1]
    name = ".".join(p for p in parts if p != "__init__")
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return Source(name, path, list(imports_of(tree, ".".join(package), False)))


def imports_of(node: ast.AST, package: str, in_function: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, in_function)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: a relative import hides its room"
            for alias in child.names:
                named = f"{child.module}.{alias.name}"
                yield Import(
                    named if is_module(named) else str(child.module), child.lineno, in_function
                )
        yield from imports_of(child, package, inside)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


SOURCES = [read(p) for room in ("server", "session") for p in sorted((ROOT / room).rglob("*.py"))]
SERVER = [s for s in SOURCES if s.name.split(".")[0] == "server"]
SESSION = [s for s in SOURCES if s.name.split(".")[0] == "session"]


def named(sources: list[Source]) -> list[object]:
    return [pytest.param(s, id=s.name) for s in sources]


@pytest.mark.parametrize("source", named(SESSION))
def test_the_engine_imports_neither_the_server_nor_a_protocol_library(source: Source) -> None:
    foreign = {"server", *PROTOCOL_LIBRARIES}
    assert [i for i in source.imports if i.module.split(".")[0] in foreign] == []


@pytest.mark.parametrize("source", named(SERVER))
def test_the_server_sees_only_the_face_of_the_engine(source: Source) -> None:
    used = [i for i in source.imports if i.module.split(".")[0] == "session"]
    assert [i for i in used if i.module not in FACE] == []


@pytest.mark.parametrize("source", named(SESSION))
def test_no_room_of_the_engine_imports_the_verbs_above_it(source: Source) -> None:
    assert [i for i in source.imports if i.module == "session.service"] == []


@pytest.mark.parametrize("source", named([s for s in SESSION if s.name in WORDS]))
def test_the_words_of_the_engine_depend_on_nothing_but_words(source: Source) -> None:
    used = {i.module for i in source.imports if i.module.split(".")[0] == "session"}
    assert used <= WORDS


def test_no_imports_go_in_a_circle() -> None:
    known = {s.name for s in SOURCES}
    graph = {s.name: {i.module for i in s.imports if i.module in known} for s in SOURCES}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as cycle:
        pytest.fail(f"imports in a circle: {' <- '.join(cycle.args[1])}")


@pytest.mark.parametrize("source", named(SOURCES))
def test_an_import_inside_a_function_says_why(source: Source) -> None:
    lines = source.path.read_text(encoding="utf-8").splitlines()
    assert [i for i in source.imports if i.in_function and not explained(i, lines)] == []


def explained(found: Import, lines: list[str]) -> bool:
    """A comment on the line, or above the group of imports that it stands in."""
    above = found.line - 2
    while lines[above].lstrip().startswith(("import ", "from ")):
        above -= 1
    return "  # " in lines[found.line - 1] or lines[above].lstrip().startswith("#")


def test_each_dependency_is_used_and_has_its_reason_in_the_docs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "architecture.md").read_text()
    used = {i.module.split(".")[0] for s in SOURCES for i in s.imports}
    for requirement in project["dependencies"]:
        name = re.split(r"[=<>~!\[ ;]", requirement)[0]
        assert INSTALLED_AS.get(name, {name}) & used, f"{name} is pinned and not used"
        assert f"- `{name}`: " in page, f"docs/architecture.md says why {name}"


def test_nothing_is_imported_that_is_not_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {re.split(r"[=<>~!\[ ;]", r)[0] for r in project["dependencies"]}
    provided = set().union(*(INSTALLED_AS.get(name, {name}) for name in pinned))
    used = {i.module.split(".")[0] for s in SOURCES for i in s.imports}
    assert used - provided - set(sys.stdlib_module_names) <= {"server", "session"}


def test_the_command_line_starts_without_the_servers_libraries() -> None:
    probe = "import sys, server.cli; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert PROTOCOL_LIBRARIES & set(loaded) == set()
