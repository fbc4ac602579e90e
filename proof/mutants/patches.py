"""The patches: their headers, and how they are applied.

A patch begins with lines `Name: value`, then an empty line, then a unified diff over src/:

    Fault: what is wrong, in one sentence
    Law: the number of the law that it breaks (1 to 14)
    Caught-by: the part that must catch it
    Options: what that part is run with, beside --quick --first (may be left out)
    Quick: yes, if it belongs to the sample (may be left out)
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "mutants"
CATCHERS = ("crash", "power", "schedules", "agents", "machines", "races", "cluster")
NAMES = ("Fault", "Law", "Caught-by", "Options", "Quick")
LAWS = range(1, 15)

_CHANGED = re.compile(r"^\+\+\+ b/(src/semel/\S+)$", re.M)


class BadHeader(ValueError):
    """A patch whose header does not say what it should; the message says what is wrong."""


class DoesNotApply(Exception):
    """The code that a patch changes is not what it was: the mutant has to be mended."""


@dataclass(frozen=True)
class Mutant:
    """One planted fault. `files`: what it changes, as paths that begin with src/semel/."""

    path: Path
    fault: str
    law: int
    part: str
    options: tuple[str, ...]
    quick: bool
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def command(self) -> tuple[str, ...]:
        """What is given to `python -m proof`."""
        return (self.part, "--quick", "--first", *self.options)

    @property
    def modules(self) -> tuple[str, ...]:
        """The Python modules that it changes."""
        return tuple(f[4:-3].replace("/", ".") for f in self.files if f.endswith(".py"))


def all_of(folder: Path = FOLDER) -> list[Mutant]:
    """Every mutant, by name. Raises BadHeader."""
    return [read(path) for path in sorted(folder.glob("*.patch"))]


def read(path: Path) -> Mutant:
    """One mutant. Raises BadHeader."""
    header, _, diff = path.read_text("utf-8").partition("\n\n")
    told: dict[str, str] = {}
    for line in header.splitlines():
        name, sign, value = line.partition(": ")
        if not sign or name not in NAMES or name in told or not value.strip():
            raise BadHeader(f"{path.name}: {line!r} is no line of a header; the names are {', '.join(NAMES)}")
        told[name] = value.strip()
    if missing := [name for name in NAMES[:3] if name not in told]:
        raise BadHeader(f"{path.name}: its header does not say {', '.join(missing)}")
    if told["Caught-by"] not in CATCHERS:
        raise BadHeader(f"{path.name}: Caught-by is {told['Caught-by']!r}, which is none of {', '.join(CATCHERS)}")
    if told["Law"] not in map(str, LAWS):
        raise BadHeader(f"{path.name}: Law is {told['Law']!r}; give a number from {LAWS[0]} to {LAWS[-1]}")
    if told.get("Quick", "yes") != "yes":
        raise BadHeader(f"{path.name}: Quick is {told['Quick']!r}; say yes, or leave it out")
    files = tuple(_CHANGED.findall(diff))
    if not files or len(files) != diff.count("\n+++ "):
        raise BadHeader(f"{path.name}: a mutant changes files below src/semel, and nothing else")
    options = tuple(told.get("Options", "").split())
    return Mutant(path, told["Fault"], int(told["Law"]), told["Caught-by"], options, "Quick" in told, files)


def apply(mutant: Mutant, tree: Path, *, check: bool = False) -> None:
    """Change the copy of the sources in `tree`/src; `check`: only see whether it could be done. Raises DoesNotApply.

    Lines may have moved; what stands around the change must be what it was, to the letter.
    """
    command = ["git", "apply", "--whitespace=nowarn", *(["--check"] if check else []), str(mutant.path)]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    alone["GIT_CEILING_DIRECTORIES"] = str(tree.resolve().parent)  # a copy inside a repository is not a part of it
    done = subprocess.run(command, cwd=tree, env=alone, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["git apply failed"])[0]
        raise DoesNotApply(f"this mutant no longer applies: mend tests/mutants/{mutant.path.name} ({said})")
