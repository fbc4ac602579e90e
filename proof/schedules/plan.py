"""A plan: what happens in one run, made from its seed; as JSON it can be kept, cut down and run again.

`shape` is how the world is built; `actions` are what is left out one by one when a failure is shrunk:

    {"do": "hear", "at", "room", "mark", "copies"?, "bot"?}     somebody writes on the room's platform; or a program
    {"do": "change", "at", "room", "mark", "what"}              they edit, delete or react to it
    {"do": "garble", "at", "room", "mark"}                      the platform tells of what nobody can read
    {"do": "say", "at", "room", "mark", "lose"?, "drop"?, "again"?, "other"?, "busy"?}     somebody says it by the API:
             requests lost, answers lost, repeats after the answer, and once with other content under the same key
    {"do": "report", "at", "room", "mark", "wakes"}             a machine reports
    {"do": "command", "at", "room", "text"}                     /stop, /new
    {"do": "script", "room", "n", "steps"}                      what the agent does with its n-th prompt there
    {"do": "fault", "channel", "n", "what", "after"?, "slow"?}  what the n-th attempt on a platform meets
    {"do": "trouble", "channel", "n", "lost"?, "again"?, "most"?}   what the n-th poll of a platform meets ("mixed": its
                                                                updates in another order)
    {"do": "crash", "when": {"at" | "step" | "commit" | "take" | "stop" ...}, "down", "orphan"?, "finishes"?}
             "finishes": agents go on with their turns until the next gateway starts
    {"do": "restart", "at", "grace", "down"}                    a clean stop and the next start
    {"do": "permit", "room", "n", "how", "option", "in", "twice"?}      the n-th permission request that somebody sees
             there is answered so many seconds later, on the page or by a command in the chat
    {"do": "stop", "at", "room"}                                a person stops the turn
    {"do": "busy", "at", "room", "mode"}
    {"do": "blink", "at", "room", "for"}                        a watcher is away, and comes back with its rev
    {"do": "decide", "at", "what"}                              a person settles what is held
    {"do": "fires", "at", "room", "mark"}                       a schedule of the configuration
    {"do": "series", "at", "room", "every", "downtime", "for"}  a schedule by the API, paused so many seconds later

and what people do at their editors (`editor_plans`).

`at` is in virtual seconds. In its place may stand `when`: the n-th thing "told" by an agent, "answer" of one,
"prompt" or "commit"; `then` so many seconds later; at the latest `until`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from proof.schedules import anew, endings
from proof.schedules.editor_plans import EDITOR_SEEDS, add_cancels, add_editors
from proof.schedules.memories import MARKING_AGENT
from proof.schedules.platforms import FAULTS

Json = dict[str, Any]

CHANNELS = ("mail", "hook", "chat")  # reconcilable, idempotent, at most once
SPAN = 12.0  # virtual seconds in which people act
AT_MOMENTS = ("hear", "say", "report", "stop", "blink", "restart", "prompt", "cancel", "reopen", "stall")
"""What may fall on a moment of the gateway's."""


@dataclass(frozen=True)
class Plan:
    seed: int
    shape: Json
    actions: tuple[Json, ...]

    def only(self, keep: list[int]) -> Plan:
        """With these actions of it, by their numbers."""
        return Plan(self.seed, self.shape, tuple(self.actions[n] for n in keep if n < len(self.actions)))

    def json(self) -> Json:
        return {"seed": self.seed, "shape": self.shape, "actions": list(self.actions)}


def read(told: Json) -> Plan:
    """A plan as `json` gave it."""
    return Plan(int(told["seed"]), dict(told["shape"]), tuple(told["actions"]))


