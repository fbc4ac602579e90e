"""Every recorded trace shows what the model said, with exact texts: in order, nothing twice, nothing lost.

The truth is the script the model played (tests/data/script.json). Where an agent did not put it on the wire, or was
stopped, the expectation says so by name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from stream_truth import (
    SCRIPT,
    answers,
    attempts,
    chunks,
    deltas,
    name_of,
    records,
    said,
    scenarios,
    traces,
    view,
    wire_text,
)

from each_case import for_each
from semel.acp_stream import render_terminal
from semel.acp_stream.notices import RETRY_CAUSES

ALL = {name_of(trace): trace for trace in traces()}
TOOL_RAN = {"shell", "mcp"}
STOPPED_AT_THE_TOOL = {
    *(f"{agent}/{what}" for agent in ("claude", "codex", "codex-zed", "opencode", "hermes")
      for what in ("cancel_perm", "cancel_send", "cancel_tool", "kill_tool")),
    *(f"{agent}/{what}" for agent in ("codex", "codex-zed", "opencode") for what in ("perm_cancelled", "perm_reject")),
}  # fmt: skip
STOPPED_IN_TEXT = {"cancel_text", "cancel_text_load", "kill_text", "kill_send", "kill_before_send"}
NO_MARK = ["No scenario marker; default mock answer."]  # the prompt that the model saw had lost its mark


def told_in_full(*names: str) -> list[str]:
    return [text for name in names for text in answers(name)]


# What an agent put on the wire that is not the script's last attempt, per trace: the texts of its messages.
TOLD: dict[str, list[str]] = {
    "claude/send_deferred": ["On it. ", *answers("send")],  # asked again after it had looked the tool up
    "claude/sse_err_air": [*attempts("sse_err")[0][:1], "Finished."],  # the fallback sends only the rest
    "claude/sse_err_tool": ["Tool first. ", *attempts("sse_err_tool")[1][:1], "Complete."],
    "claude/sse_err_diff": attempts("sse_err_diff")[0],  # the fallback's other wording: both stand
    "codex/sse_err": attempts("sse_err")[0][:1],  # gives up
    "codex/sse_err_diff": attempts("sse_err_diff")[0][:1],
    "codex/sse_err_tool": ["Tool first. ", *attempts("sse_err_tool")[1][:1]],
    "claude/kill_send": told_in_full("plain2", "kill_send", "recall"),  # its orphan finished, and the replay says so
    "codex/long2": NO_MARK,
    "codex-zed/sse_err": attempts("sse_err")[0][:1],
    "codex-zed/e429": [],
    "codex-zed/maxtok": [answers("maxtok")[0] * 6],
    "codex-zed/drop_always": [answers("drop_always")[0] * 6],
    "opencode/drop_always": [answers("drop_always")[0][:32] * 2 + answers("drop_always")[0] * 4],
    "opencode/drop_after_tool": [
        "Tool first. ",
        attempts("drop_after_tool")[1][0][:32] + answers("drop_after_tool")[1],
    ],
    "opencode/drop_tool": [attempts("drop_tool")[0][0], *answers("drop_tool")],  # the aborted call lies between
    "opencode/fin": answers("fin"),  # under another id
    "codex-zed/refuse": ["I can" * 6],  # six attempts glued into one, too short to tell from a text
    "codex-zed/drop_diff": ["".join(attempts("drop_diff")[0])],  # no id, no mark, other words: one text
    "codex-zed/plain_unknown_model": [
        "Model metadata for `gpt-5-codex` not found. Defaulting to fallback metadata; this can degrade performance"
        " and cause issues." + answers("plain")[0]
    ],
    "codex-zed/steer": ["".join(answers("steer") + answers("steer2")), *answers("plain2")],
    "opencode/drop_diff": ["First t" + attempts("drop_diff")[0][1]],  # it swallowed the rest of the first
    "opencode/sse_err_diff": ["".join(attempts("sse_err_diff")[0])],
    "hermes/e400": ["HTTP 400: mock says no"],
    "hermes/e400_air": ["HTTP 400: mock says no"],
    "hermes/e400_load": ["HTTP 400: mock says no", *answers("recall")],
    "hermes/kill_before_send": NO_MARK,
    "hermes/maxtok": [answers("maxtok")[0] * 4],
    "hermes/drop_always": [answers("drop_always")[0] * 4],
}
# Retries without any mark, too short to tell from a text that begins with the same words twice: shown twice.
SHORT_RETRIES = {
    *(f"codex-zed/{name}" for name in ("drop", "drop_load", "drop_tool", "fin")),
    *(f"opencode/{name}" for name in ("drop", "drop_load", "sse_err", "sse_err_tool")),
}
SHORT_THOUGHTS = {"codex-zed/drop_think"}
CONTINUES = {"hermes"}  # a retry goes on: every attempt is part of the answer
PUTS_TWO_NEWLINES_AFTER_A_TOOL = {"hermes"}
PUTS_TWO_NEWLINES_BEFORE_A_THOUGHT = {"codex", "codex-zed"}


def told(name: str) -> list[str]:
    """The messages that count, in order; the end of a stopped one as far as it came."""
    agent, _, what = name.partition("/")
    if name in TOLD:
        return TOLD[name]
    texts: list[str] = []
    for scenario in scenarios(ALL[name]):
        stopped = name in STOPPED_AT_THE_TOOL and scenario in ("perm", "send_slow", "cancel_tool", "kill_tool")
        for number, step in enumerate(SCRIPT[scenario][: 1 if stopped else None]):
            final = "drop_tool" in what and agent in CONTINUES
            each = [said(attempt) for attempt in (step[-1:] if final else step)]
            text = "".join(each) if agent in CONTINUES or name in SHORT_RETRIES else each[-1]
            after_tool = number and any(a[0] in TOOL_RAN for a in SCRIPT[scenario][number - 1][-1])
            if text:
                texts.append("\n\n" * bool(after_tool and agent in PUTS_TWO_NEWLINES_AFTER_A_TOOL) + text)
    if agent == "hermes" and what in ("cancel_perm", "cancel_send", "cancel_tool"):
        texts = texts[:-1]  # the prompt after the cancel is only queued, for ever
    return texts


def shown(name: str, superseded: bool = False) -> list[dict[str, Any]]:
    return [
        o for o in view(name)
        if o["item"] == "message" and o["role"] == "agent" and bool(o.get("superseded")) is superseded
    ]  # fmt: skip


@for_each("name", ALL)
def test_the_messages_are_what_the_model_said(name: str) -> None:
    expected, found = told(name), [o["text"] for o in shown(name)]
    if name.partition("/")[2] not in STOPPED_IN_TEXT or name in TOLD:
        assert found == expected
        return
    (cut,) = [i for i, o in enumerate(shown(name)) if o.get("partial")]
    assert expected[cut].startswith(found[cut]) and found[cut] in chunks(ALL[name])
    after = expected[cut + 1 :] if "kill_before_send" not in name else []
    assert found == [*expected[:cut], found[cut], *after]


@for_each("name", ALL)
def test_every_superseded_message_was_a_failed_start(name: str) -> None:
    possible = [text for scenario in scenarios(ALL[name]) for step in attempts(scenario) for text in step]
    for message in shown(name, superseded=True):
        assert any(text.startswith(message["text"]) for text in possible)


@for_each("name", ALL)
def test_the_prompts_are_shown_once_each(name: str) -> None:
    asked = [
        r["msg"]["params"]["prompt"][0]["text"] for r in records(ALL[name])
        if r["dir"] == "c2a" and r["msg"].get("method") == "session/prompt"
    ]  # fmt: skip
    users = [o["text"] for o in view(name) if o["item"] == "message" and o["role"] == "user"]
    assert sorted(users) == sorted(asked)


@for_each("name", ALL)
def test_the_thoughts_are_what_the_model_thought(name: str) -> None:
    agent = name.partition("/")[0]
    expected: list[str] = []
    for scenario in scenarios(ALL[name]):
        for step in SCRIPT[scenario]:
            each = [said(attempt, "think") for attempt in step]
            newlines = "\n\n" * (agent in PUTS_TWO_NEWLINES_BEFORE_A_THOUGHT)
            again = newlines if name in SHORT_THOUGHTS else ""
            text = again.join(each) if agent in CONTINUES or name in SHORT_THOUGHTS else each[-1]
            if text:
                expected.append(newlines + text)
            expected += [t for t in (said(step[-1], "donethink"),) if t]
            if raw := said(step[-1], "rawthink"):
                expected.append(f"{raw}\n\n{raw} (summary one)\n\n{raw} (summary two)")
    found = [o["text"] for o in view(name) if o["item"] == "thought"]
    assert [t.replace("delta. (", "delta. (") for t in found] == [t.replace(" (", " (") for t in expected]


# ---- tool output

LINES = "".join(f"line {i} of the long output abcdefghijklmnopqrstuvwxyz\n" for i in range(1, 5001))
OUTPUTS = {
    "echo think-tool-output": "think-tool-output\n",
    "perm-done": "perm-done\n",
    "echo ran": "ran\n",
    "tick $i": "".join(f"tick {i}\n" for i in range(1, 21)),
    "seq 1 5000": LINES,
    "caf\\xc3": "a\n```\nfenced\n```\nred café �� end-no-newline",  # its colours are not displayed
    "exit 3": "out-line\nerr-line\n",
    "echo started": "started\n",
}
ENDS_EARLY = {"claude": 30_000, "hermes": 400}  # characters that these agents hand over at most
NOT_RUN = ("Claude stopped this tool call", "Tool execution aborted", "The user", "User refused", "Tool permission",
           "terminal failed: BLOCKED")  # fmt: skip


def truth_of(tool: dict[str, Any]) -> str | None:
    command = str(tool.get("input", "")) + tool["title"]
    return next((output for mark, output in OUTPUTS.items() if mark in command), None)


def tools(name: str) -> list[tuple[dict[str, Any], str]]:
    found = [(o, truth_of(o)) for o in view(name) if o["item"] == "tool"]
    return [(o, truth) for o, truth in found if truth is not None and not o["output"].startswith(NOT_RUN)]


@for_each("name", ALL)
def test_tool_output_is_the_commands_own_as_far_as_it_came(name: str) -> None:
    agent = name.partition("/")[0]
    wire = wire_text(ALL[name])
    for tool, truth in tools(name):
        output = tool["output"].removeprefix("Exit code 3\n")
        if tool["status"] == "cancelled" and tool.get("late"):
            output = output.partition("\n\n<shell_metadata>")[0]
        if agent == "codex":  # it drops what its terminal says fast: what came is shown
            assert output == render_terminal(deltas(ALL[name], tool["id"]))
            continue
        pieces = output.split("...\n\n") if agent == "opencode" else [output]  # where a window was lost
        assert all(piece.rstrip("\n") in truth for piece in pieces), "nothing that the command did not print"
        places = [truth.find(piece.rstrip("\n")) for piece in pieces]
        assert places == sorted(places), "in order"
        if tool["status"] not in ("done",) and not output:
            continue
        cut = ENDS_EARLY.get(agent, len(truth))
        if tool.get("truncated") and len(pieces) == 1 and agent in ENDS_EARLY:
            assert output == truth[:cut]
        lines = truth.splitlines()
        shown_lines = output.splitlines()
        for line in lines if 1 < len(lines) <= 20 else []:
            assert shown_lines.count(line) <= lines.count(line), "nothing twice"
        if len(lines) > 20:
            known = set(lines)
            whole = [line for line in shown_lines if line in known]
            assert len(whole) == len(set(whole)), "nothing twice"
        if len(lines) > 20 and agent != "claude":
            seen = set(shown_lines)
            missing = [line for line in lines if line not in seen and line + "\n" in wire]
            assert not missing, "nothing lost that was on the wire"


def test_traces_with_output_of_commands_are_judged() -> None:
    """All traces are parametrized: every worker of a run would fold each to list those that have such output."""
    assert sum(bool(tools(name)) for name in ALL) == 90


@for_each("name", ALL)
def test_no_call_is_left_open_where_the_turn_was_stopped(name: str) -> None:
    stopped = any(word in name for word in ("cancel_", "kill_"))
    if stopped:
        assert not [o for o in view(name) if o["item"] == "tool" and o["status"] in ("pending", "running")]


@for_each("name", ALL)
def test_every_turn_ends_once(name: str) -> None:
    asked = sum(1 for r in records(ALL[name]) if r["dir"] == "c2a" and r["msg"].get("method") == "session/prompt")
    assert sum(1 for o in view(name) if o["item"] == "turn") == asked


@pytest.mark.parametrize("name", [n for n in ALL if "load" in n or "resume" in n or n.startswith("kill")])
def test_a_replay_shows_nothing_that_was_shown(name: str) -> None:
    again = [o for o in view(name) if o.get("history") and o["item"] != "notice"]
    assert again == []


@pytest.mark.parametrize("name", [n for n in ALL if n.startswith("codex/")])
def test_the_adapters_prose_is_a_notice_where_its_messages_have_ids(name: str) -> None:
    notices = [o["text"] for o in view(name) if o["item"] == "notice"]
    assert any(text.startswith("Warning: Model metadata") for text in notices)


def test_what_claude_says_about_a_failure_is_a_notice() -> None:
    for name in ("claude/e400", "claude/maxtok", "claude/refuse"):
        assert [o for o in view(name) if o["item"] == "notice" and "API Error" in o["text"]]


def test_a_request_that_codex_gave_up_is_a_failed_turn_with_its_reason() -> None:
    """It ends such a prompt as if it were answered; before, it says "systemError", and then why."""
    failed = {
        name: turn["error"]
        for name in ALL if name.startswith("codex/")
        for turn in view(name) if turn["item"] == "turn" and turn.get("error", "the agent died") != "the agent died"
    }  # fmt: skip
    given_up = ("drop_always", "e400", "maxtok", "refuse", "sse_err", "sse_err_diff", "sse_err_tool")
    assert failed.keys() == {f"codex/{name}" for name in given_up}
    assert failed["codex/drop_always"].startswith("stream disconnected before completion: Transport error")
    assert failed["codex/sse_err"] == "Selected model is at capacity. Please try a different model."


def test_a_prompt_that_is_only_queued_is_unanswered() -> None:
    assert [o["queued"] for o in view("hermes/cancel_tool") if o["item"] == "notice"] == [True]


@for_each("name", ALL)
def test_nothing_is_shown_that_was_not_on_the_wire(name: str) -> None:
    calls = [o["id"] for o in view(name) if o["item"] == "tool"]
    wire = "\n".join([wire_text(ALL[name]), chunks(ALL[name]), *(deltas(ALL[name], call) for call in calls)])
    wire += "\n" + re.sub(r"\x1b\[[0-9;]*m", "", wire)  # colours are not displayed
    known = {line.strip() for line in wire.splitlines()} | set(RETRY_CAUSES.values())
    texts = [o.get("output") or o["text"] for o in view(name) if o.get("output") or "text" in o]
    prompts = [text for text in texts if any(f"[[S:{scenario}]]" in text for scenario in scenarios(ALL[name]))]
    lines = {line.strip() for text in texts for line in text.splitlines() if text not in prompts}
    assert [line for line in lines - known if line not in wire] == []


def test_traces_are_all_there() -> None:
    assert len(ALL) == len([p for p in Path(ALL["claude/plain"]).parent.parent.glob("*/*.xz") if ".mcp." not in p.name])
