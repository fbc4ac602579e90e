"""A character that was cut in two is shown whole; half of one that never gets its pair is U+FFFD, once (Law 8)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_help import call, folded, messages, response, result, run, say, terminal, think, thoughts, tool

from fewer_cases import count_examples
from semel.acp_stream import CAREFUL, PROFILES, Fold
from semel.acp_stream.surrogate_pairs import scrub_update
from semel.agents.acp.wire import IncomingCall, LineSplitter
from semel.agents.acp.wire import parse_messages as read

HIGH, LOW, SMILE, LOST = "\ud83d", "\ude00", "\U0001f600", "\ufffd"
USAGE = {"sessionUpdate": "usage_update", "used": 1, "size": 2}


def units(text: str) -> list[str]:
    """The text as JavaScript has it: one string for each UTF-16 unit."""
    raw = text.encode("utf-16-le")
    return [raw[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(raw), 2)]


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("mid", ["msg_1", None])
def test_a_pair_over_two_chunks_is_one_character(name: str, mid: str | None) -> None:
    if PROFILES[name].unidentified_is_notice and mid is None:
        return
    updates = [say(f"Smile {HIGH}", mid), say(f"{LOW} end", mid), think(f"so {HIGH}", mid), think(LOW, mid)]
    a_fold, _ = run([*updates, {"_end_turn": True}], PROFILES[name])
    assert [i.text for i in a_fold.items() if i.kind != "turn"] == [f"Smile {SMILE} end", f"so {SMILE}"]


@pytest.mark.parametrize("name", sorted(name for name in PROFILES if PROFILES[name].terminal != "snapshot"))
@pytest.mark.parametrize("key", ["terminal_output", "terminal_output_delta"])
def test_a_pair_over_two_deltas_of_a_terminal_is_one_character(name: str, key: str) -> None:
    updates = [call(), terminal(f"a{HIGH}", key=key), USAGE, terminal(LOW, key=key), result(status="completed")]
    a_fold, _ = run(updates, PROFILES[name])
    assert [i.text for i in a_fold.items() if i.kind == "tool"] == [f"a{SMILE}"]


def test_a_snapshot_that_ends_in_half_a_character_waits_for_nothing() -> None:
    updates = [call(), terminal(f"a{HIGH}"), terminal(f"a{SMILE}b"), result(status="completed")]
    assert tool(folded(updates, PROFILES["claude"]))["output"].startswith("a")
    assert HIGH not in tool(folded(updates, PROFILES["claude"]))["output"]


@pytest.mark.parametrize(
    "after",
    [
        [],
        [say(" b")],
        [say("b", "m2")],
        [call()],
        [{"_end_turn": True}],
        [{"_died": True}],
        [{"_cancel": True}, {"_end_turn": True}],
        [{"_prompt": "next"}],
    ],
)
def test_half_a_character_that_never_gets_its_pair_is_told_once_where_it_stood(after: list[dict[str, Any]]) -> None:
    a_fold, _ = run([say("a "), say(HIGH), *after], CAREFUL)
    texts = [i.text for i in a_fold.items() if i.kind == "message" and i.fields["role"] == "agent"]
    assert "".join(texts).count(LOST) == 1 and texts[0].startswith(f"a {LOST}")


def test_half_a_character_of_a_terminal_stands_before_what_follows() -> None:
    for after in ([terminal("b")], [result(status="completed")], [{"_cancel": True}], [{"_end_turn": True}]):
        shown = tool(folded([call(), terminal(f"a{HIGH}"), *after]))
        assert shown["output"] == f"a{LOST}" + "b" * (after == [terminal("b")])
        assert "late" not in shown


def test_a_half_waits_while_another_stream_speaks() -> None:
    updates = [say(f"a{HIGH}"), think("hm"), USAGE, terminal("x"), say(f"{LOW}b")]
    view = folded([call(), *updates])
    assert "".join(messages(view)) == f"a{SMILE}b" and thoughts(view) == ["hm"]


def test_halves_of_two_calls_do_not_meet() -> None:
    updates = [call("t"), call("u"), terminal(HIGH, "t"), terminal(LOW, "u"), terminal(LOW, "t")]
    view = folded([*updates, {"_end_turn": True}])
    assert (tool(view, "t")["output"], tool(view, "u")["output"]) == (SMILE, LOST)


def test_halves_in_the_wrong_order_or_place_are_no_character() -> None:
    assert messages(folded([say(LOW), say(HIGH), {"_end_turn": True}])) == [LOST * 2]
    assert messages(folded([say(f"{HIGH}x{LOW}")])) == [f"{LOST}x{LOST}"]


def test_a_replay_cut_inside_a_character_is_known_history() -> None:
    live = [{"_prompt": "go"}, say(f"Smile {SMILE} now"), {"_end_turn": True}]
    view = folded([*live, {"_load": True}, say(f"Smile {HIGH}"), say(f"{LOW} now")])
    assert messages(view) == [f"Smile {SMILE} now"]


@given(st.text(st.sampled_from(["a", " ", "\n", SMILE, "\U0001f469", "é"]), max_size=40), st.data())
@settings(max_examples=count_examples(200), deadline=None)
def test_any_text_cut_at_any_unit_is_that_text(text: str, data: st.DataObject) -> None:
    whole = units(text)
    cuts = sorted({0, len(whole), *data.draw(st.lists(st.integers(0, len(whole)), max_size=20))})
    chunks = ["".join(whole[a:b]).encode("utf-16", "surrogatepass") for a, b in itertools.pairwise(cuts)]
    texts = [chunk.decode("utf-16", "surrogatepass") for chunk in chunks]
    profile = data.draw(st.sampled_from(sorted(PROFILES.values(), key=lambda p: p.name)))
    for kind in (say, think):
        a_fold, _ = run([*(kind(each, "msg_1") for each in texts if each), {"_end_turn": True}], profile)
        assert "".join(i.text for i in a_fold.items()) == text


def test_the_wire_keeps_halves_where_text_streams_and_nowhere_else() -> None:
    update = {**say(f"a{HIGH}"), "title": f"b{HIGH}"}
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
    (message,) = read(line.encode())
    assert isinstance(message, IncomingCall)
    kept = message.params["update"]
    assert (kept["content"]["text"], kept["title"]) == (f"a{HIGH}", f"b{LOST}")
    assert scrub_update(result(_meta=response(HIGH)))["_meta"] == response(LOST)


def test_utf8_cut_over_two_reads_is_one_character() -> None:
    update = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": say(f"a{SMILE}b")}}
    line = json.dumps(update, ensure_ascii=False).encode() + b"\n"
    for cut in range(len(line)):
        lines = LineSplitter()
        (whole,) = [*lines.feed(line[:cut]), *lines.feed(line[cut:])]
        (message,) = read(whole)
        assert isinstance(message, IncomingCall)
        a_fold = Fold()
        a_fold.update(message.params["update"])
        assert [i.text for i in a_fold.items()] == [f"a{SMILE}b"]
