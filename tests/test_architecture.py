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
FACE = {
    "session.service",
    "session.model",
    "session.errors",
    "session.work",
    "session.home",
    "session.ids",
    "session.values",
}
"""What of the engine the server may name: its verbs, values, errors, ids and directory."""
FLOORS = (
    ("session.worker",),
    ("session.service",),
    (
        "session.forking",
        "session.repairing",
        "session.rewinding",
        "session.undoing",
        "session.paging",
        "session.searching",
    ),
    ("session.changing",),
    ("session.context",),
    ("session.indexing",),
    ("session.watch", "session.indexer"),
    ("session.catalog", "session.operations"),
    ("session.agents",),
    ("session.effects", "session.staging", "session.scratch", "session.locks", "session.store"),
    ("session.osfile", "session.faults", "session.home", "session.ids"),
    ("session.words",),
    ("session.model", "session.errors", "session.work", "session.values", "session.later"),
)
"""The rooms of the engine from the verbs down to the words, as docs/architecture.md has them."""
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


def floor_of(module: str) -> int:
    for number, rooms in enumerate(FLOORS):
        if any(module == room or module.startswith(f"{room}.") for room in rooms):
            return number
    pytest.fail(f"{module} is in no room: give it one here and in docs/architecture.md")


@pytest.mark.parametrize("source", named([s for s in SESSION if s.name != "session"]))
def test_a_room_of_the_engine_imports_nothing_from_above_it(source: Source) -> None:
    used = [i for i in source.imports if i.module.startswith("session.")]
    floor = floor_of(source.name)
    assert [i for i in used if floor_of(i.module) < floor] == []


@pytest.mark.parametrize("room", [room for floor in FLOORS for room in floor])
def test_each_room_is_there_and_has_its_place_on_the_page(room: str) -> None:
    assert is_module(room)
    assert room.split(".")[1] in (ROOT / "docs" / "architecture.md").read_text()


def test_an_agent_knows_no_other_agent_and_no_database() -> None:
    shared = ("session.agents.base", "session.agents.spans")
    agents = [s for s in SESSION if s.name.startswith("session.agents.")]
    for source in agents:
        own = ".".join(source.name.split(".")[:3])
        foreign = [
            i
            for i in source.imports
            if i.module.split(".")[0] in ("sqlite3", "aiosqlite")
            or i.module == "session.store.database"
            or (i.module.startswith("session.agents.") and not i.module.startswith((own, *shared)))
        ]
        assert foreign == [], source.name


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


@pytest.mark.parametrize("source", named(SOURCES))
def test_what_is_imported_later_is_what_type_checkers_see(source: Source) -> None:
    for node in ast.parse(source.path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and (later := dict(imported_later(node.orelse))):
            assert ast.unparse(node.test) == "TYPE_CHECKING"
            assert later.items() <= dict(bound_by_imports(node.body)).items()


def imported_later(statements: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """(name, module) of each `name = later("module")`."""
    for node in statements:
        match node:
            case ast.Assign(
                targets=[ast.Name(name)],
                value=ast.Call(func=ast.Name("later"), args=[ast.Constant(str(module))]),
            ):
                yield name, module


def bound_by_imports(statements: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """(name, what it stands for) of each import."""
    for node in statements:
        if isinstance(node, ast.Import | ast.ImportFrom):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                yield alias.asname or alias.name, package + alias.name


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
