"""The demo agent's commands for people: the keywords that a prompt may contain, and the steps of each."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

Steps = list[Any]
CHUNK_DELAY_S = 0.015  # seconds between two chunks of streamed text


def say(text: str, pace: float = CHUNK_DELAY_S) -> Steps:
    """Text streamed a few words at a time."""
    return [{"text": text, "chunks": max(1, len(text) // 14), "delay": pace}]


def send(text: str, then: str, to: str | None = None) -> Steps:
    arguments = {"text": text, **({"to": to} if to else {})}
    return [{"call": "send_message", "arguments": arguments, "meta": "claude"}, *say(then)]


def tool() -> Steps:
    output = [f"counting: {n}\n" for n in range(1, 6)]
    run = {"tool": "count to five", "input": {"command": "seq 5"}, "output": output, "delay": 0.1}
    return [*say("Let me count. "), {**run, "guarded": True}, *say("I counted to five.")]


def think() -> Steps:
    thought = "First I look at the question. Then I weigh what I know. Then I answer."
    return [{"think": thought, "chunks": 6, "delay": 0.05}, *say("I thought about it: the answer is 42.")]


def plan() -> Steps:
    names = ["look at the question", "do the work", "say what came of it"]
    states = [["pending"] * 3, ["completed", "in_progress", "pending"], ["completed"] * 3]
    shown = [{"plan": [list(one) for one in zip(names, state, strict=True)]} for state in states]
    return [shown[0], {"sleep": 0.2}, shown[1], {"sleep": 0.2}, shown[2], *say("All three steps are done.")]


def permission() -> Steps:
    id = f"tidy-{secrets.token_hex(4)}"  # one id: the call that permission is asked for is the one that runs
    return [
        *say("I would like to tidy up. "),
        {
            "permission": "rm -r ./build",
            "id": id,
            "input": {"command": "rm -r ./build"},
            "allowed": [
                {"tool": "rm -r ./build", "id": id, "output": ["removed\n"]},
                *say("Thank you, it is tidy now."),
            ],
            "denied": say("I leave it as it is, then."),
        },
    ]


def long(count: str) -> Steps:
    lines = (f"Line {n} of a long answer.\n" for n in range(1, min(int(count or 200), 100_000) + 1))
    text = "".join(lines)
    return [{"text": text, "chunks": max(1, len(text) // 400)}]


def file(path: str) -> Steps:
    arguments = {"path": path.strip()}
    return [{"call": "send_file", "arguments": arguments, "meta": "claude"}, *say("I sent the file.")]


def react(emoji: str) -> Steps:
    arguments = {"emoji": emoji.strip() or "👍"}
    return [{"call": "add_reaction", "arguments": arguments, "meta": "claude"}, *say("I reacted to it.")]


def ask(text: str) -> Steps:
    question, *options = [part.strip() for part in text.split("|")]
    arguments = {"question": question, "options": options or ["yes", "no"]}
    return [{"call": "ask", "arguments": arguments, "meta": "claude"}, *say("I asked.")]


def send_and_say(text: str) -> Steps:
    sent, _, said = text.partition("|")
    return [*say("On it. "), *send(sent.strip(), said.strip())]


def help_text(_: str = "") -> Steps:
    lines = [f"- `{shown}`: {what}" for shown, what, _, _ in WORDS]
    text = "I am Semel's demo agent: no model, no network. Words I know:\n\n" + "\n".join(lines)
    return say(text + "\n\nAnything else I simply answer.", 0.002)


Word = tuple[str, str, str, Callable[[str], Steps]]
WORDS: list[Word] = [
    ("help", "this list", r"help", help_text),
    (
        "send: TEXT",
        "send TEXT in the middle of the turn, then close with the same text (an echo)",
        r"send:\s*(.+)",
        lambda text: send(text.strip(), text.strip()),
    ),
    (
        "send and say: A | B",
        "send A in the middle of the turn, close with B",
        r"send and say:\s*(.+)",
        send_and_say,
    ),
    ("say: TEXT", "say exactly TEXT", r"say:\s*(.+)", say),
    ("think", "thoughts, then an answer", r"think", lambda _: think()),
    ("tool", "a tool call with terminal output", r"tool", lambda _: tool()),
    ("plan", "a plan that moves on", r"plan", lambda _: plan()),
    ("permission", "ask for a permission", r"permission", lambda _: permission()),
    ("ask: QUESTION | A | B", "ask a person, with choices", r"ask:\s*(.+)", ask),
    ("file PATH", "send a file of the workspace", r"file\s+(\S.*)", file),
    ("react EMOJI", "react to your message", r"react\b\s*(\S*)", react),
    ("long N", "N lines of text", r"long\b\s*(\d*)", long),
    (
        "slow",
        "text for about ten seconds (try to cancel it)",
        r"slow",
        lambda _: [{"text": "One word after the other. " * 12, "chunks": 60, "delay": 0.17}],
    ),
    (
        "die",
        "the process dies in the middle of a sentence",
        r"die",
        lambda _: [*say("I feel a little"), {"die": 9}],
    ),
    (
        "error",
        "the turn fails with an error",
        r"error",
        lambda _: [{"error": {"code": -32603, "message": "Internal error", "data": {"details": "as you asked"}}}],
    ),
]


def steps_for(prompt: str) -> Steps:
    """The steps for the last line that is a command (a "name: " may precede it), else a simple answer."""
    for line in reversed(prompt.strip().splitlines()):
        for _, _, pattern, make in WORDS:
            if found := re.fullmatch(r"(?:[^:]{1,80}:\s+)?" + pattern + r"[.!]?\s*", line.strip(), re.IGNORECASE):
                return make(found.group(1) if found.re.groups else "")
    said = prompt.strip().splitlines()[-1][:300] if prompt.strip() else ""
    if said.startswith("- it was asked: "):
        return say("I was interrupted, and go on from where I was.")
    return say(f"You said: {said}\n\nI am Semel's demo agent. Say `help` to see what I can show.")
