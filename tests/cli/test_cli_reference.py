"""docs/cli.md says what the help of each command says."""

from __future__ import annotations

from cli_reference import DOC, all_commands, written


def test_the_page_describes_every_command_as_its_help_does() -> None:
    page = DOC.read_text(encoding="utf-8")
    assert page == written(page), "run: python tests/cli/cli_reference.py --write"
    assert [path for path in all_commands() if f"### `{path}" not in page] == []