def make(seed: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(f"plan {seed}")
    shape = _shape(chance)
    marks = iter(range(1, 1000))
    actions: list[Json] = []
    for room in range(len(shape["rooms"])):
        actions += _talk(chance, shape, room, marks)
        actions += _scripts(chance, shape, room)
    actions += _series(chance, shape)
    actions += _disorder(chance, shape)
    actions = _at_moments(chance, actions)
    more = random.Random(f"more {seed}")
    shape["streams"] = {name: more.random() < 0.3 for name in CHANNELS}
    shape["deadline"] = more.choice((2.0, 2.0, 60.0))
    shape["agent"]["holds"] = more.choice(("whole", "items", "halves", "texts", "late"))
    if more.random() < 0.25:
        actions += _permits(more, actions)
    _add_rarities(random.Random(f"rare {seed}"), actions)
    endings.add_deaths(random.Random(f"endings {seed}"), shape, actions)
    anew.add_repeats(random.Random(f"anew {seed}"), shape, actions)
    anew.add_odd_answers(random.Random(f"odd {seed}"), shape, actions)
    _retell(random.Random(f"again {seed}"), shape, actions)
    if seed >= EDITOR_SEEDS:
        desk = random.Random(f"desk {seed}")
        actions += _at_moments(desk, add_editors(desk, shape, actions, SPAN))
        cancels = random.Random(f"cancels {seed}")
        actions += _at_moments(cancels, add_cancels(cancels, shape, actions, SPAN))
    return Plan(seed, shape, tuple(actions))


def _retell(chance: random.Random, shape: Json, actions: list[Json]) -> None:
    """By which sign a text that comes again can be known for it: as its agent was measured, or by none."""
    agent = shape["agent"]
    if agent["name"] == "gemini" and chance.random() < 0.4:
        agent["name"] = "vibe"
    retries = {"opencode": ("another id", "glued", "unmarked"), "gemini": ("glued", "unmarked"),
               MARKING_AGENT: ("unmarked",), "": ("unmarked",)}  # fmt: skip
    for script in [one for one in actions if one["do"] == "script"]:
        for step in list(script["steps"]):
            if "broken" in step:
                step["retry"] = chance.choice(retries.get(agent["name"], ("signal", "signal", "glued", "unmarked")))
            elif "again" in step:
                long = "another id" if shape["max_len"] else "long"
                step["again"] = chance.choice(("another id", "another id", long, "unmarked"))
            if step.get("retry") == "signal":  # all of an answer is told anew: what was said before a tool call stands
                script["steps"].insert(script["steps"].index(step), {"tool": 9})


def _add_rarities(chance: random.Random, actions: list[Json]) -> None:
    """What agents seldom do: calls that come when another turn runs, a tool that tells much, an answer without a word;
    and people who resend what is held while more stands in line."""
    for script in [one for one in actions if one["do"] == "script"]:
        steps = script["steps"]
        for n, step in enumerate(steps):
            repeats = any("repeat" in one or "aside" in one for one in steps[n + 1 : n + 3])
            if "send" in step and not repeats and chance.random() < 0.4:
                step |= {"late": chance.choice((0.05, 0.4, 2.0)), "announced": True, "twice": False}
            elif "tool" in step and chance.random() < 0.1:
                step["size"] = chance.choice((20_000, 40_000))
        if chance.random() < 0.06:
            steps.clear()
    if chance.random() < 0.25:
        actions.append({"do": "decide", "at": round(2 + 14 * chance.random(), 3), "what": "resend"})


def _permits(chance: random.Random, actions: list[Json]) -> list[Json]:
    """Agents ask for permission in some of their scripts, and people answer."""
    scripts = [one for one in actions if one["do"] == "script"]
    for one in scripts:
        for k in range(chance.choice((0, 1, 1, 2))):
            one["steps"].insert(chance.randint(0, len(one["steps"])), {"permit": k})
    soon = (0.0, 0.3, 1.9, 1.99, 1.0 + chance.random())  # seconds: about the shorter deadline, too
    return [
        {"do": "permit", "room": room, "n": n, "how": chance.choice(("page", "page", "chat")),
         "option": chance.choice(("once", "once", "no")), "in": chance.choice(soon), "twice": chance.random() < 0.3}
        for room in sorted({one["room"] for one in scripts})
        for n in range(4)
        if chance.random() < 0.7
    ]  # fmt: skip


def _at_moments(chance: random.Random, actions: list[Json]) -> list[Json]:
    """Some of what people do falls on a moment of the gateway's: an agent's answer, a prompt, a commit."""
    out = []
    for one in actions:
        if "at" in one and one["do"] in AT_MOMENTS and chance.random() < 0.4:
            at = one["at"]
            one = {name: value for name, value in one.items() if name != "at"}
            what, most = chance.choice((("answer", 4), ("answer", 4), ("told", 25), ("prompt", 4), ("commit", 70)))
            if one["do"] == "blink":
                what, most = "told", 25
                one["for"] = round(0.1 * chance.random(), 3)
            then = chance.choice((0.0, 0.0, round(chance.random() * 0.0008, 5), round(chance.random() * 0.3, 3)))
            one["when"] = {what: chance.randint(1, most), "then": then, "until": at}
            if what == "commit":
                one["when"]["side"] = chance.choice(("before", "after"))
        out.append(one)
    return out


def _shape(chance: random.Random) -> Json:
    rooms = chance.sample(("mail", "hook", "chat", "chat", "web"), chance.choice((1, 2, 2)))
    return {
        "rooms": rooms,
        "narration": chance.choice(("last", "last", "all")),
        "forgets": {name: chance.random() < 0.5 for name in CHANNELS},
        "echoes": {name: chance.random() < 0.15 for name in CHANNELS},
        "max_len": chance.choice((None, None, 60)),
        "busy": chance.choice(("queue", "queue", "steer", "steer", "interrupt", "collect")),
        "idle": chance.choice((0.5, 3.0, 600.0)),
        "most": chance.choice((1, 2, 4)),
        "side": chance.random() < 0.5,
        "heartbeat": chance.random() < 0.1,
        "agent": {
            "name": chance.choice(("", "semel-demo", "gemini", "opencode")),
            "memory": chance.choice(("new", "loaded", "loaded", "resumed")),
            "replays": chance.choice(("at once", "late")),
            "repeats": chance.random() < 0.6,
            "slow": chance.choice((0.02, 0.3, 1.0)),
            "deaf": chance.random() < 0.1,
            "insists": chance.random() < 0.6,
        },
    }


def _at(chance: random.Random) -> float:
    return round(chance.random() * SPAN, 3)


def _talk(chance: random.Random, shape: Json, room: int, marks: Any) -> list[Json]:
    """What is heard in one room."""
    out: list[Json] = []
    burst = _at(chance)
    for _ in range(chance.randint(2, 4)):
        at = round(burst + chance.random(), 3) if chance.random() < 0.5 else _at(chance)
        mark = f"q{next(marks)}"
        if chance.random() < 0.15:
            out.append({"do": "report", "at": at, "room": room, "mark": mark, "wakes": chance.random() < 0.4})
        elif shape["rooms"][room] != "web" and chance.random() < 0.7:
            out.append({"do": "hear", "at": at, "room": room, "mark": mark, "copies": 1 + (chance.random() < 0.1),
                        "bot": chance.random() < 0.06})  # fmt: skip
        else:
            out.append({"do": "say", "at": at, "room": room, "mark": mark, **_api(chance)})
    if chance.random() < 0.12:
        out.append({"do": "fires", "at": int(2 + _at(chance)), "room": room, "mark": f"q{next(marks)}"})
    if shape["rooms"][room] != "web" and chance.random() < 0.06:
        out.append({"do": "garble", "at": _at(chance), "room": room, "mark": f"q{next(marks)}"})
    return out


def _series(chance: random.Random, shape: Json) -> list[Json]:
    """A schedule, and a gateway that is down while it falls due: long enough for firings that count as missed."""
    if chance.random() > 0.06:
        return []
    room, every = chance.randrange(len(shape["rooms"])), chance.choice((25, 90, 90))
    downtime = chance.choice(("skip", "skip", "once", "all", "all"))
    made, dies = _at(chance), 20 + 60 * chance.random()
    back = dies + 65 + 195 * chance.random()
    if chance.random() < 0.5:  # so late after the last of each 90 s that all of them count as missed
        back = made + chance.choice((90, 180)) + 63 + 24 * chance.random()
    return [
        {"do": "series", "at": made, "room": room, "every": every, "downtime": downtime, "for": 400.0},
        {"do": "crash", "when": {"at": round(dies, 3)}, "down": round(back - dies, 3)},
    ]


def _api(chance: random.Random) -> Json:
    more: Json = {}
    for name, share in (("lose", 0.15), ("drop", 0.2), ("again", 0.15)):
        if chance.random() < share:
            more[name] = chance.randint(1, 2)
    if chance.random() < 0.1:
        more["other"] = True
    if chance.random() < 0.3:
        more["busy"] = chance.choice(("queue", "steer", "interrupt", "collect"))
    return more


def _scripts(chance: random.Random, shape: Json, room: int) -> list[Json]:
    return [
        {"do": "script", "room": room, "n": n, "steps": _steps(chance, shape)}
        for n in range(6)
        if chance.random() < 0.7
    ]


def _steps(chance: random.Random, shape: Json) -> list[Json]:
    steps: list[Json] = []
    for k in range(chance.choice((1, 1, 2, 3))):
        steps += _step(chance, shape, k)
    if chance.random() < 0.08:
        steps.insert(chance.randint(0, len(steps)), {"die": "was killed by SIGKILL"})
    elif chance.random() < 0.08:
        steps.append(
            {"fail": chance.choice(("503 Service Unavailable", "overloaded, try again", "the key is invalid"))}
        )
    elif chance.random() < 0.07:
        steps.append({"after": 0, "in": chance.choice((0.05, 0.4))})
    return steps


def _step(chance: random.Random, shape: Json, k: int) -> list[Json]:
    match chance.choice(("say", "say", "say", "send", "send", "tool", "think", "broken", "wait")):
        case "say":
            return [{"say": k, "again": "another id"}] if chance.random() < 0.2 else [{"say": k}]
        case "send":
            return _send(chance, shape, k)
        case "tool":
            return [{"tool": k}, {"say": k}]
        case "think":
            return [{"think": k}, {"say": k}]
        case "broken":
            return [{"broken": k}] if shape["agent"]["name"] in ("gemini", "opencode") else [{"say": k}]
        case _:
            return [{"wait": chance.choice((0.5, 5.0, 40.0))}, {"say": k}]


def _send(chance: random.Random, shape: Json, k: int) -> list[Json]:
    sent: Json = {"send": k, "announced": chance.random() < 0.8, "twice": chance.random() < 0.15}
    if shape["side"] and chance.random() < 0.4:
        sent["to"] = "side"
    match chance.choice(("nothing", "same", "same later", "more", "other", "aside")):
        case "aside" if shape["side"] and "to" not in sent:
            return [sent, {"aside": -1}]
        case "same":
            return [sent, {"repeat": -1}]
        case "same later":
            return [sent, {"wait": 2.0}, {"repeat": -1}]
        case "more":
            return [sent, {"repeat": -1, "tail": " And that is not all."}]
        case "other":
            return [sent, {"say": k}]
        case _:
            return [sent]


def _disorder(chance: random.Random, shape: Json) -> list[Json]:
    out: list[Json] = []
    for name in sorted({*shape["rooms"], *(["chat"] if shape["side"] else [])} - {"web"}):
        refuses = chance.random() < 0.06
        for n in range(6):
            if refuses and chance.random() < 0.6:
                out.append({"do": "fault", "channel": name, "n": n, "what": "reject"})
            elif chance.random() < 0.16:
                out.append({"do": "fault", "channel": name, "n": n, **_fault(chance, name)})
        for n in range(4):
            if chance.random() < 0.2:
                out.append({"do": "trouble", "channel": name, "n": n, **_trouble(chance)})
    for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 3))):
        out.append({"do": "crash", "when": _when(chance, shape), "down": round(0.5 + 2 * chance.random(), 3),
                    "orphan": chance.random() < 0.3})  # fmt: skip
    out += _deeds(chance, range(len(shape["rooms"])))
    if any(one["do"] == "stop" for one in out) and chance.random() < 0.5:
        out.append({"do": "crash", "when": {"stop": 1}, "down": round(0.5 + chance.random(), 3)})
    return out


