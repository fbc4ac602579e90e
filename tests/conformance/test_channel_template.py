"""`semel channel new` writes a package that is built, installed and honest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rig_pigeon import PigeonRig

from semel.channels.new_package import CannotWrite, write_package
from semel.testing.conformance import ConformanceError
from semel.testing.conformance.process import GatewayProcess

pytestmark = pytest.mark.channels

KIND = "board"


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> tuple[Path, Path]:
    """The package as the command wrote it, and the Python of an environment of its own in which it is installed."""
    folder = tmp_path / f"semel-{KIND}"
    run(sys.executable, "-m", "semel", "channel", "new", KIND, cwd=tmp_path)
    wheel = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", tmp_path, folder)
    run(sys.executable, *wheel, cwd=tmp_path)
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "semel_and_pytest.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    (built,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", built,
        cwd=tmp_path)  # fmt: skip
    return folder, python


def test_a_new_channel_is_built_installed_and_passes_the_suite(installed: tuple[Path, Path]) -> None:
    folder, python = installed
    kinds = "import semel.channels; print(semel.channels.kinds()['board'].settings.__module__)"
    assert run(python, "-c", kinds, cwd=folder.parent).strip() == "semel_board.channel"
    told = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not storm", cwd=folder)
    passed = re.search(r"(\d+) passed", told)
    assert passed is not None and int(passed[1]) >= 9, told
    run(sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "120", "--select", "E,F,W,I,B,UP", ".",
        cwd=folder)  # fmt: skip
    run(sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "--check", "src", "tests",
        cwd=folder)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("telegram", "there is a channel kind 'telegram' already"),
        ("My-Board", "use lower-case letters, digits and single hyphens"),
        ("1board", "cannot be a kind"),
        ("loft-", "single hyphens, like loft-chat"),
        ("../x", "cannot be a kind"),
    ],
)
def test_a_kind_that_cannot_be_is_refused_and_nothing_is_written(kind: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=re.escape(said)):
        write_package(kind, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_kind_may_have_a_hyphen_and_its_module_has_an_underscore(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    for file in write_package("loft-chat", folder):
        if file.suffix == ".py":
            compile(file.read_text(), file, "exec")
    package = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert package["name"] == "semel-loft-chat"
    assert package["entry-points"]["semel.channels"] == {"loft-chat": "semel_loft_chat:KIND"}
    assert "class LoftChatChannel" in (folder / "src" / "semel_loft_chat" / "channel.py").read_text()


async def test_a_channel_that_is_not_installed_is_taken_from_its_source_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))

    class LoftRig(PigeonRig):
        kind = "loft-board"
        paths = (tmp_path / "empty",)

        def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
            return {"url": f"http://127.0.0.1:{ports['api']}"}

    (tmp_path / "empty").mkdir()
    with pytest.raises(ConformanceError, match="no channel kind 'loft-board': install its package"):
        LoftRig().make("tested", {"api": 1})
    write_package("loft-board", tmp_path / "new")
    LoftRig.paths = (tmp_path / "new" / "src",)
    assert type(LoftRig().make("tested", {"api": 1})).__name__ == "LoftBoardChannel"
    LoftRig.paths = (tmp_path / "new",)
    async with GatewayProcess(tmp_path / "gateway", LoftRig()) as gateway:
        gateway.configure({"api": 1})
        await gateway.start()
        assert (await gateway.channel_state())["kind"] == "loft-board"


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    write_package(KIND, tmp_path / "new")
    (tmp_path / "new" / "README.md").write_text("mine")
    with pytest.raises(CannotWrite, match="was left as it is"):
        write_package(KIND, tmp_path / "new")
    assert (tmp_path / "new" / "README.md").read_text() == "mine"
