"""Random and mutated streams never raise, never grow beyond bounds, never make text up."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_truth import DATA, name_of, records, strings, traces

from fewer_cases import count_examples
from proof.fuzz.targets.stream import check, check_honest, check_wire
from semel.acp_stream import ConnectionFolder, Fold, profile_for
from semel.acp_stream.view import RecordedStreamReader

KEPT = sorted((DATA / "fuzz").glob("*"))


@given(st.binary(max_size=600))
@settings(max_examples=count_examples(600), deadline=None)
def test_any_stream_is_folded(data: bytes) -> None:
    check(data)


@given(st.binary(max_size=120))
@settings(max_examples=count_examples(400), deadline=None)
def test_any_words_that_repeat_are_that_message(data: bytes) -> None:
    check_honest(data)


@given(st.binary(max_size=300))
@settings(max_examples=count_examples(200), deadline=None)
def test_any_messages_are_read(data: bytes) -> None:
    check_wire(data)


@pytest.mark.parametrize("case", KEPT, ids=[case.name for case in KEPT])
def test_what_the_fuzzer_found_is_folded(case: Path) -> None:
    check(case.read_bytes())
    check_wire(case.read_bytes())


def mutated(chance: random.Random, value: Any) -> Any:
    """The same JSON with something wrong in it, here and there."""
    if chance.random() < 0.02:
        return chance.choice([None, "", 0, [], {}, "x", -1, True, [[]], {"type": "text"}])
    if isinstance(value, dict):
        return {k: mutated(chance, v) for k, v in value.items() if chance.random() > 0.01}
    if isinstance(value, list):
        return [mutated(chance, each) for each in value]
    return value


@pytest.mark.parametrize("trace", [t for t in traces() if t.stat().st_size < 12_000][::9], ids=name_of)
def test_a_mutated_trace_is_read(trace: Path) -> None:
    chance = random.Random(name_of(trace))
    for _ in range(4):
        kept = [r for r in records(trace) if chance.random() > 0.05]
        if chance.random() < 0.5:
            at = chance.randrange(len(kept))
            kept[at : at + 20] = reversed(kept[at : at + 20])
        reader = RecordedStreamReader(ConnectionFolder())
        for record in kept:
            reader.read({**record, "msg": mutated(chance, record["msg"])})
        wire = frozenset("".join(strings(kept)))
        for shown in reader.build_view().json():
            text = shown.get("output") or shown.get("text") or ""
            assert set(text) <= wire | set("\nx")
            json.dumps(shown)


@pytest.mark.parametrize("name", ["claude", "codex", "codex-zed", "opencode", "hermes"])
def test_a_trace_folds_the_same_however_it_is_read(name: str) -> None:
    """By another agent's profile it may show more, but it never raises and never loses the answer."""
    trace = next(t for t in traces() if name_of(t) == f"{name}/plain")
    for other in ("claude", "gemini", "qwen", "kimi", "vibe", "fast-agent", "pi", "openclaw", ""):
        if other == "claude" and name == "codex":
            continue
        reader = RecordedStreamReader(ConnectionFolder(profile_for(other)))
        for record in records(trace):
            reader.read(record)
        assert any("Sentence number 20" in text for text in reader.build_view().texts())


def test_a_fold_says_what_it_holds() -> None:
    a_fold = Fold()
    assert repr(a_fold) == "<Fold careful: 0 items, 0 calls unfinished>"


@pytest.mark.parametrize("key", ["rawInput", "rawOutput", "content", "_meta", "title"])
@pytest.mark.parametrize("shape", ["[", '{"content":', '{"toolResponse":{"content":'])
def test_json_nested_a_thousand_deep_says_nothing(key: str, shape: str) -> None:
    depth = 300 if "toolResponse" in shape else 900
    close = {"[": "]", "{": "}"}
    deep = json.loads(shape * depth + "1" + "".join(close[c] for c in reversed(shape * depth) if c in close))
    for replay in (False, True):
        a_fold = Fold()
        for _ in range(2):
            a_fold.update({"sessionUpdate": "tool_call", "toolCallId": "t", key: deep}, replay)
        a_fold.settle()
    ConnectionFolder().fold_received([[[{"method": "session/update", "params": {"update": deep}}]]])
