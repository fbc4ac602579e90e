"""What an editor shows of every recorded agent, through `semel acp --alone`: what `semel fold` shows, once."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from acp_schema import SchemaCheck
from editor_help import CAPABILITIES, NAMES, connections, failed_starts_in, folded, line_of, played, say, texts_of
from model_editor import Call

from each_case import for_each
from semel.acp_stream import ViewItem, render_terminal
from semel.faces.acp.updates.call_writer import FINAL_LIMITS
from semel.faces.acp.updates.line_writer import BEGAN_AGAIN_REMARK

KINDS = (("message", "agent"), ("thought", "thought"))
ON_THE_WIRE = {"done": "completed", "failed": "failed", "cancelled": "failed"}


@pytest.mark.long
@for_each("name, client", list(product(NAMES, ("test", "acpx"))))
def test_each_message_adds_up_to_what_semel_fold_shows(name: str, client: str) -> None:
    """acpx joins messages: there, an empty line stands between two that follow each other."""
    for player, view in zip(played(name, "content", client), folded(name), strict=True):
        for session, items in view.items():
            shown = player.editor.sessions.get(session)
            for kind, role in KINDS:
                texts = shown.texts(role) if shown else []
                extra = _remove_in_order(texts, texts_of(items, kind))
                assert not extra - Counter(_may_be_extra(items, kind)), name


def _remove_in_order(texts: list[str], expected: list[str]) -> Counter[str]:
    """Return the texts that are left when the expected ones, all of them in order, are taken out."""
    rest, waiting = [], list(expected)
    for text in texts:
        if waiting and text == waiting[0]:
            waiting.pop(0)
        else:
            rest.append(text)
    assert not waiting
    return Counter(rest)


def _may_be_extra(items: list[ViewItem], kind: str) -> list[str]:
    """What may stand beside the messages: notices, and failed starts that nobody could take back."""
    failed_starts = failed_starts_in(items, kind)
    notices = [item.text for item in items if item.kind == "notice"] if kind == "message" else []
    return failed_starts + notices + [BEGAN_AGAIN_REMARK] * len(failed_starts)


@pytest.mark.parametrize("name", ["codex/drop", "codex/drop_always", "codex/fin", "claude/drop", "claude/drop_tool"])
def test_a_failed_start_is_continued_and_not_shown_twice(name: str) -> None:
    (player,), (view,) = played(name, "content"), folded(name)
    ((session, items),) = view.items()
    assert failed_starts_in(items, "message"), "the trace has no failed start"
    texts = player.editor.sessions[session].texts()
    assert [text for text in texts if text in texts_of(items, "message")] == texts_of(items, "message")
    assert not set(texts) & (set(failed_starts_in(items, "message")) - set(texts_of(items, "message")))


@for_each("name, capability", list(product(NAMES, ("content", "terminals"))))
def test_tool_calls_end_as_in_the_view_with_their_output(name: str, capability: str) -> None:
    for player, view in zip(played(name, capability), folded(name), strict=True):
        for session, items in view.items():
            shown = player.editor.sessions.get(session)
            calls = shown.calls if shown else {}
            for item in items:
                if item.kind == "tool" and (item.fields["call"] in calls or not _is_only_requested(item)):
                    _check_call(calls[item.fields["call"]], item, capability == "terminals")


def _is_only_requested(item: ViewItem) -> bool:
    """Whether the call is known from its permission request alone: the editor has it from there."""
    return item.fields["status"] == "cancelled" and not item.text


def _check_call(call: Call, item: ViewItem, has_terminals: bool) -> None:
    if item.fields["status"] in ON_THE_WIRE:
        assert call.fields["status"] == ON_THE_WIRE[item.fields["status"]]
    output = item.text
    if not output:
        return  # the content may describe the call
    if has_terminals and call.terminal:
        assert call.terminal == output
        return
    head, tail = FINAL_LIMITS.head or 0, FINAL_LIMITS.tail
    if len(output) > head + tail and len(call.text) < len(output):
        output = f"{output[:head]}\n[{len(output) - head - tail} characters not shown]\n{output[-tail:]}"
    shown = call.text.rstrip()
    assert shown.startswith(render_terminal(output).rstrip())
    assert "truncated" in item.fields or shown == render_terminal(output).rstrip()
    if len(item.text) > 20_000:
        assert call.sent <= 3 * len(item.text)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_nothing_breaks_the_schema(capability: str) -> None:
    check = SchemaCheck()
    for name in NAMES:
        for player in played(name, capability):
            for line in player.out:
                check.check(line)
    assert check.checked > 10_000
    assert check.violations == []


def test_the_schema_check_sees_a_violation() -> None:
    check = SchemaCheck()
    check.check(line_of(say("fine", "m")))
    assert not check.violations
    check.check(line_of(say(7, "m")))
    assert check.violations


@for_each("name", NAMES)
def test_what_is_no_message_and_no_tool_call_passes_byte_for_byte_in_order(name: str) -> None:
    for player, records in zip(played(name, "content"), connections(name), strict=True):
        said = [record["msg"] for record in records if record["dir"] == "a2c"]
        lines = [line_of(message) for message in said if not _is_folded(message)]
        assert [line for line in player.out if line in set(lines)] == lines


def _is_folded(message: dict[str, object]) -> bool:
    params = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    kind = update["sessionUpdate"] if isinstance(update, dict) else ""
    return kind.endswith("_chunk") or kind in ("tool_call", "tool_call_update")
