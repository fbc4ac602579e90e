"""What twenty producers report in a storm: which events, how often, in which order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from system_house import SECRET, Json

KILLS = 20
NODES, CALLERS, HOOKS, EXECS = 11, 5, 2, 2
EVENTS = 8  # of each producer
RUNS = 3  # of each that runs commands
MOST = 5  # times that an event is sent
SESSIONS = (
    "plain:web:a",
    "plain:hook:b",
    "loads:web:c",
    "loads:hook:d",
    "loads:all:e",
    "plain:all:f",
)


@dataclass
class Planned:
    """One event of one producer. `b` is its other content under the same key, if there is one."""

    source: str
    key: str
    session: str
    kind: str
    wakes: bool
    a: str
    b: str | None = None

    @property
    def marks(self) -> list[str]:
        return [self.a] if self.b is None else [self.a, self.b]


@dataclass
class Producer:
    number: int
    kind: str
    events: list[Planned] = field(default_factory=list)
    deliveries: list[Json] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.kind}{self.number}"

    @property
    def token(self) -> str:
        return f"the-token-of-{self.name}-0123456789"


def producers(seed: int, home: Path) -> list[Producer]:
    kinds = ["node"] * NODES + ["caller"] * CALLERS + ["hook"] * HOOKS + ["exec"] * EXECS
    return [_producer(number, kind, random.Random(f"{seed}.{number}"), home) for number, kind in enumerate(kinds)]


def _producer(number: int, kind: str, chance: random.Random, home: Path) -> Producer:
    one = Producer(number, kind)
    for n in range(RUNS if kind == "exec" else EVENTS):
        event = _event(one, n, chance)
        one.events.append(event)
        for mark in event.marks:
            times = 1 if kind == "exec" else chance.randint(1, MOST)
            one.deliveries += [_delivery(one, n, event, mark, home) for _ in range(times)]
    chance.shuffle(one.deliveries)
    for at, delivery in enumerate(one.deliveries):
        delivery["stretch"] = at * (KILLS + 1) // len(one.deliveries)
        if kind == "exec":  # it asks ever more rarely while nobody answers: none is to wait for minutes at the end
            delivery["stretch"] = KILLS * 3 // 4 + delivery["stretch"] // 4
    return one


def _event(one: Producer, n: int, chance: random.Random) -> Planned:
    """Nodes all use the same keys: whose they are is part of their identity. A caller's source is the session."""
    session = chance.choice([s for s in SESSIONS if ":hook:" in s] if one.kind == "hook" else SESSIONS)
    source = {"node": f"node:{one.name}", "caller": f"api:{session}", "hook": "channel:hook", "exec": "exec"}[one.kind]
    key = f"run-{n}" if one.kind == "node" else f"{one.name}-run-{n}"
    mark = f"q{one.number}x{n}"
    other = f"{mark}b" if one.kind != "exec" and chance.random() < 0.15 else None
    kind, wakes = "message", True
    if one.kind == "node" or (one.kind == "caller" and chance.random() < 0.5):
        kind = chance.choice(["exec.finished", "build.done", "exec.progress", "exec.finished"])
        wakes = kind != "exec.progress"
    if one.kind == "exec":
        kind = "exec.finished"
    return Planned(source, key, session, kind, wakes, f"{mark}a", other)


def _delivery(one: Producer, n: int, event: Planned, mark: str, home: Path) -> Json:
    text = f"Report {mark} of {one.name}."
    found: Json = {"n": n, "mark": mark, "key": event.key}
    if one.kind == "exec":
        file = home / f"{mark}.txt".replace("q", "out")
        file.write_text(mark + "\n")
        return {**found, "path": event.session, "key": one.name, "body": {"file": str(file)}}
    if one.kind == "hook":
        return {**found, "path": "/v1/hooks/hook", "body": {"text": text, "session": event.session}}
    path = f"/v1/sessions/{event.session}"
    if event.kind == "message":
        return {**found, "path": f"{path}/messages", "body": {"text": text, "id": event.key}}
    body: dict[str, Any] = {"kind": event.kind, "key": event.key, "text": text, "data": {"run": event.key}}
    return {**found, "path": f"{path}/events", "body": body}


def plan(one: Producer, seed: int, data: Path) -> Json:
    told = {"seed": f"{seed}.{one.name}", "kind": one.kind, "token": one.token, "secret": SECRET, "data": str(data)}
    return {**told, "deliveries": one.deliveries}
