"""The door: `make` lists what can be done, CI runs what a person runs, and what is built holds what it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "semel"


def make(*args: str) -> str:
    done = subprocess.run(["make", "--no-print-directory", *args], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_files_that_are_begun_first_exist(pytestconfig: pytest.Config) -> None:
    conftest: Any = pytestconfig.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    assert [name for name in conftest.SLOWEST if not (ROOT / "tests" / name).is_file()] == []


def test_every_installed_command_exists() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert all(callable(EntryPoint(name, target, "console_scripts").load()) for name, target in scripts.items())
    doubles = [path.parent.name for path in (ROOT / "src/semel/testing").glob("*/__main__.py")]
    assert {f"semel-{name}-double" for name in doubles if (ROOT / f"docs/{name}.md").exists()} == scripts.keys() - {
        "semel"
    }


@pytest.mark.parametrize("name", ["discord", "mattermost", "slack", "teams", "telegram", "whatsapp"])
def test_the_page_of_a_channel_names_the_program_that_simulates_its_platform(name: str) -> None:
    page = (ROOT / f"docs/{name}.md").read_text()
    assert f".venv/bin/semel-{name}-double" in page and f"    semel-{name}-double --port " in page
    done = subprocess.run(
        [sys.executable, "-m", f"semel.testing.{name}", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith(f"usage: semel-{name}-double ")


@pytest.mark.parametrize(
    ("name", "library", "package"),
    [
        ("discord", "websockets", "websockets>=15"),
        ("mattermost", "websockets", "websockets>=15"),
        ("slack", "websockets", "websockets>=15"),
        ("teams", "cryptography", "pyjwt[crypto]>=2.15"),
    ],
)
def test_a_double_without_its_library_says_what_to_install(name: str, library: str, package: str) -> None:
    code = f"import sys; sys.modules['{library}'] = None; from semel.testing.{name}.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"semel-{name}-double needs {library}: ") and package in done.stderr


def test_make_without_a_target_lists_all_of_them() -> None:
    listed = set(re.findall(r"^  make ([a-z-]+) ", make(), re.M))
    written = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert listed == written
    assert {"up", "test", "lint", "bench", "test-agents", "wheel"} <= listed


def test_ci_runs_what_a_person_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^as_new_user env LEFT_TO_ROOT=1 make test$", script, re.M)
    assert re.search(r"^make test .*-m root", script, re.M), "what a new user's run leaves out"
    assert re.search(r"^as_new_user make docs$", script, re.M), "a link may be broken for the site alone"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.fixture
def pythons(tmp_path: Path) -> Path:
    """A directory for stand-ins of python, alone on PATH with the usual commands."""
    places = tmp_path / "bin"
    places.mkdir()
    for name in ("sh", "cat", "echo", "touch", "mkdir"):
        (places / name).symlink_to(f"/bin/{name}")
    return places


def python(places: Path, name: str, version: str, venv: bool) -> None:
    """A python that says it has this version, and can or cannot make a virtual environment."""
    number = tuple(map(int, version.split(".")))
    script = f"""\
        #!/bin/sh
        case "$*" in
            *version_info\\ *) exit {int(number < (3, 11))};;
            *version_info*) echo {version};;
            *ensurepip*) exit {int(not venv)};;
            --version) echo "Python {version}";;
            "-m venv"*) mkdir "$4";;
        esac
        """
    path = places / name
    path.write_text(textwrap.dedent(script))
    path.chmod(0o755)


def make_venv(places: Path, where: Path) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(ROOT / "scripts" / "make-venv"), str(where)]
    return subprocess.run(command, env={"PATH": str(places)}, capture_output=True, text=True, check=False)


def test_the_first_python_that_is_new_enough_and_whole_is_taken(pythons: Path, tmp_path: Path) -> None:
    python(pythons, "python3", "3.9", venv=True)
    python(pythons, "python3.12", "3.12", venv=False)
    python(pythons, "python3.11", "3.11", venv=True)
    done = make_venv(pythons, tmp_path / "venv")
    assert done.returncode == 0, done.stderr
    assert "Python 3.11" in done.stdout
    assert (tmp_path / "venv").is_dir()


def test_a_python_without_its_venv_module_is_named_with_the_package_to_install(pythons: Path, tmp_path: Path) -> None:
    python(pythons, "python3", "3.11", venv=False)
    done = make_venv(pythons, tmp_path / "venv")
    assert done.returncode == 1
    assert "apt install python3.11-venv" in done.stderr


def test_without_a_python_that_is_new_enough_it_is_said_which_is_needed(pythons: Path, tmp_path: Path) -> None:
    python(pythons, "python3", "3.9", venv=True)
    done = make_venv(pythons, tmp_path / "venv")
    assert done.returncode == 1
    assert "needs Python 3.11 or newer, and found Python 3.9" in done.stderr


@pytest.mark.long
def test_the_wheel_holds_every_file_of_the_package_and_works_from_there(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("semel-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    files = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file()}
    ours = {path for path in files if not any(part.startswith((".", "__pycache__")) for part in path.parts)}
    assert {f"semel/{path}" for path in ours} <= held

    inside = tmp_path / "inside"
    zipfile.ZipFile(wheel).extractall(inside)
    code = (
        "import semel, semel.ledger.sqlite.store, semel.faces.terminal.app, semel.faces.http\n"
        "semel.ledger.sqlite.store.Store.in_memory().close()\n"
        "assert semel.__file__.startswith(sys.argv[1]), semel.__file__"
    )
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, sys.argv[1])\n{code}", str(inside)]
    subprocess.run(run, check=True, cwd=tmp_path)
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from semel.faces.cli import main; main()"
    page = subprocess.run(
        [sys.executable, "-c", code, str(inside), "docs", "people"], check=True, cwd=tmp_path, capture_output=True
    )
    assert page.stdout == (ROOT / "docs" / "people.md").read_bytes()
    entry = next(name for name in held if name.endswith("entry_points.txt"))
    assert "semel = semel.faces.start:main" in zipfile.ZipFile(wheel).read(entry).decode()


def run_tests(folder: Path, *args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    kept = {key: value for key, value in os.environ.items() if key != "CI"}
    return subprocess.run(run, env={**kept, **env}, capture_output=True, text=True, check=False, cwd=folder)


def test_in_ci_a_skipped_test_is_a_failure(tmp_path: Path) -> None:
    for name in ("conftest.py", "quick_ledgers.py"):
        (tmp_path / name).write_text((ROOT / "tests" / name).read_text())
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_it(): pytest.skip('no tool')\n")
    alone, in_ci = run_tests(tmp_path, tmp_path), run_tests(tmp_path, tmp_path, CI="true")
    assert (alone.returncode, in_ci.returncode) == (0, 1)
    assert "skipped 1 tests (1: no tool)" in alone.stdout
    assert "a skipped test is a failure in CI" in in_ci.stdout


def test_without_a_browser_its_tests_are_skipped_in_one_line(tmp_path: Path) -> None:
    pages = [ROOT / "tests/http/test_http_search.py", ROOT / "tests/http/test_http_page_odd.py"]
    done = run_tests(ROOT, *pages, PATH=str(tmp_path))
    assert done.returncode == 0, done.stdout
    (line,) = (line for line in done.stdout.splitlines() if "chromium" in line)
    assert re.match(r"skipped \d\d? tests \(\d+: chromium is not installed \(Debian: ", line)


LOCKED = sorted((ROOT / "constraints").glob("*.txt"))


@pytest.mark.parametrize("path", LOCKED, ids=lambda path: path.stem)
def test_what_is_installed_is_named_by_version_and_hash_and_by_no_index(path: Path) -> None:
    text = path.read_text()
    requirements = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.M)).splitlines()
    assert requirements
    assert [
        line for line in requirements if not re.match(r"[a-z0-9-]+==[\w.]+ .*--hash=sha256:[0-9a-f]{64}$", line)
    ] == []
    assert "://" not in text


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("run", []),
        ("dev", ["dev"]),
        ("proof", ["dev", "proof"]),
        ("docs", ["docs"]),
        ("oldest", ["dev", "model", "xmpp", "slack", "discord", "mattermost", "teams", "email"]),
    ],
)
def test_what_is_installed_is_what_the_package_asks_for(name: str, extras: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    asked += [each for extra in extras for each in project["project"]["optional-dependencies"][extra]]
    locked = (ROOT / "constraints" / f"{name}.txt").read_text()
    pinned = [Requirement(line) for line in re.findall(r"^[a-z0-9-]+==.*?(?= \\)", locked, re.M)]
    for version in ("3.11", "3.12", "3.13"):
        for requirement in map(Requirement, asked):
            if applies(requirement, version):
                pins = [pin for pin in pinned if pin.name == requirement.name and applies(pin, version)]
                versions = [str(pin.specifier).removeprefix("==") for pin in pins]
                fit = list(map(requirement.specifier.contains, versions))
                assert fit == [True], f"{requirement}, locked for Python {version} as {versions}: run `make lock`"


def applies(requirement: Requirement, version: str) -> bool:
    marker = requirement.marker
    return marker is None or marker.evaluate({"python_version": version, "python_full_version": f"{version}.0"})
