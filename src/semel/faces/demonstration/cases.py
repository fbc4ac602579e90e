"""The cases of `semel demo`: what a person or a machine does, and what is there afterwards.

Each case does something to a running gateway that makes other systems say things twice or lose them, waits until it is
over, and counts: in the gateway's record, in the chat of the simulated Telegram, in what the agent itself wrote down.
A count is printed as it was read. `expected` only decides whether the case holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from semel.faces.client.connection import session_path
from semel.faces.demonstration.stage import CHAT_SESSION, PERSON, Stage
from semel.text.json_types import Json, list_at, text_at


@dataclass(frozen=True)
class Count:
    """Something that was counted after a case. `one`, `many`: its name after the number. `quote`: a text read there."""

    number: int
    expected: int
    one: str
    many: str
    quote: str = ""

    @property
    def holds(self) -> bool:
        """Whether `number` is `expected`."""
        return self.number == self.expected

    def __str__(self) -> str:
        name = self.one if self.number == 1 else self.many
        quote = f': "{self.quote.strip()}"' if self.quote else ""
        return f"{self.number} {name}{quote}" + ("" if self.holds else f"; there should be {self.expected}")


@dataclass(frozen=True)
class Case:
    """A case. `play` plays it on a stage, and returns what was counted. `session`: where it is seen on the page."""

    name: str
    happens: str
    elsewhere: str
    session: str
    play: Callable[[Stage], list[Count]]


# ---------------------------------------------------------------- what the agent does

QUESTION, REPORT = "Is the report ready?", "Your report is ready."
COMPLETION, BACKUP = "backup.sh ended with exit code 0", "The backup has finished."
ORDER, TICKS = "Build it.", ("tick, ", "tick, ", "tick: built.")
RIDDLE, BEGINNING = "What is in the harbour?", "Three ships: a ferry, "
WHOLE = f"{BEGINNING}a tug and a pilot boat."
THANKS, WELCOME = "Thank you.", "You are welcome."
PARCEL, ARRIVED = "Has the parcel come?", "Yes, it is at the door."

REPORTS = 3  # how often the completion is reported
REVISIONS = (3, 6, 10, 10)  # how many lines of output each update of the build delivers
SETTLED = ("sent", "held", "rejected", "dropped")
BUILD_LINES = [f"compiled file {number} of 10\n" for number in range(1, 11)]
BUILD_CALL = {"toolCallId": "build", "title": "make", "kind": "execute", "status": "in_progress"}


def _deliver_lines(number: int, **more: str) -> Json:
    """Return the step that sends the first lines of the build's output, all of them again."""
    content = {"type": "content", "content": {"type": "text", "text": "".join(BUILD_LINES[:number])}}
    return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "build", "content": [content], **more}}


_BUILD: list[Json] = [
    {"update": {"sessionUpdate": "tool_call", **BUILD_CALL}},
    *(_deliver_lines(number) for number in REVISIONS[:-1]),
    _deliver_lines(REVISIONS[-1], status="completed"),
    *({"text": tick, "chunks": 1} for tick in TICKS),
]
_CUT_STREAM: list[list[Any]] = [[{"text": BEGINNING, "delay": 0.05}, {"sleep": 0.3}, {"die": 9}], [WHOLE]]
SCRIPTS: list[Json] = [
    {"when": QUESTION, "steps": [{"call": "send_message", "arguments": {"text": REPORT}}, REPORT]},
    {"when": COMPLETION, "steps": [BACKUP]},
    {"when": ORDER, "steps": _BUILD},
    {"when": RIDDLE, "attempts": _CUT_STREAM},
    {"when": THANKS, "steps": [WELCOME]},
    {"when": PARCEL, "steps": [ARRIVED]},
]


# ---------------------------------------------------------------- the cases


def _play_echo(stage: Stage) -> list[Count]:
    claims = stage.read_books()["ledger"]["claims"]
    stage.telegram("write", chat=PERSON, text=QUESTION)
    stage.wait_for_end(CHAT_SESSION, QUESTION)
    _wait_until_settled(stage, REPORT)
    entries = stage.find_entries(CHAT_SESSION, REPORT)
    texts = stage.telegram("texts", chat=PERSON)
    return [
        Count(stage.read_books()["ledger"]["claims"] - claims, 2, "time said by the agent", "times said by the agent"),
        Count(len(entries), 1, "entry in the transcript", "entries in the transcript", _join_texts(entries)),
        Count(sum(entry.get("echoes", 0) for entry in entries), 1, "echo recorded", "echoes recorded"),
        Count(len(texts), 1, "message in the chat", "messages in the chat", " / ".join(texts)),
    ]


def _play_completion(stage: Stage) -> list[Count]:
    session = "completion"
    report = {"kind": "exec.finished", "text": COMPLETION, "key": "run-1"}
    answers = [stage.client.post(f"{session_path(session)}/events", report)["status"] for _ in range(REPORTS)]
    stage.wait_for_end(session, COMPLETION)
    entries = stage.find_entries(session, COMPLETION)
    replies = [entry for entry in stage.read_entries(session) if entry["role"] == "agent"]
    return [
        Count(answers.count("accepted"), 1, "report accepted", "reports accepted"),
        Count(answers.count("duplicate"), REPORTS - 1, "recognized as a repeat", "recognized as repeats"),
        Count(len(entries), 1, "entry in the transcript", "entries in the transcript", _join_texts(entries)),
        Count(len(stage.read_prompts(COMPLETION)), 1, "prompt that the agent got", "prompts that the agent got"),
        Count(len(replies), 1, "answer", "answers", _join_texts(replies)),
    ]


