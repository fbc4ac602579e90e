"""Where real agents' histories differ from what people were shown (Laws 6, 8, 9): exactly there, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stream_truth import records, text_of, traces

from semel.acp_stream import CAREFUL, WHOLE, ConnectionFolder, Fold, Profile
from semel.law.memory_diff import Difference, RecordedMessage, find_difference, quote_text

KILLED = "Kill text begins. "
CLOSING = "slow closing after the send. "
CANCELLED = "Long text to be cancelled. "
LACKS = {
    ("claude", "kill_text"): KILLED,
    ("codex", "kill_text"): KILLED,
    ("hermes", "kill_text"): KILLED,
    ("opencode", "kill_text"): KILLED,
    ("codex", "cancel_text_load"): CANCELLED,
    ("codex-zed", "cancel_text_load"): CANCELLED,
    ("codex-zed", "kill_send"): CLOSING,
    ("hermes", "kill_send"): CLOSING,
    ("opencode", "kill_send"): CLOSING,
    ("hermes", "e400_load"): "HTTP 400",
}
EXTRA = {("claude", "kill_send"): CLOSING}  # what was left of the dead agent went on, and nobody saw it


def wire(lines: list[dict[str, Any]], profile: Profile | None = None) -> ConnectionFolder:
    one = ConnectionFolder(profile, WHOLE)
    for line in lines:
        {"c2a": one.fold_sent, "a2c": one.fold_received, "note": one.fold_note}.get(line["dir"], lambda _: [])(
            line["msg"]
        )
    return one


def loaded() -> list[Path]:
    written = (p for p in traces() if '"session/load"' in text_of(p))
    return [p for p in written if any(_asks(line, "session/load") for line in records(p))]


def _asks(line: dict[str, Any], method: str) -> bool:
    return line["dir"] == "c2a" and isinstance(line["msg"], dict) and line["msg"].get("method") == method


@pytest.mark.parametrize("path", loaded(), ids=lambda p: f"{p.parent.name}-{p.name.split('.')[0]}")
def test_the_difference_between_record_and_history_is_what_a_kill_or_a_cancel_made(path: Path) -> None:
    lines = list(records(path))
    load = next(n for n, line in enumerate(lines) if _asks(line, "session/load"))
    later = (n for n in range(load, len(lines)) if _asks(lines[n], "session/prompt"))
    before = wire(lines[:load])
    after = wire(lines[load : next(later, len(lines))], before.profile)
    (live, *_), (again, *_) = before.folds.values(), after.folds.values()
    again.settle()
    shown = [
        RecordedMessage(i.id, i.fields["role"], i.text, needed=not i.fields.get("superseded"))
        for i in live.items()
        if i.kind == "message"
    ]
    found = find_difference(shown, list(again.items()))
    which = (path.parent.name, path.name.split(".")[0])
    assert [LACKS.get(which, "nothing") in one.text for one in found.lacks] == [True] * (which in LACKS)
    assert [EXTRA.get(which, "nothing") in text for text in found.extra] == [True] * (which in EXTRA)


def history(*messages: tuple[str, str], tools: tuple[Any, ...] = ()) -> list[Any]:
    fold = Fold(CAREFUL)
    for n, (role, text) in enumerate(messages):
        kind = "user_message_chunk" if role == "user" else "agent_message_chunk"
        content = {"type": "text", "text": text}
        fold.update({"sessionUpdate": kind, "content": content, "messageId": f"m{n}"}, replay=True)
    for n, given in enumerate(tools):
        fold.update(
            {"sessionUpdate": "tool_call", "toolCallId": f"t{n}", "title": "send", "rawInput": given}, replay=True
        )
    fold.settle()
    return list(fold.items())


def rec(*messages: tuple[str, str]) -> list[RecordedMessage]:
    return [RecordedMessage(n, role, text) for n, (role, text) in enumerate(messages)]  # type: ignore[arg-type]


def test_nothing_differs_where_the_words_are_the_same() -> None:
    record = rec(("user", "hi"), ("agent", "Hello  there."), ("agent", "And more."))
    assert not find_difference(record, history(("user", "hi"), ("agent", "Hello there.\n\nAnd more.")))


def test_a_message_that_a_tool_sent_is_remembered_as_its_call() -> None:
    record = rec(("user", "hi"), ("agent", "Report ready."))
    assert not find_difference(record, history(("user", "hi"), tools=({"text": "Report ready."},)))
    assert not find_difference(record, history(("user", "hi"), tools=('{"arguments": {"text": "Report ready."}}',)))


def test_two_equal_messages_need_two_memories() -> None:
    record = rec(("user", "hi"), ("agent", "ha"), ("agent", "ha"))
    assert [one.seq for one in find_difference(record, history(("user", "hi"), ("agent", "ha"))).lacks] == [2]


def test_what_was_never_delivered_is_extra_and_what_stays_inside_is_not() -> None:
    said = history(("user", "hi"), ("agent", "<internal>plan</internal>Hello."), ("agent", "Unsent words, many."))
    assert find_difference(rec(("user", "hi"), ("agent", "Hello.")), said, ["mail"]).extra == ("Unsent words, many.",)


def test_an_echo_is_recorded_once_and_remembered_twice() -> None:
    said = history(("user", "hi"), ("agent", "Report ready."), tools=({"text": "Report ready."},))
    assert not find_difference(rec(("user", "hi"), ("agent", "Report ready.")), said)


def test_a_quiet_word_is_no_message() -> None:
    assert not find_difference(rec(("user", "hi")), history(("user", "hi"), ("agent", "NO_REPLY")))


def test_a_difference_that_was_told_is_none_any_more() -> None:
    text = 'It\'s "partly" said,\nand then cut. ' * 3
    notes = f"[semel: notes]\n- the person was shown this, and your memory lacks it: {quote_text(text)}\n[/semel]\nnext"
    assert find_difference(rec(("agent", text)), history(("user", "hi"))) == Difference(tuple(rec(("agent", text))))
    assert not find_difference(rec(("agent", text)), history(("user", notes)))


def test_what_is_older_than_the_record_reaches_is_not_extra() -> None:
    said = history(("agent", "Long, long ago."), ("agent", "Now."), ("agent", "Nobody saw this."))
    assert find_difference(rec(("agent", "Now.")), said, is_whole_chapter=False).extra == ("Nobody saw this.",)
    assert find_difference(rec(("agent", "Now.")), said).extra == ("Long, long ago.", "Nobody saw this.")
