"""What the terminal completes: commands after "/", files of the workspace after "@"."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.faces.terminal.completion import Candidate, complete, list_commands, write_blocks
from semel.faces.terminal.workspace_files import list_files
from semel.text.content_blocks import describe_blocks, name_mentions

SESSION = {
    "commands": [
        {"name": "review", "description": "Review\nthe changes", "input": {"hint": "what"}},
        {"name": "status"},
        {"name": "", "input": 7},
        None,
    ]
}
FILES = ["README.md", "src/main.py", "src/my notes.txt", "tests/test_main.py"]


def offered(line: str, column: int | None = None, row: int = 0) -> list[str]:
    at = len(line) if column is None else column
    completion = complete(line, row, at, list_commands(SESSION), FILES)
    return [one.text for one in completion.candidates] if completion else []


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("/st", ["/stop", "/status", "/steer", "/history", "//status"]),
        ("/mode", ["/mode", "/model"]),
        ("/rev", ["/review"]),
        ("//st", ["//status", "/stop", "/status", "/steer", "/history"]),
        ("/etc/hosts", []),
        ("/stop now", []),
        ("say /st", []),
    ],
)
def test_commands_of_gateway_and_agent_are_offered_in_the_first_word(line: str, texts: list[str]) -> None:
    assert offered(line) == texts
    assert offered(line, row=1) == []


def test_a_command_says_what_it_takes_and_means() -> None:
    commands = {one.text: one for one in list_commands(SESSION)}
    assert commands["/review"] == Candidate("/review", "Review the changes", "/review [what]")
    assert commands["/queue"].usage == "/queue [TEXT]"


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("look at @main", ["@src/main.py", "@tests/test_main.py"]),
        ("(@READ", ["@README.md"]),
        ("@notes", ['@"src/my notes.txt"']),
        ('@"my n', ['@"src/my notes.txt"']),
        ("ann@src", []),
        ("@none", []),
    ],
)
def test_files_are_offered_after_a_word_that_begins_with_an_at_sign(line: str, texts: list[str]) -> None:
    assert offered(line) == texts
    assert offered(f"{line} x", len(line)) == texts


def test_a_mentioned_file_is_sent_as_a_link_and_other_words_stay(tmp_path: Path) -> None:
    text = 'Compare (@README.md), @"src/my notes.txt" and @ann\nwith @src/main.py.'
    blocks = write_blocks(text, tmp_path, FILES)
    assert blocks is not None
    links = [block for block in blocks if block["type"] == "resource_link"]
    assert [link["name"] for link in links] == ["README.md", "src/my notes.txt", "src/main.py"]
    assert links[1]["uri"] == f"{tmp_path.as_uri()}/src/my%20notes.txt"
    seen = name_mentions(*describe_blocks(blocks))
    assert seen == "Compare (README.md), src/my notes.txt and @ann\nwith src/main.py."
    assert write_blocks("@none of them, ann@README.md", tmp_path, FILES) is None


def test_the_files_of_a_workspace_are_listed_without_what_tools_fill(tmp_path: Path) -> None:
    for path in ("b.txt", "a/c.txt", "a/d/e.txt", ".git/config", "node_modules/x.js", "a/.hidden"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list_files(tmp_path) == ["b.txt", "a/c.txt", "a/d/e.txt"]
    assert list_files(tmp_path / "gone") == []