def _play_redelivery(stage: Stage) -> list[Count]:
    session = "redelivery"
    answer = stage.ask(session, ORDER)
    blocks = [block for update in stage.read_updates("compiled") for block in list_at(update, "content")]
    delivered = [line for block in blocks for line in (text_at(block, "content", "text") or "").splitlines()]
    shown = [line for item in stage.read_tools(session) for line in item["text"].splitlines()]
    first_and_last = " ... ".join(shown[:1] + shown[-1:])
    return [
        Count(len(delivered), sum(REVISIONS), "line of output from the agent", "lines of output from the agent"),
        Count(len(shown), len(BUILD_LINES), "line in the view", "lines in the view", first_and_last),
        Count(answer.count("tick"), len(TICKS), "tick in its answer, kept", "ticks in its answer, kept", answer),
    ]


def _play_cut(stage: Stage) -> list[Count]:
    session = "cut"
    stage.ask(session, RIDDLE)
    stage.ask(session, THANKS)
    entries = stage.read_entries(session)
    questions = [entry for entry in entries if entry["text"] == RIDDLE]
    kept = [entry for entry in entries if entry.get("partial")]
    whole = [entry for entry in entries if {part["seq"] for part in kept} & set(entry.get("supersedes", ()))]
    repeats = sum(prompt.count(RIDDLE) for prompt in stage.read_prompts(THANKS))
    return [
        Count(len(questions), 1, "entry with the question", "entries with the question"),
        Count(len(kept), 1, "beginning kept, marked partial", "beginnings kept, marked partial", _join_texts(kept)),
        Count(len(whole), 1, "answer that supersedes it", "answers that supersede it", _join_texts(whole)),
        Count(repeats, 0, "copy of the question in the next prompt", "copies of the question in the next prompt"),
    ]


def _play_kill(stage: Stage) -> list[Count]:
    stage.telegram("fail", method="sendMessage", how="hang", after=True)
    stage.telegram("write", chat=PERSON, text=PARCEL)
    stage.wait_until(lambda: ARRIVED in stage.telegram("texts", chat=PERSON), "the platform has the message")
    stage.wait_for_end(CHAT_SESSION, PARCEL)
    under_way = [part for part in _read_parts(stage, ARRIVED) if part["state"] == "sending"]
    stage.kill_gateway()
    stage.start_gateway()
    parts = _wait_until_settled(stage, ARRIVED)
    held = [part for part in parts if part["state"] == "held"]
    calls = [call for call in stage.telegram("asked", method="sendMessage") if call["params"].get("text") == ARRIVED]
    texts = [text for text in stage.telegram("texts", chat=PERSON) if text == ARRIVED]
    return [
        Count(len(under_way), 1, "message in mid-send at the kill", "messages in mid-send at the kill"),
        Count(len(calls), 1, "call to the platform in all", "calls to the platform in all"),
        Count(len(texts), 1, "message in the chat", "messages in the chat", " / ".join(texts)),
        Count(len(held), 1, "held: a person says whether it came", "held: a person says whether they came"),
        Count(len(stage.read_prompts(PARCEL)), 1, "prompt that the agent got", "prompts that the agent got"),
    ]


def _read_parts(stage: Stage, text: str) -> list[Json]:
    return [part for part in stage.client.list_all("/v1/parts", "parts") if part["text"] == text]


def _wait_until_settled(stage: Stage, text: str) -> list[Json]:
    """Wait until nothing with this text is in line or under way to the chat. Returns its parts."""

    def find_settled() -> list[Json]:
        parts = _read_parts(stage, text)
        return parts if all(part["state"] in SETTLED for part in parts) else []

    return stage.wait_until(find_settled, f"{text!r} is sent or held")


def _join_texts(entries: list[Json]) -> str:
    return " / ".join(entry["text"].strip() for entry in entries)


CASES = (
    Case(
        "echo",
        "The agent sends a message by a tool in mid-turn, then ends its turn with the same words.",
        "Both are delivered: the person reads the same words twice.",
        CHAT_SESSION,
        _play_echo,
    ),
    Case(
        "completion",
        f"A machine reports the end of a job {REPORTS} times, because it lost the answers to its reports.",
        "Each report becomes a message to the agent, which answers each.",
        "completion",
        _play_completion,
    ),
    Case(
        "redelivery",
        "A tool's output comes from its beginning again and again; the answer repeats a word.",
        "Every delivery is appended; or all repeats are removed, honest ones too.",
        "redelivery",
        _play_redelivery,
    ),
    Case(
        "cut",
        "The agent's process dies in the middle of a sentence that is on the screen.",
        "The screen shows what no record has, and the next turn answers the old question again.",
        "cut",
        _play_cut,
    ),
    Case(
        "kill",
        "The gateway dies of kill -9 while the platform has a message and has not answered yet.",
        "After the restart the message is sent again, or its loss goes unnoticed.",
        CHAT_SESSION,
        _play_kill,
    ),
)
