"""Each known agent has a page that says what its profile and its section say."""

from __future__ import annotations

import re
import tomllib

from agent_pages import FOLDER, HAND_WRITTEN, build_pages

from semel.acp_stream.profiles import PROFILES
from semel.agents.known import KNOWN_AGENTS

HAND_MADE = "other.md"


def test_the_pages_are_as_they_would_be_written_now() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md") if path.name != HAND_MADE}
    assert there == build_pages(), "run `python tests/agents/agent_pages.py --write`"


def test_words_are_written_for_every_known_agent_and_for_no_other() -> None:
    assert set(HAND_WRITTEN) == {agent.name for agent in KNOWN_AGENTS}


def test_every_page_has_lines_that_configure_its_agent() -> None:
    for name, page in build_pages().items():
        (lines,) = re.findall(r"```toml\n(.*?)```", page, re.S)
        assert list(tomllib.loads(lines)["agents"]) == [name.removesuffix(".md")]


def test_an_agent_that_decides_by_itself_in_some_modes_has_them_on_its_page() -> None:
    deciding = {name: profile.unattended_modes for name, profile in PROFILES.items() if profile.unattended_modes}
    assert deciding
    pages = build_pages()
    assert [
        (name, mode) for name, modes in deciding.items() for mode in modes if f"`{mode}`" not in pages[f"{name}.md"]
    ] == []
