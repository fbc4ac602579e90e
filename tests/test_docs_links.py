"""Every page is found from the index, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.docs_pages import DOCS, INDEX, ROOT, SUBINDEXES, list_subpages, read_anchors, read_links, read_navigation

PAGES = sorted((*ROOT.glob("*.md"), *DOCS.rglob("*.md")))
DECISIONS = sorted(set((DOCS / "decisions").glob("*.md")) - {SUBINDEXES["decisions"]})


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def test_every_link_leads_to_a_file_and_to_a_heading_of_it() -> None:
    anchors = {page: read_anchors(page) for page in PAGES}
    links = [(page, target, anchor) for page in PAGES for target, anchor in read_links(page)]
    assert len(links) > 300
    broken = [
        f"{name(page)} -> {name(target)}#{anchor}"
        for page, target, anchor in links
        if not target.is_file() or (anchor and anchor not in anchors.get(target, set()))
    ]
    assert broken == []


def test_every_page_stands_in_the_index_once() -> None:
    listed = [page for pages in read_navigation().values() for page in pages]
    listed += [page for index in SUBINDEXES.values() for page in list_subpages(index)]
    pages = sorted(name(page) for page in {*PAGES} - {INDEX})
    assert sorted(map(name, listed)) == pages, "add the page to docs/README.md, or to the page that lists its folder"


def test_the_index_leads_from_the_start_to_how_it_works_by_questions() -> None:
    sections = ["Start", "Use", "Channels", "Operate", "Build", "Reference", "How it works"]
    assert list(read_navigation()) == sections
    entries = re.findall(r"^- (.*)", INDEX.read_text(encoding="utf-8"), re.M)
    assert len(entries) == sum(map(len, read_navigation().values()))
    assert [entry for entry in entries if not entry.endswith("?") or len(entry) > 118] == []


def test_every_decision_is_listed_by_its_title_and_linked_from_a_page_that_rests_on_it() -> None:
    index = SUBINDEXES["decisions"]
    titles = dict(re.findall(r"^- \[(.*)\]\((.*)\)", index.read_text(encoding="utf-8"), re.M))
    written = {path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "): path.name for path in DECISIONS}
    assert titles == written
    others = {*PAGES} - {index, *DECISIONS, ROOT / "CHANGELOG.md"}
    linked = {target for page in others for target, _ in read_links(page)}
    assert [name(path) for path in DECISIONS if path not in linked] == []
