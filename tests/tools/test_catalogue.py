"""What a model reads about the tools, and what becomes of what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semel.tools.catalogue import TOOLS, TOOLS_BY_NAME, Greeting, check_arguments, list_tools

Json = dict[str, Any]
DOCS = Path(__file__).parents[2] / "docs" / "tools.md"


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("send_message", {"text": "hi"}, {"text": "hi"}),
        ("send_message", {"text": "hi", "to": None}, {"text": "hi"}),
        ("send_message", {"text": "hi", "to": ""}, {"text": "hi"}),
        ("send_message", {"text": " hi\n"}, {"text": " hi\n"}),
        ("send_message", {"text": ""}, {"text": ""}),  # the gateway refuses it, and records that it did
        ("send_message", {"text": 5}, {"text": "5"}),
        ("send_file", {"path": "a.txt", "caption": "look"}, {"path": "a.txt", "text": "look"}),
        ("add_reaction", {"emoji": "👍"}, {"emoji": "👍"}),
        ("add_reaction", {"emoji": "👍", "message": 12}, {"emoji": "👍", "message": "12"}),
        ("edit_message", {"message": 12.0, "text": "x"}, {"message": "12", "text": "x"}),
        ("ask", {"question": "?", "options": ["a", "b"]}, {"question": "?", "options": ["a", "b"]}),
    ],
)
def test_what_a_model_may_write_is_taken(name: str, given: Json, taken: Json) -> None:
    assert check_arguments(name, given) == taken


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("send_message", {}, "needs 'text'"),
        ("send_message", {"text": None}, "needs 'text'"),
        ("send_message", {"message": "hi"}, "no argument 'message'"),
        ("send_message", {"text": "hi", "parse_mode": "html"}, "takes: text, to"),
        ("send_message", {"text": ["hi"]}, "'text' must be a text"),
        ("send_message", {"text": True}, "'text' must be a text"),
        ("send_message", {"text": {"a": 1}}, "'text' must be a text"),
        ("edit_message", {}, "needs 'message' and 'text'"),
        ("ask", {"question": "?"}, "needs 'options'"),
        ("ask", {"question": "?", "options": []}, "a list of at least one text"),
        ("ask", {"question": "?", "options": "a, b"}, "a list of at least one text"),
        ("ask", {"question": "?", "options": ["a", 1]}, "a list of at least one text"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence_that_says_what_to_change(name: str, given: Json, said: str) -> None:
    told = check_arguments(name, given)
    assert isinstance(told, str)
    assert said in told
    assert told.endswith("Nothing was done.")


def test_the_closing_text_and_the_answers_are_explained_where_the_model_reads_them() -> None:
    words = TOOLS_BY_NAME["send_message"].description
    for part in ("NOW", "closing text", "delivered too", "'already said'", "do not send it again"):
        assert part in words


def test_the_names_that_can_be_reached_stand_in_the_tool_itself() -> None:
    def to(greeting: Greeting) -> str:
        words: str = list_tools(greeting)[0]["inputSchema"]["properties"]["to"]["description"]
        return words

    assert "ops, team" in to(Greeting(destinations=("ops", "team")))
    assert "one of" not in to(Greeting())
    assert "needed" in to(Greeting(has_home=False, destinations=("ops",)))


def test_the_documentation_names_every_tool_and_argument() -> None:
    text = DOCS.read_text()
    for tool in TOOLS:
        section = text.partition(f"## {tool.name}\n")[2].partition("\n## ")[0]
        assert section, f"docs/tools.md has no section {tool.name}"
        for argument in tool.arguments:
            assert f"`{argument}`" in section, f"docs/tools.md, {tool.name}: {argument} is not described"
        assert set(TOOLS_BY_NAME[tool.name].required) <= set(tool.arguments)
