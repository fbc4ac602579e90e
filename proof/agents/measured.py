"""How real agents and platforms were measured to behave, each as a behaviour that the schedules' own can have.

The names are those of docs/measured.md, which tells who does it and what it could break.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

LOOK: Sequence[Json] = ({"say": 0}, {"tool": 0}, {"say": 1}, {"send": 0}, {"say": 2})
"""A turn with everything that a death can part: text, a call, text, something sent, and the closing text."""


@dataclass(frozen=True)
class Behaviour:
    """`agent`: habits (the shape of the schedules' agent); `steps`: what it does with its first prompt, and `later`
    with its second one; `world`: how the rest is built; `actions`: what happens beside."""

    agent: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[Json] = LOOK
    later: Sequence[Json] = ({"say": 0},)
    world: Mapping[str, Any] = field(default_factory=dict)
    actions: Sequence[Json] = ()
    rooms: Sequence[str] = ("chat", "mail", "hook", "web")


def _holds(holds: str, **more: Any) -> Behaviour:
    return Behaviour({"holds": holds, **more})


def _tells(tells: str, **more: Any) -> Behaviour:
    return Behaviour({"holds": "open calls", "tells": tells, **more})


def _broken(retry: str, name: str = "", **more: Any) -> Behaviour:
    return Behaviour({"name": name, **more}, ({"broken": 0, "retry": retry}, {"tool": 0}, {"say": 0}))


def _tool(output: str) -> Behaviour:
    steps = ({"say": 0}, {"tool": 0, "output": output}, {"say": 1})
    return Behaviour(steps=steps, later=({"tool": 0, "output": output}, {"say": 0}))


def _permit(call: str) -> Behaviour:
    allowed = {"do": "permit", "room": 0, "n": 0, "how": "page", "option": "once", "in": 0.3}
    actions = (allowed, {**allowed, "n": 1, "option": "no"}, {**allowed, "n": 2})
    return Behaviour(steps=({"say": 0}, {"permit": 0, "call": call}, {"say": 1}), actions=actions)


def _ends(*steps: Json) -> Behaviour:
    return Behaviour(steps=steps)


AGENTS: Mapping[str, Behaviour] = {
    # what a history holds of a turn that was cut off, and how a load tells it
    "history holds each text once it is whole": _holds("whole"),
    "history holds texts before they are streamed": _holds("items"),
    "history holds halves of texts": _holds("halves"),
    "history holds no calls": _holds("texts"),
    "history ends before the lost turn": _holds("late"),
    "history lacks the last text and our calls": _holds("finished"),
    "history holds calls without an end": _holds("open calls"),
    "history holds a broken text and its retry": Behaviour(
        {"holds": "doubled", "name": "kimi"}, ({"broken": 0, "retry": "glued"}, {"tool": 0}, {"say": 0})
    ),
    "history holds a broken text that nobody was told": _broken("untold", "kimi", holds="doubled"),
    "history marks that a turn ended": _holds("whole", name="semel-demo"),
    "load tells everything under other ids": _tells("other ids"),
    "load tells messages without ids": _tells("no ids", **{"without ids": True}),
    "load tells rows that nobody wrote": _tells("more rows"),
    "load tells an open call as failed": _tells("failed"),
    "load answers before it tells": _holds("items", name="gemini", replays="late"),
    "load finds nothing": Behaviour({"memory": "new"}),
    "resume tells nothing": Behaviour({"memory": "resumed"}),
    "resume tells the history": Behaviour({"memory": "resumed, told", "holds": "finished"}),
    # what it does when it is asked to go on
    "asked to go on it says its last words again": Behaviour({"asked on": "again", "holds": "items"}),
    "asked to go on it says nothing": Behaviour({"asked on": "silent", "holds": "items"}),
    # a model's stream that breaks off
    "retry under another id": _broken("another id", "opencode"),
    "retry behind a signal": _broken("signal", "vibe"),
    "retry behind prose": _broken("prose", "pi-acp", **{"without ids": True}),
    "retry again and again": _broken("many", "opencode"),
    "retry without a mark, long": _broken("glued", "gemini", **{"without ids": True}),
    "retry without a mark, short": _broken("unmarked", "gemini", **{"without ids": True}),
    "retry sends only the rest": _broken("rest", "claude"),
    "retry goes on where it broke off": _broken("goes on", "hermes", **{"without ids": True}),
    "retry in other words": _broken("other words"),
    # text
    "text without ids": Behaviour({"without ids": True}),
    "text is handed over once more": Behaviour(steps=({"say": 0, "again": "another id"}, {"tool": 0}, {"say": 1})),
    "text begins with blank lines": Behaviour(steps=({"say": 0}, {"tool": 0}, {"say": 1, "lead": "\n\n"})),
    "thoughts are told twice": Behaviour(steps=({"think": 0, "again": True}, {"say": 0})),
    "prompts are told back": Behaviour({"echoes": True}),
    "banner before the first prompt": Behaviour({"banner": True}),
    "empty chunks": Behaviour(
        {"name": "qwen"}, ({"say": 0}, {"note": "empty"}, {"tool": 0}, {"note": "empty"}, {"say": 1})
    ),
    "warning of the adapter": Behaviour({"name": "codex"}, ({"note": "warning"}, {"say": 0}, {"tool": 0}, {"say": 1})),
    "prose that a prompt is queued": Behaviour(
        {"name": "hermes", "without ids": True}, ({"note": "queued"}, {"say": 0}, {"tool": 0}, {"say": 1})
    ),
    "title and usage behind the answer": Behaviour(
        steps=(*LOOK, {"note": "usage"}, {"after": 0, "note": "title"}, {"after": 1, "note": "usage", "in": 0.3})
    ),
    "text behind the answer": Behaviour(steps=(*LOOK, {"after": 0, "in": 0.3})),
    # calls
    "call without output": _tool("none"),
    "call without an end": _tool("never ends"),
    "call whose output is replaced": _tool("replaced"),
    "call whose output grows": _tool("grows"),
    "call that changes its name": _tool("renamed"),
    "update before its call": _tool("update first"),
    "call ids used again": _tool("same id"),
    "permission for a call": _permit("behind it"),
    "permission before its call": _permit("first"),
    "permission under an id of its own": _permit("its own id"),
    "permission for our own tool": Behaviour(steps=({"send": 0, "asks": True}, {"repeat": -1})),
    # our tool
    "closing text repeats what was sent": Behaviour(steps=({"say": 0}, {"send": 0}, {"repeat": -1})),
    "closing text goes on behind what was sent": Behaviour(steps=({"send": 0}, {"repeat": -1, "tail": " And more."})),
    "nothing said behind what was sent": Behaviour(steps=({"say": 0}, {"send": 0})),
    "call of our tool not announced": Behaviour(steps=({"say": 0}, {"send": 0, "announced": False}, {"say": 1})),
    "call of our tool denied by the agent": Behaviour(steps=({"denied": 0}, {"say": 0, "as": "send0"})),
    "call of our tool asked again": Behaviour(steps=({"send": 0, "twice": True}, {"repeat": -1})),
    "call of our tool asked again by another process": Behaviour(
        steps=({"send": 0, "twice": "another process"}, {"repeat": -1})
    ),
    "two calls of our tool at once": Behaviour(steps=({"both": 0}, {"say": 0})),
    "call of our tool behind a cancel": Behaviour({"insists": True}),
    # ends
    "ends without a word": _ends(),
    "ends with a thought alone": _ends({"think": 0}),
    "ends cancelled though nobody cancelled": _ends({"stop": "cancelled"}),
    "ends at its token limit": _ends({"say": 0}, {"stop": "max_tokens"}),
    "ends with a refusal": _ends({"stop": "refusal"}),
    "error as text": _ends({"say": 0}),
    "error as the prompt's answer": _ends({"say": 0}, {"fail": "the key is invalid"}),
    "error as text and as the answer": _ends({"fail": "the key is invalid", "says": True}),
    "passing error": _ends({"say": 0}, {"fail": "503 Service Unavailable"}),
    "long silence": _ends({"say": 0}, {"wait": 100.0}, {"tool": 0}, {"say": 1}),
    "silence without end": _ends({"say": 0}, {"wait": 100_000.0}, {"say": 1}),
    "cancelled, it ends as if nothing were": Behaviour({"cancels": "end_turn"}),
    "cancelled, it ends with an error": Behaviour({"cancels": "error"}),
    "cancelled, it ends much later": Behaviour({"cancels": "late"}),
    "cancelled, it goes on": Behaviour({"deaf": True}),
    # prompts while it is busy
    "reads what is said meanwhile": Behaviour({"name": "opencode"}, world={"busy": "steer"}),
    "does not read what is said meanwhile": Behaviour(world={"busy": "steer"}),
}


def _platform(
    *faults: Json, rooms: Sequence[str] = ("chat", "mail", "hook"), actions: Sequence[Json] = (), **world: Any
) -> Behaviour:
    """`faults`: what the first attempts at each platform meet."""
    met = [
        {"do": "fault", "channel": room, "n": n, **fault} for room in rooms for n, fault in enumerate(faults) if fault
    ]
    return Behaviour(world=world, actions=[*met, *actions], rooms=rooms)


def _polls(*troubles: Json, **world: Any) -> Behaviour:
    """`troubles`: what the first polls of each platform meet."""
    rooms = ("chat", "mail", "hook")
    met = [{"do": "trouble", "channel": room, "n": n, **one} for room in rooms for n, one in enumerate(troubles)]
    written = [{"do": "hear", "at": at, "room": 0, "mark": f"q{n}"} for n, at in enumerate((1.0, 1.0, 1.2, 2.0), 10)]
    return Behaviour(world=world, actions=[*met, *written], rooms=rooms)


def _facts(*rooms: str, **facts: Any) -> Json:
    return {"platforms": dict.fromkeys(rooms, facts)}


_WRITTEN: Json = {"do": "hear", "at": 1.0, "room": 0, "mark": "x5"}
_CHANGES = ((1.3, "reaction"), (1.6, "edit"), (3.0, "delete"))
_ALL = dict.fromkeys(("mail", "hook", "chat"), True)

PLATFORMS: Mapping[str, Behaviour] = {
    # what an attempt meets
    "answer lost, message taken": _platform({"what": "drop"}, {}, {"what": "drop"}),
    "answer and message lost": _platform({"what": "lose"}, {"what": "lose"}),
    "connection refused": _platform(*[{"what": "refuse"}] * 3),
    "server error, message taken": _platform({"what": "error after"}, {}, {"what": "error after"}),
    "server error, message not taken": _platform({"what": "error"}, {"what": "error"}),
    "no answer, message taken": _platform({"what": "hang after"}),
    "no answer, message not taken": _platform({"what": "hang"}),
    "too many requests, with a time": _platform({"what": "limit", "after": 30.0}, {"what": "limit", "after": 0.5}),
    "too many requests, without a time": _platform({"what": "limit", "after": None}, {"what": "limit", "after": None}),
    "too many requests, then a server error": _platform({"what": "limit", "after": 1.0}, {"what": "error"}),
    "definite no": _platform({}, {"what": "reject"}),
    "slow answer": _platform({"slow": 8.0}, {"slow": 8.0}),
    "message arrives after it was given up": _platform({"what": "late"}, {"what": "late"}, rooms=("mail",)),
    "nobody there for a while": _platform(**_facts("chat", "mail", "hook", down=(0.5, 60.0))),
    # what a key and a look-up are worth
    "key is folded only for a while": _platform({"what": "drop"}, rooms=("hook",), **_facts("hook", key_life=1.5)),
    "look-up fails": _platform({"what": "drop"}, {"what": "lose"}, rooms=("mail",), **_facts("mail", failing_looks=3)),
    # our own messages
    "own message told back before the answer": _platform({"slow": 3.0}, {"what": "drop"}, echoes=_ALL),
    "own message told back much later": _platform(
        {"what": "drop"}, {"what": "drop"}, echoes=_ALL, **_facts("chat", "mail", "hook", echo_lag=20.0)
    ),
    "own message told back twice": _platform(
        {"what": "drop"}, echoes=_ALL, **_facts("chat", "mail", "hook", echo_copies=2)
    ),
    "edits refused": _platform(streams=_ALL, **_facts("chat", "mail", "hook", refuses_edits=True)),
    "message deleted by others": _platform(
        streams=_ALL, **_facts("chat", "mail", "hook", vanishing=frozenset({0, 1, 2}))
    ),
    # what people do there, and how it is told
    "updates told again behind a reconnect": _polls({"lost": "after"}, {"again": 3}, {"lost": "before"}, {"again": 3}),
    "updates told in another order": _polls({"mixed": True, "again": 2}, {"mixed": True, "again": 2}),
    "updates a few at a time": _polls({"most": 1}, {"most": 1}, {"most": 1, "again": 1}),
    "acknowledged updates never told again": _polls({"lost": "after"}, {"lost": "before"}, forgets=_ALL),
    "messages edited, deleted, reacted to": Behaviour(
        actions=[_WRITTEN, *({**_WRITTEN, "do": "change", "at": at, "what": what} for at, what in _CHANGES)],
        rooms=("chat", "mail", "hook"),
    ),
    "clock ahead of ours": Behaviour(world={"skew": 86_400.0}, rooms=("chat", "mail"), actions=[_WRITTEN]),
    "clock behind ours": Behaviour(world={"skew": -86_400.0}, rooms=("chat", "mail"), actions=[_WRITTEN]),
    "unreadable update": Behaviour(actions=[{**_WRITTEN, "do": "garble"}], rooms=("chat", "mail", "hook")),
    "programs write": Behaviour(actions=[{**_WRITTEN, "bot": True}], rooms=("chat", "mail", "hook")),
}
BEHAVIOURS: Mapping[str, Behaviour] = {**AGENTS, **PLATFORMS}


def dashed(name: str) -> str:
    """The name as a command line takes it without quotes."""
    return name.replace(",", "").replace(" ", "-")
