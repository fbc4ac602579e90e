"""Imports point downwards: between packages, and between the stages inside `gateway/` and `ledger/`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "semel"

FLOORS = {
    "text": 0,
    "timing": 0,
    "acp_stream": 1,
    "law": 2,
    "ledger": 3,
    "gateway": 4,
    "agents": 5,
    "channels": 5,
    "tools": 5,
    "faces": 6,
    "testing": 7,
}
"""A package imports from itself and from floors below; testing is for users and stands on all of them."""

PURE = ("text", "timing", "acp_stream", "law")
PURE_LIBRARIES = {"timing": {"cronsim"}}
"""What a pure package imports besides the standard library: libraries that only compute."""

CLOCK_READERS = {"now", "utcnow", "today"}
"""The methods of `datetime` and `date` that read a clock; the rest of `datetime` is arithmetic."""

STAGES = {
    "ledger": (
        "storage",
        "sqlite",
        "transcript",
        "file_objects",
        "file_pieces",
        "search",
        "people",
        "delivery",
        "turns",
        "inbound",
        "admin",
        "backup",
        "postgres",
        "engines",
        "copy_files",
        "copy_ledger",
    ),
    "gateway": ("outbound", "turns", "inbound", "tools", "api"),
}
"""The stages inside of two packages, from the ground up; modules beside them are below all of the gateway's stages."""

LAW_MAY_NOT = {
    "a clock": {"time", "sched"},
    "random": {"random", "secrets", "uuid"},
    "waiting": {"asyncio", "threading", "concurrent", "queue", "selectors", "signal", "multiprocessing"},
    "SQL": {"sqlite3", "apsw", "dbm"},
    "files and the world": {
        "zoneinfo",
        "os",
        "pathlib",
        "io",
        "shutil",
        "tempfile",
        "subprocess",
        "socket",
        "sys",
        "glob",
    },
}


def modules(under: Path = PACKAGE) -> list[Path]:
    return sorted(under.rglob("*.py"))


def room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, dotted module) of every import, relative ones made absolute, those inside functions included."""
    return tuple(_read_imports(path))


def _read_imports(path: Path) -> Iterator[tuple[int, str]]:
    package = ("semel", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield node.lineno, module
            if module == "semel" or not node.module:
                yield from ((node.lineno, f"{module}.{name.name}") for name in node.names)


def test_a_room_imports_only_from_floors_below() -> None:
    wrong = []
    for path in modules():
        here = room(path)
        for line, module in imports(path):
            top, _, rest = module.partition(".")
            there = rest.partition(".")[0]
            if top != "semel" or there not in FLOORS or there == here or not here:
                continue
            if FLOORS[there] >= FLOORS[here]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", STAGES)
def test_a_stage_imports_only_from_stages_below(package: str) -> None:
    stages = STAGES[package]
    wrong = []
    for path in modules(PACKAGE / package):
        here = path.relative_to(PACKAGE / package).with_suffix("").parts[0]
        level = stages.index(here) if here in stages else -1
        for line, module in imports(path):
            there = module.removeprefix(f"semel.{package}.").partition(".")[0]
            inside = module.startswith(f"semel.{package}.") and there in stages and here != "__init__"
            if inside and stages.index(there) > level and here != there:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", STAGES)
def test_every_stage_is_named(package: str) -> None:
    packages = {path.parent.name for path in (PACKAGE / package).glob("*/__init__.py")}
    assert packages - {"ports", "settings"} <= set(STAGES[package])


def test_every_room_has_a_floor() -> None:
    rooms = {room(path) for path in modules()} - {""}
    assert rooms == set(FLOORS)


def pure_modules() -> list[Path]:
    return [path for package in PURE for path in modules(PACKAGE / package)]


def test_the_law_imports_only_the_standard_library() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in pure_modules()
        for line, module in imports(path)
        if module.partition(".")[0] not in {*sys.stdlib_module_names, "semel", *PURE_LIBRARIES.get(room(path), ())}
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("what", LAW_MAY_NOT)
def test_the_law_has_no_such_thing(what: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in pure_modules()
        for line, module in imports(path)
        if module.partition(".")[0] in LAW_MAY_NOT[what]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_law_reads_no_clock_through_datetime() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} .{node.attr}"
        for path in pure_modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CLOCK_READERS
    ]
    assert not wrong, "\n".join(wrong)


def test_the_law_waits_for_nothing_and_opens_nothing() -> None:
    wrong = []
    for path in pure_modules():
        for node in ast.walk(ast.parse(path.read_text())):
            waits = isinstance(node, ast.Await | ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith)
            opens = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"open", "print", "input"}
            if waits or opens:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_the_law_and_the_ledger_load_without_the_rest_of_the_house() -> None:
    """What the imports say, a fresh interpreter confirms."""
    for name, allowed in (("law", set(PURE)), ("ledger", {*PURE, "ledger"})):
        code = (
            "import sys, pkgutil, importlib\n"
            f"import semel.{name} as top\n"
            "for m in pkgutil.walk_packages(top.__path__, top.__name__ + '.'):\n"
            "    importlib.import_module(m.name)\n"
            "print(*sorted({m.split('.')[1] for m in sys.modules if m.startswith('semel.')}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) <= allowed, done.stdout


def tracked(*suffixes: str) -> list[Path]:
    """The files that are (or would be) in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:  # an unpacked source archive
        paths = [path for top in ("src", "tests", "docs", "bench") for path in (ROOT / top).rglob("*")]
    else:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes)]


def test_no_file_is_longer_than_500_lines() -> None:
    sources = tracked(".py", ".js", ".mjs", ".ts", ".tsx", ".css", ".html", ".sql", ".sh")
    long = {str(path.relative_to(ROOT)): n for path in sources if (n := path.read_text().count("\n")) > 500}
    assert not long


PLACES = re.compile(r"(?<![\w.])/(?:work|root)/|/tmp/[\w.-]|/home/(?!you\b|me\b|local\b)\w+/|/Users/\w+/")


def test_nothing_names_a_place_on_somebodys_machine() -> None:
    wrong = []
    for path in tracked(".py", ".md", ".toml", ".sql", ".js", ".mjs", ".ts", ".tsx", ".css", ".html", ".sh", ""):
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if PLACES.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not wrong, "\n".join(wrong)
