"""Install the real agents that tests/real_agents drives: `python scripts/agents_install.py [NAME...]`.

Everything goes below `.agents/` in the project, one npm project or virtual environment for each agent with exact
versions, so nothing else on the machine changes and `make clean` removes it. A stamp is written last: an interrupted
installation is done again, a finished one costs nothing. A second run at the same time waits for the first one.
An agent that cannot be installed does not keep the others from it: it is named at the end, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / ".agents"
STAMP = ".installed"
OLDEST_NODE = 22  # what Claude Code's adapter demands
NODE = {"node": "24.21.0"}
AGENTS: dict[str, dict[str, str]] = {
    "claude": {"@agentclientprotocol/claude-agent-acp": "0.101.0"},
    "codex-zed": {"@zed-industries/codex-acp": "0.16.0"},
    "opencode": {"opencode-ai": "1.18.33"},
    "codex": {"@agentclientprotocol/codex-acp": "2.6.0", "@openai/codex": "0.171.0"},
    "copilot": {"@github/copilot": "1.0.102"},
    "gemini": {"@google/gemini-cli": "0.61.0"},
    "qwen": {"@qwen-code/qwen-code": "0.24.4"},
    "pi": {"pi-acp": "0.0.34", "@earendil-works/pi-coding-agent": "1.5.2"},
    "kimi": {"@moonshot-ai/kimi-code": "2.1.0"},
    "openclaw": {"openclaw": "2026.9.6"},
    "kilo": {"@kilocode/cli": "7.7.7"},
    "nanocoder": {"@nanocollective/nanocoder": "1.30.0"},
    "cline": {"cline": "3.0.65"},
}

PYTHON_AGENTS: dict[str, tuple[str, int, int]] = {
    "vibe": ("mistral-vibe==3.0.2", 12, 14),
    "fast-agent": ("fast-agent-mcp==0.10.48", 13, 14),
    "hermes": ("hermes-agent[acp,mcp]==0.19.0", 12, 13),
    "agentao": ("agentao==0.5.17", 12, 13),
    "openhands": ("openhands==1.16.0", 12, 12),
    "deepagents": ("deepagents-code==0.1.88", 12, 14),
    "gptme": ("gptme[acp]==0.35.1", 10, 14),
}
"""Agents from PyPI: the package, and the oldest and newest Python 3 that it takes."""


class CannotInstall(Exception):
    """The message says what to do."""


@contextlib.contextmanager
def lock_folder() -> Iterator[None]:
    """Hold the lock of `.agents/`. It ends with the process, also if that is killed."""
    ROOT.mkdir(exist_ok=True)
    with (ROOT / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Waiting for another run that installs into {ROOT} ...", flush=True)  # noqa: T201
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def node_version(node: str) -> int:
    """The major version of this node, 0 if it does not run."""
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        return int(said.strip().lstrip("v").split(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0


def node() -> str:
    """A node that is new enough: the system's, or the one that was installed here."""
    system = shutil.which("node")
    if system and node_version(system) >= OLDEST_NODE:
        return system
    return str(ROOT / "node/node_modules/node/bin/node")


def find_python(oldest: int, newest: int) -> str | None:
    """The newest Python 3 between these that is on PATH and runs (a shim of pyenv may name one that does not)."""
    paths = (shutil.which(f"python3.{minor}") for minor in range(newest, oldest - 1, -1))
    return next((path for path in paths if path and runs(path)), None)


def runs(python: str) -> bool:
    try:
        return subprocess.run([python, "--version"], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def is_installed(name: str) -> bool:
    """Whether this agent is there at exactly the version that this file names."""
    content = PYTHON_AGENTS[name][0] if name in PYTHON_AGENTS else describe_packages(AGENTS[name])
    return is_stamped(ROOT / name, content)


def is_stamped(home: Path, content: str) -> bool:
    """Whether the last installation into this folder ended well, and was of this content."""
    stamp = home / STAMP
    return stamp.exists() and stamp.read_text() == content


def describe_packages(packages: dict[str, str]) -> str:
    """The content of the stamp of npm packages."""
    return json.dumps(packages, sort_keys=True)


def install_python(name: str, package: str, oldest: int, newest: int) -> None:
    """A package from PyPI that takes Python 3.`oldest` to 3.`newest`, in the virtual environment `.agents/<name>`."""
    home = ROOT / name
    if is_stamped(home, package):
        return
    python = find_python(oldest, newest)
    if python is None:
        needed = f"3.{oldest}" if oldest == newest else f"3.{oldest} to 3.{newest}"
        raise CannotInstall(f"{package} needs Python {needed}: install it, or choose other agents with AGENTS")
    print(f"Installing {package} ...", flush=True)  # noqa: T201
    shutil.rmtree(home, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "install", "-q", package]
    for command in ([python, "-m", "venv", "--without-pip", str(home)], pip):
        if done := subprocess.run(command, check=False).returncode:
            raise CannotInstall(f"{package} could not be installed (exit {done}): see the words above")
    (home / STAMP).write_text(package)


def install(folder: str, packages: dict[str, str]) -> None:
    """These packages, at exactly these versions, in `.agents/<folder>`."""
    home = ROOT / folder
    content = describe_packages(packages)
    if is_stamped(home, content):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall("npm was not found: install Node.js with npm (Debian and Ubuntu: apt install nodejs npm)")
    print(f"Installing {', '.join(f'{name} {version}' for name, version in packages.items())} ...", flush=True)  # noqa: T201
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    manifest = {"name": f"semel-agent-{folder}", "private": True, "dependencies": packages}
    (home / "package.json").write_text(json.dumps(manifest, indent=2))
    quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    # What a package runs when it is installed gets the node that its agent will get.
    env = {**os.environ, "PATH": f"{Path(node()).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([npm, "install", *quiet], cwd=home, env=env, check=False)
    if done.returncode:
        raise CannotInstall(
            f"npm could not install {', '.join(packages)} (exit {done.returncode}): see its words above"
        )
    (home / STAMP).write_text(content)


def main() -> int:
    everyone = [*AGENTS, *PYTHON_AGENTS]
    parser = argparse.ArgumentParser(description="Install real agents below .agents/ for `make test-agents`.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which agents; all if none, or if it is all: {', '.join(everyone)}"
    )
    names = parser.parse_args().names
    names = everyone if names in ([], ["all"]) else names
    if unknown := [name for name in names if name not in everyone]:
        parser.error(f"no agent is called {unknown[0]!r}; there are {', '.join(everyone)}")
    try:
        with lock_folder():
            faults = install_all(names)
    except CannotInstall as fault:  # without Node there is nothing to go on with
        faults = [str(fault)]
    for text in faults:
        print(f"agents_install: {text}", file=sys.stderr)  # noqa: T201
    return 1 if faults else 0


def install_node() -> None:
    """Install a node if the system's is too old or missing. Raises CannotInstall."""
    system = shutil.which("node")
    if not system or node_version(system) < OLDEST_NODE:
        install("node", NODE)
        if node_version(node()) < OLDEST_NODE:
            raise CannotInstall(f"{node()} does not run: remove {ROOT / 'node'} and try again")


def install_all(names: list[str]) -> list[str]:
    """Install these agents, and a node for them if the system's is too old or missing.

    Return what there is to say of those that cannot be installed, one text each.
    """
    install_node()
    faults = []
    for name in names:
        try:
            if name in PYTHON_AGENTS:
                install_python(name, *PYTHON_AGENTS[name])
            else:
                install(name, AGENTS[name])
        except CannotInstall as fault:
            faults.append(f"{name} is not installed: {fault}")
    return faults


if __name__ == "__main__":
    sys.exit(main())
