"""The paths a turn can take, as a table: what happens in the agent, what a person does, and what must be there then.

`acp` is what the scripted agent does (steps, or attempts), `model` what the model's API answers. `shown` is the
transcript behind the person's message (`judge`); `last` and `all` are what a chat receives that
gets closing texts, or all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from model_server import Answer

Json = dict[str, Any]

LOOK: Json = {"tool": "look", "output": ["seen\n"]}
LIST = ("list", {})
SLOW: Json = {"tool": "build", "output": ["a", "b"], "delay": 60}
SHELL = ("shell", {"command": "echo a; sleep 60"})
ASK: Json = {"permission": "rm -r build", "allowed": ["Tidy."], "denied": ["Left."]}
HANG: Json = {"hang": True}
FAILED = "notice turn.failed: The agent's turn failed: "
RETRY = "notice retry: The agent's turn failed: "
STOPPED = "notice turn.cancelled: Stopped by "
TOLD_STOPPED = "Stopped by "  # in the chat, too: a face stopped it
ASKED = "The agent asks for permission: "
WITHDRAWN = "Withdrawn: "
SAID = FAILED.partition(": ")[2]  # as a chat gets it


def error(message: str) -> Json:
    return {"error": {"code": -32603, "message": message}}


def send(text: str) -> Json:
    return {"call": "send_message", "arguments": {"text": text}}


def sends(text: str) -> tuple[str, Json]:
    return ("send_message", {"text": text})


def held(*chunks: str) -> Answer:
    """A stream that stops after its first piece, and never goes on."""
    return Answer(list(chunks), gate=asyncio.Event())


@dataclass(frozen=True)
class Way:
    """One path. `does`: what the person does once `sees` is to be seen."""

    name: str
    acp: Sequence[Any]
    model: Sequence[Json]  # arguments of Answer: made anew for each walk
    shown: Sequence[str]
    last: Sequence[str]
    all: Sequence[str]
    attempts: int = 1
    resume: Sequence[Any] = ()  # what the scripted agent does where its turn goes on
    permissions: str = "allow"
    sees: str = ""
    does: Literal["", "stop", "interrupt"] = ""

    def __str__(self) -> str:
        return self.name

    def answers(self) -> list[Answer]:
        return [held(*one["held"]) if "held" in one else Answer(**one) for one in self.model]


def way(name: str, acp: Sequence[Any], model: Sequence[Json], shown: Sequence[str], **more: Any) -> Way:
    """`last`, where it is not told, is the last thing said; `all`, where it is not, what `shown` says was said."""
    said = [row.partition(": ")[2] for row in shown if _delivered(row)]
    more.setdefault("all", said)
    more.setdefault("last", said)
    return Way(name, acp, model, shown, **more)


def _delivered(row: str) -> bool:
    return not row.startswith(("notice retry", "notice turn.cancelled"))


CUTS = {
    "reset": "socket hang up (ECONNRESET)",
    "close": "stream ended before it was complete",
    "event": "529 Overloaded",
}

NORMAL = [
    way("normal", ["The answer."], [{"chunks": ["The ", "answer."]}], ["agent: The answer."]),
    way(
        "text, then an empty final message",
        ["Let me see.", LOOK, {"text": ""}],
        [{"chunks": ["Let me see."], "calls": [LIST]}, {}],
        ["agent: Let me see."],
    ),
    way(
        "text, then a thought and nothing else",
        ["Let me see.", LOOK, {"think": "Hm."}],
        [{"chunks": ["Let me see."], "calls": [LIST]}, {"thought": "Hm."}],
        ["agent: Let me see."],
    ),
    way(
        "text, a tool, text",
        ["Let me see.", LOOK, "Seen."],
        [{"chunks": ["Let me see."], "calls": [LIST]}, {"chunks": ["Seen."]}],
        ["agent: Let me see.", "agent: Seen."],
        last=["Seen."],
    ),
    way(
        "a send, then its echo",
        [send("It is done."), "It is done."],
        [{"calls": [sends("It is done.")]}, {"chunks": ["It is ", "done."]}],
        ["sent: It is done."],
    ),
    way(
        "a send, then other words",
        [send("On it."), "Done."],
        [{"calls": [sends("On it.")]}, {"chunks": ["Done."]}],
        ["sent: On it.", "agent: Done."],
    ),
    way(
        "nothing at all",
        [],
        [{}],
        ["notice turn.empty: The agent ended its turn without a word."],
    ),
    way(
        "nothing but a tool",
        [LOOK],
        [{"calls": [LIST]}, {}],
        ["notice turn.empty: The agent ended its turn without a word."],
    ),
    way(
        "nothing but a thought",
        [{"think": "Hm."}],
        [{"thought": "Hm."}],
        ["notice turn.empty: The agent ended its turn without a word."],
    ),
    way(
        "nothing but blanks",
        [{"text": " \n", "chunks": 1}],
        [{"chunks": [" \n"]}],
        ["notice turn.empty: The agent ended its turn without a word."],
    ),
    way(
        "cut at the token limit",
        ["So far", {"stop": "max_tokens"}],
        [{"chunks": ["So far"], "stop": "length"}],
        ["agent: So far", "notice turn.max_tokens: The answer was cut off at the model's token limit."],
    ),
    way(
        "a refusal after text",
        ["Well,", {"stop": "refusal"}],
        [{"chunks": ["Well,"], "stop": "filter"}],
        ["agent: Well,", "notice turn.refusal: The model refused to continue."],
    ),
    way(
        "a refusal",
        [{"stop": "refusal"}],
        [{"stop": "filter"}],
        ["notice turn.refusal: The model refused to continue."],
    ),
]

FAILING = [
    *(
        way(
            f"a stream cut by {cut}, before its first word",
            [error(message)],
            [{"cut": cut}],
            [FAILED],
        )
        for cut, message in CUTS.items()
    ),
    *(
        way(
            f"a stream cut by {cut}, after its first words",
            [{"text": "Half of ", "chunks": 1}, error(message)],
            [{"chunks": ["Half of "], "cut": cut}],
            ["agent partial: Half of ", FAILED],
        )
        for cut, message in CUTS.items()
    ),
    way(
        "text, a tool, then failure",
        ["Let me see.", LOOK, error("400 invalid_request_error")],
        [{"chunks": ["Let me see."], "calls": [LIST]}, {"status": 400}],
        ["agent: Let me see.", FAILED],
    ),
    way(
        "a send, then failure",
        [send("On it."), error("400 invalid_request_error")],
        [{"calls": [sends("On it.")]}, {"status": 400}],
        ["sent: On it.", FAILED],
    ),
    way(
        "a context that overflows",
        [error("context window exceeded: 200001 tokens")],
        [{"status": 400, "body": {"error": {"code": "context_length_exceeded", "message": "maximum context length"}}}],
        [FAILED],
    ),
]

TRIED_AGAIN = [
    *(
        way(
            f"a stream cut by {cut}, then the whole answer",
            [[{"text": "Half of ", "chunks": 1}, error(message)], ["Half of it, and the rest."]],
            [{"chunks": ["Half of "], "cut": cut}, {"chunks": ["Half of it, and the rest."]}],
            ["agent partial superseded: Half of ", RETRY, "agent: Half of it, and the rest."],
            attempts=2,
            last=["Half of it, and the rest."],
        )
        for cut, message in CUTS.items()
    ),
    way(
        "cut off, then the same words",
        [["The answer is 4.", error("503 Unavailable")], ["The answer is 4."]],
        [{"chunks": ["The answer is 4."], "cut": "reset"}, {"chunks": ["The answer is 4."]}],
        ["agent: The answer is 4.", RETRY],
        attempts=2,
    ),
    way(
        "cut off, then other words",
        [["The answer is 4", error("503 Unavailable")], ["Four."]],
        [{"chunks": ["The answer is 4"], "cut": "reset"}, {"chunks": ["Four."]}],
        ["agent partial: The answer is 4", RETRY, "agent: Four."],
        attempts=2,
        last=["Four."],
    ),
    way(
        "cut off, then nothing",
        [["The answer is 4", error("503 Unavailable")], []],
        [{"chunks": ["The answer is 4"], "cut": "reset"}, {}],
        ["agent partial: The answer is 4", RETRY],
        attempts=2,
    ),
    way(
        "a tool, cut off, and on",
        [["Let me see.", LOOK, error("503 Unavailable")]],
        [{"chunks": ["Let me see."], "calls": [LIST]}, {"status": 503}, {"chunks": ["Seen."]}],
        ["agent: Let me see.", RETRY, "agent: Seen."],
        attempts=2,
        resume=["Seen."],
        last=["Seen."],
    ),
    way(
        "a model that is down, and comes back",
        [[error("503 Unavailable")], [error("503 Unavailable")], ["Back."]],
        [{"status": 503}, {"status": 503}, {"chunks": ["Back."]}],
        [RETRY, RETRY, "agent: Back."],
        attempts=3,
    ),
    way(
        "a model that is down, and stays so",
        [[error("503 Unavailable")]],
        [{"status": 503}] * 3,
        [RETRY, RETRY, FAILED],
        attempts=3,
    ),
]

STOPPED_WAYS = [
    Way(
        f"{does} in {name}",
        acp,
        model,
        [*rows, *ends, STOPPED] if does == "stop" else [*rows, "user", *ends, STOPPED, "agent: Now this."],
        [*last, TOLD_STOPPED],
        [*every, TOLD_STOPPED],
        permissions=permissions,
        sees=sees,
        does=does,
    )
    for does in ("stop", "interrupt")
    for name, sees, permissions, acp, model, rows, ends, last, every in [
        ("text", "text", "allow", [{"text": "Half of ", "chunks": 1}, HANG], [{"held": ["Half of ", "it"]}],
         ["agent partial: Half of "], [], ["Half of "], ["Half of "]),
        ("a tool", "tool", "allow", ["Building.", SLOW], [{"chunks": ["Building."], "calls": [SHELL]}],
         ["agent: Building."], [], ["Building."], ["Building."]),
        ("a permission request", "permission", "ask", ["May I?", ASK], [{"chunks": ["May I?"], "calls": [SHELL]}],
         ["agent: May I?", f"notice permission: {ASKED}"], [f"notice permission: {WITHDRAWN}"],
         ["May I?", ASKED, WITHDRAWN], ["May I?", ASKED, WITHDRAWN]),
    ]
]  # fmt: skip

WAYS = [*NORMAL, *FAILING, *TRIED_AGAIN, *STOPPED_WAYS]
