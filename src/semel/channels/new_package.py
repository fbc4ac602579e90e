"""Write a package with a channel of a new kind, from a template that passes the conformance suite.

`semel channel new NAME` calls it; docs/write-a-channel.md leads from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from semel.channels import kinds

KIND_PATTERN = re.compile(r"(?=.{1,31}\Z)[a-z](?:-?[a-z0-9])*")
SUFFIX = ".tmpl"


class CannotWrite(Exception):
    """The package cannot be written. The message says why, and what to do."""


def write_package(kind: str, folder: Path) -> list[Path]:
    """Write the package of a channel kind into a new folder. Returns the written files. Raises CannotWrite."""
    if not KIND_PATTERN.fullmatch(kind):
        raise CannotWrite(
            f"{kind!r} cannot be a kind: use lower-case letters, digits and single hyphens, like loft-chat"
        )
    if kind in kinds():
        raise CannotWrite(f"there is a channel kind {kind!r} already; choose another name")
    if folder.exists():
        raise CannotWrite(f"{folder} exists, and was left as it is")
    module, words = kind.replace("-", "_"), kind.split("-")
    names = {
        "{{name}}": kind,
        "{{module}}": module,
        "{{Class}}": "".join(word.capitalize() for word in words),
        "{{NAME}}": module.upper(),
    }
    written = []
    try:
        for path, text in _read_template(resources.files("semel.channels") / "package_template", Path()):
            target = folder / str(path).replace("NAME", module)
            for placeholder, value in names.items():
                text = text.replace(placeholder, value)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            written.append(target)
    except OSError as error:
        raise CannotWrite(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    return written


def _read_template(folder: Traversable, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of each file of the template."""
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _read_template(item, path / item.name)
        elif item.name.endswith(SUFFIX):
            yield path / item.name.removesuffix(SUFFIX), item.read_text("utf-8")
