"""How this copy of Semel is installed: the command that starts it, and the command that adds an optional package.

Advice in errors and on the start screen has to work as it is typed. From a clone, `semel` is `.venv/bin/semel`; and an
extra such as `email` is added with pip, pipx or uv, depending on what made the environment. The packages of the extra
are named instead of `semel[email]`, because that would ask a package index for Semel itself.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

PROGRAM = "semel"
_EXTRA = re.compile(r"""^extra\s*==\s*["']([\w-]+)["']$""")


def find_command() -> str:
    """Return the command that starts this program from the same shell."""
    if shutil.which(PROGRAM):
        return PROGRAM
    script = Path(sys.executable).with_name(PROGRAM)
    return shorten_path(script) if script.exists() else f"{shorten_path(Path(sys.executable))} -m {PROGRAM}"


def shorten_path(path: Path) -> str:
    """Shorten a path to one relative to `~` or to another current directory, if it is below one of them."""
    for base, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base) and (prefix or base != Path.home()):
            return prefix + str(path.relative_to(base))
    return str(path)


def find_install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra of Semel, such as "email", into this environment."""
    packages = shlex.join(list_packages(extra))
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f"pipx inject {PROGRAM} {packages}"
    shortened = shorten_path(Path(sys.executable))
    python = shlex.quote(shortened.removeprefix("~/"))  # a shell expands no tilde in quotes
    python = f"~/{python}" if shortened.startswith("~/") else python
    if find_spec("pip") is None:  # uv makes environments without pip
        return f"uv pip install --python {python} {packages}"
    return f"{python} -m pip install {packages}"


def list_packages(extra: str) -> list[str]:
    """Return the requirements (PEP 508) that an extra adds, as this version of Semel declares them."""
    requirements = (line.partition(";") for line in metadata.requires(PROGRAM) or ())
    return [
        name.strip()
        for name, _, marker in requirements
        if (match := _EXTRA.match(marker.strip())) and match[1] == extra
    ]
