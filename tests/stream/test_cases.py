"""Every sequence seen in the field shows what a person must see (tests/data/stream_cases.json)."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from stream_help import run
from stream_truth import DATA

from semel.acp_stream import CAREFUL, View, fold

CASES: list[dict[str, Any]] = json.loads((DATA / "stream_cases.json").read_text())


def shown(view: View, key: str) -> Any:
    kind, _, name = key.partition(":")
    objects = list(view.json())
    if kind in ("tool", "status", "exit", "command"):
        found = next(o for o in objects if o["item"] == "tool" and o["id"] == name)
        return found["input"]["command"] if kind == "command" else found.get({"tool": "output"}.get(kind, kind))
    if kind in ("used", "size", "percent"):
        return next(o for o in objects if o["item"] == "usage")[kind]
    role, item = ("user", "message") if kind == "user" else ("agent", kind)
    counting = [o for o in objects if o["item"] == item and o.get("role", role) == role and not o.get("superseded")]
    return [o["text"] for o in counting]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_a_person_must_see(case: dict[str, Any]) -> None:
    view = fold(case["updates"])
    for key, expected in case["expected"].items():
        if key == "_after_second_load":
            continue
        found = shown(view, key)
        assert found == (expected if not isinstance(found, list) or isinstance(expected, list) else [expected]), key


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_operations_add_up_to_the_items(case: dict[str, Any]) -> None:
    run([u for u in case["updates"] if "_load" not in u], CAREFUL)


def test_a_second_load_of_the_same_history_shows_nothing_new() -> None:
    case = next(case for case in CASES if "_after_second_load" in case["expected"])
    once = list(fold(case["updates"]).json())
    twice = list(fold([*case["updates"], {"_prompt": "go"}, {"_end_turn": True}, *case["updates"]]).json())
    assert [o for o in twice if o.get("text") != "go" and o["item"] != "turn"] == once


@pytest.mark.parametrize("text", ["trace.jsonl", b"{}", Path("trace.jsonl")])
def test_a_text_in_place_of_lines_is_refused(text: Any) -> None:
    with pytest.raises(TypeError, match=r"give it open\(path\)"):
        fold(text)


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (5, "not of type int: give it open"),
        (None, "not None: give it open"),
        ({"sessionUpdate": "plan", "entries": []}, "not one: give it a list"),
        ([{"_prompt": "hi"}, 5], "element 2 of the stream is of type int"),
        (["{}", None], "element 2 of the stream is None"),
    ],
)
def test_what_is_no_stream_is_refused_in_words(stream: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        fold(stream)


def test_any_mapping_is_an_update() -> None:
    said = MappingProxyType({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hello."}})
    assert fold([said]).texts() == ["Hello."]


def test_a_name_that_fits_no_profile_is_an_error_and_not_the_careful_profile() -> None:
    with pytest.raises(ValueError, match=r"no agent profile fits 'nosuch'\. Known: .*careful, claude"):
        fold([], "nosuch")
    assert list(fold([], "careful").json()) == list(fold([], "Claude Code").json()) == []
