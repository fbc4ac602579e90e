"""The installation of the real agents: what holds if two run at once, and if one agent cannot be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fleet import INSTALLER, installed
from test_real_agents import cases

from semel.agents.known import KNOWN_AGENTS

SCRIPTS = Path(__file__).parents[2] / "scripts"
RUN = """
import sys
from pathlib import Path
import agents_install
agents_install.ROOT = Path(sys.argv.pop(1))
sys.exit(agents_install.main())
"""
NPM = """#!/bin/sh
mkdir running || exit 9
echo "$$" >> "$NPM_LOG"
echo started > "$NPM_STARTED"
timeout 20 cat "$NPM_GATE"
rmdir running
"""
"""An npm that fails if another one runs in its directory, and ends when the test writes into its gate."""


def test_a_second_run_waits_for_the_first_and_installs_nothing_again(tmp_path: Path) -> None:
    programs, log, started, gate = (tmp_path / name for name in ("bin", "log", "started", "gate"))
    programs.mkdir()
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\necho v24.0.0\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    os.mkfifo(started)
    os.mkfifo(gate)
    paths = {"NPM_LOG": str(log), "NPM_STARTED": str(started), "NPM_GATE": str(gate)}
    env = {**os.environ, **paths, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(SCRIPTS)}
    command = [sys.executable, "-c", RUN, str(tmp_path / "agents"), "claude"]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as first:
        started.read_text()
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            said = second.stdout.readline()
            gate.write_text("go\n")
    assert (first.returncode, second.returncode) == (0, 0)
    assert said.startswith("Waiting for another run")
    assert len(log.read_text().splitlines()) == 1


def test_an_agent_that_cannot_be_installed_is_named_and_does_not_stop_the_others(tmp_path: Path) -> None:
    npm = "#!/bin/sh\n! grep -q kimi package.json\n"
    done = install_with_npm(tmp_path, npm, "kimi", "opencode")
    assert done.returncode == 1
    assert "kimi is not installed: npm could not install @moonshot-ai/kimi-code" in done.stderr
    assert "opencode is not installed" not in done.stderr
    assert not (tmp_path / "agents/kimi/.installed").exists()
    assert (tmp_path / "agents/opencode/.installed").exists()


def test_an_agent_of_another_version_is_not_the_one_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(INSTALLER, "ROOT", tmp_path / "agents")
    install_with_npm(tmp_path, "#!/bin/sh\n", "kimi")
    assert INSTALLER.is_installed("kimi")
    monkeypatch.setitem(INSTALLER.AGENTS, "kimi", {"@moonshot-ai/kimi-code": "0.0.1"})
    assert not INSTALLER.is_installed("kimi")


def test_an_agent_that_is_not_installed_fails_once_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(INSTALLER, "ROOT", tmp_path)
    monkeypatch.setenv("AGENTS", "kimi")
    ((agent, _),) = cases()
    with pytest.raises(pytest.fail.Exception, match="kimi is not installed"):
        installed(agent)


def test_the_versions_that_are_driven_are_those_that_semel_installs() -> None:
    pinned = {
        name: [f"{package}@{version}" for package, version in of.items()] for name, of in INSTALLER.AGENTS.items()
    }
    pinned |= {name: [re.sub(r"\[.*\]", "", package)] for name, (package, *_) in INSTALLER.PYTHON_AGENTS.items()}
    known = {
        agent.name: [*agent.npm, *([re.sub(r"\[.*\]", "", agent.pypi)] if agent.pypi else [])]
        for agent in KNOWN_AGENTS
        if agent.npm or agent.pypi
    }
    assert {name: packages for name, packages in pinned.items() if name != "codex-zed"} == known


def install_with_npm(tmp_path: Path, npm: str, *names: str) -> subprocess.CompletedProcess[str]:
    """Install these agents into tmp_path/agents with this script in the place of npm."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("npm", npm), ("node", "#!/bin/sh\necho v24.0.0\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(SCRIPTS)}
    command = [sys.executable, "-c", RUN, str(tmp_path / "agents"), *names]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