def _deeds(chance: random.Random, rooms: range) -> list[Json]:
    """What people do beside writing."""
    out: list[Json] = []
    mode = chance.choice(("steer", "queue", "interrupt"))
    for share, action in (
        (0.12, {"do": "restart", "at": _at(chance), "grace": chance.choice((0.1, 5.0)), "down": 0.6}),
        (0.35, {"do": "stop", "at": _at(chance), "room": chance.choice(rooms)}),
        (0.15, {"do": "busy", "at": _at(chance), "room": chance.choice(rooms), "mode": mode}),
        (0.6, {"do": "blink", "at": _at(chance), "room": chance.choice(rooms), "for": round(0.3 * chance.random(), 3)}),
        (0.4, {"do": "blink", "at": _at(chance), "room": chance.choice(rooms), "for": round(4 * chance.random(), 3)}),
        (0.2, {"do": "decide", "at": _at(chance) + 20, "what": chance.choice(("resend", "arrived", "drop"))}),
        (0.06, {"do": "command", "at": _at(chance), "room": chance.choice(rooms), "text": "/stop"}),
        (0.06, {"do": "command", "at": _at(chance), "room": chance.choice(rooms), "text": "/new"}),
    ):  # fmt: skip
        if chance.random() < share:
            out.append(action)
    return out


