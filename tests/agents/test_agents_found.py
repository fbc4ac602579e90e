"""Agents found on PATH are named with the lines that would use each, and never started."""

from __future__ import annotations

import tomllib
from pathlib import Path

from known_table import DOC, written

from semel.agents.known import KNOWN_AGENTS, find_agents_on_path, find_agents_without_adapter


def test_agents_on_path_are_named_with_lines_that_are_toml_and_nothing_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in ("claude-agent-acp", "opencode", "codex-acp", "unrelated"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "gemini").write_text("not executable")
    found = find_agents_on_path(str(tmp_path))
    assert [(one["name"], one["command"]) for one in found] == [
        ("claude", ["claude-agent-acp"]),
        ("codex", ["codex-acp"]),
        ("opencode", ["opencode", "acp"]),
    ]
    agents = tomllib.loads("\n\n".join(one["line"] for one in found))["agents"]
    assert agents["opencode"] == {"kind": "acp", "command": ["opencode", "acp"]}
    assert agents["claude"]["env"] == {"ENABLE_TOOL_SEARCH": "false"}
    assert not ran.exists()


def test_an_empty_path_finds_nobody(tmp_path: Path) -> None:
    assert find_agents_on_path(str(tmp_path)) == []


def test_a_program_that_needs_an_adapter_is_found_as_long_as_the_adapter_is_not(tmp_path: Path) -> None:
    for name in ("claude", "codex", "codex-acp"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert [agent.name for agent in find_agents_without_adapter(str(tmp_path))] == ["claude"]


def test_the_page_names_every_known_agent_and_how_it_is_installed() -> None:
    text = DOC.read_text(encoding="utf-8")
    assert text == written(text)
    assert all(f"| [`{agent.name}`](agents/{agent.name}.md) |" in text for agent in KNOWN_AGENTS)
