"""Sphinx configuration of the documentation's site (`make docs`).

The pages are the Markdown files of the repository as they are. docs/README.md is the front page, and its lists are the
navigation (scripts/docs_pages.py). A broken link, or a page that no list names, fails the build (`--fail-on-warning`).
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from scripts.docs_pages import INDEX, SUBINDEXES, list_subpages, read_navigation  # noqa: E402

_METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
project = "Semel"
release = version = _METADATA["version"]
html_title = f"Semel {release}"
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md"]
exclude_patterns = [".*", "build"]  # else they are searched for pages, too
smartquotes = False  # a text stands as it was written
myst_heading_anchors = 6
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
templates_path = ["templates"]
html_additional_pages = {"index": "index.html"}


def _name(page: Path) -> str:
    """The name that Sphinx has for a page."""
    return page.relative_to(ROOT).with_suffix("").as_posix()


def _append_toctree(app: Sphinx, name: str, source: list[str]) -> None:
    """Append the navigation to the pages that list others."""
    page = ROOT / f"{name}.md"
    captions: dict[str, list[str]] = {}
    if page == INDEX:
        for caption, pages in read_navigation().items():
            captions[caption] = [f"{title} </{_name(target)}>" for target, title in pages.items()]
    elif page in SUBINDEXES.values():
        captions = {"": [f"/{_name(target)}" for target in list_subpages(page)]}
    for caption, lines in captions.items():
        entries = "\n".join(lines)
        option = f":caption: {caption}\n" if caption else ""
        source[0] += f"\n```{{toctree}}\n:hidden:\n{option}\n{entries}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _append_toctree)
    app.add_lexer("mermaid", TextLexer)
    return {"parallel_read_safe": True}