def _fault(chance: random.Random, channel: str) -> Json:
    late = ("late", "late") if channel == "mail" else ()  # where it is asked for afterwards
    what = chance.choice(FAULTS + late) if chance.random() < 0.9 else None
    fault: Json = {"what": what} if what else {"slow": chance.choice((1.0, 8.0))}
    if what == "limit":
        fault["after"] = chance.choice((0.5, 4.0, 30.0))
    return fault


def _trouble(chance: random.Random) -> Json:
    return chance.choice(
        ({"lost": "before"}, {"lost": "after"}, {"again": 1}, {"again": 3}, {"most": 1}, {"again": 1, "most": 1})
    )


def _when(chance: random.Random, shape: Json) -> Json:
    match chance.choice(("at", "step", "commit", "commit", "take", "ack", "prompt")):
        case "at":
            return {"at": _at(chance)}
        case "step":
            return {"step": chance.randint(60, 2500)}
        case "commit":
            return {"commit": chance.randint(8, 90), "side": chance.choice(("before", "after"))}
        case "take":
            outgoing = [name for name in shape["rooms"] if name != "web"] or ["chat"]
            return {
                "take": chance.randint(0, 4),
                "channel": chance.choice(outgoing),
                "side": chance.choice(("before", "after")),
            }
        case "ack":
            return {"ack": chance.randint(0, 4)}
        case _:
            return {"prompt": chance.randint(0, 4)}
