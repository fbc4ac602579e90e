"""Read the documentation's Markdown files: the index as navigation, the links of a page, the anchors of its headings.

docs/README.md is the only list of pages. The site (`make docs`) and the tests read it from there.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
SUBINDEXES = {"agents": DOCS / "use-an-agent.md", "decisions": DOCS / "decisions" / "README.md"}
"""For each folder in docs/, the page that lists its pages."""

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_ENTRY = re.compile(r"- \[(?P<title>[^\]]+)\]\((?P<target>[^)]+)\): (?P<question>.+)")


def read_navigation() -> dict[str, dict[Path, str]]:
    """Return the pages of docs/README.md and their titles there, in their order, by section."""
    sections: dict[str, dict[Path, str]] = {}
    for block in INDEX.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, rest = block.partition("\n")
        entries = _ENTRY.finditer(rest)
        sections[title] = {(DOCS / entry["target"]).resolve(): entry["title"] for entry in entries}
    return sections


def list_subpages(page: Path) -> list[Path]:
    """Return the pages that stand below this one in the navigation, in the order in which it links to them."""
    folders = [DOCS / folder for folder, index in SUBINDEXES.items() if index == page]
    targets = [target for target, _ in read_links(page) if target.suffix == ".md" and target != page]
    return list(dict.fromkeys(target for target in targets if target.parent in folders))


def read_links(page: Path) -> list[tuple[Path, str]]:
    """Return the relative links of a page: (file or folder, anchor); the anchor may be empty."""
    links = []
    for token in _inline_tokens(page):
        address = str(token.attrGet("href") or token.attrGet("src") or "")
        if address and not re.match(r"[a-z][a-z0-9+.-]*:", address):
            path, _, anchor = address.partition("#")
            links.append(((page.parent / path).resolve() if path else page, anchor))
    return links


def read_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site derive them."""
    tokens = _MARKDOWN.parse(page.read_text(encoding="utf-8"))
    anchors: dict[str, int] = {}
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            slug = slugify("".join(token.content for token in inline.children or []))
            anchors[slug] = anchors.get(slug, -1) + 1
            if anchors[slug]:
                anchors[f"{slug}-{anchors[slug]}"] = 0
    return set(anchors)


def slugify(heading: str) -> str:
    """Return a heading's anchor by GitHub's rule."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _inline_tokens(page: Path) -> list[Token]:
    tokens = _MARKDOWN.parse(page.read_text(encoding="utf-8"))
    return [token for block in tokens for token in block.children or []]
