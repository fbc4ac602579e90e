"""What is configured, who says what to whom, and how agents misbehave: all of it by the seed."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

HERE = Path(__file__).parent
AGENT = HERE / "unruly_agent.py"
AGENTS = ("plain", "loads")
"""The same program; the second can load its sessions again."""
LIVE = 40
"""Agent processes at once: fewer than sessions, so that some are always put out for others."""
SILENCE = 8
"""Seconds after which an agent that tells nothing counts as lost."""

T = TypeVar("T")
Route = Literal["api", "hook", "platform"]
Class = Literal["idempotent", "reconcilable", "at-most-once", "web"]

WEBHOOKS, TELEGRAMS, KNOWN, FOLDING, BLIND = 7, 5, 4, 2, 2
HOT, HOT_SHARE = 0.1, 0.5
"""So many of the sessions get so much of the traffic: their agents stay alive, others are started for a message."""
AGAIN = 0.15
"""How often a message that was acknowledged is told once more."""

DEEDS: Mapping[str, float] = {
    "plain": 70, "stream": 8, "long": 2, "die": 3, "exit": 1.5, "hang": 0.5, "rubbish": 3, "flood": 1.5, "deaf": 0.3,
    "orphan": 1, "again": 2, "tool": 4, "echo": 2, "late": 1, "reissue": 1,
}  # fmt: skip
"""What an agent does about a message, and how often; see `unruly_agent`."""


@dataclass(frozen=True)
class Channel:
    """One `[channels.NAME]`. `kind`: webhook, telegram or pigeon."""

    name: str
    kind: Literal["webhook", "telegram", "pigeon"]
    safety: Class
    agent: str
    narration: Literal["last", "all"] = "last"


@dataclass(frozen=True)
class Session:
    """`address` is where its home is on the channel; without a channel its home is the web page."""

    key: str
    channel: Channel | None
    address: str

    @property
    def routes(self) -> Mapping[Route, float]:
        """How messages come to it, and how often."""
        if self.channel is None:
            return {"api": 1}
        return {"api": 1, "hook" if self.channel.kind == "webhook" else "platform": 2}


@dataclass(frozen=True)
class Message:
    """One thing that somebody says. `mark` stands in its text and in the answer, and is its key, too."""

    mark: str
    session: Session
    route: Route
    deed: str
    again: bool

    @property
    def text(self) -> str:
        return f"Please look at {self.mark} {self.deed}"


def channels() -> list[Channel]:
    """Twenty, of each safety class. Every second one has the agent that can load its sessions."""
    kinds: list[tuple[str, Literal["webhook", "telegram", "pigeon"], Class, int]] = [
        ("hook", "webhook", "idempotent", WEBHOOKS),
        ("tg", "telegram", "at-most-once", TELEGRAMS),
        ("known", "pigeon", "reconcilable", KNOWN),
        ("folds", "pigeon", "idempotent", FOLDING),
        ("blind", "pigeon", "at-most-once", BLIND),
    ]
    return [
        Channel(f"{name}{n}", kind, safety, AGENTS[n % 2], "all" if n == 3 else "last")
        for name, kind, safety, count in kinds
        for n in range(1, count + 1)
    ]


def sessions(count: int, all_: Sequence[Channel]) -> list[Session]:
    """Half of them at home on the channels, in turn; half on the page."""
    found = []
    for n in range(count):
        channel = all_[n // 2 % len(all_)] if n % 2 else None
        if channel is None:
            found.append(Session(f"{AGENTS[n // 2 % 2]}:web:s{n}", None, f"s{n}"))
        else:
            address = str(5000 + n) if channel.kind == "telegram" else f"place{n}"
            found.append(Session(f"{channel.agent}:{channel.name}:{address}", channel, address))
    return found


class Traffic:
    """The messages, one after the other."""

    def __init__(self, seed: int, all_: Sequence[Session]) -> None:
        self._chance = random.Random(seed)
        self._all = list(all_)
        self._chance.shuffle(self._all)
        self._hot = self._all[: max(1, int(len(self._all) * HOT))]
        self._count = 0

    def __repr__(self) -> str:
        return f"<Traffic {self._count} messages to {len(self._all)} sessions>"

    def next(self) -> Message:
        chance, n = self._chance, self._count
        self._count += 1
        if n < len(self._all):
            session = self._all[n]  # each of them is there soon
        else:
            session = chance.choice(self._hot if chance.random() < HOT_SHARE else self._all)
        return Message(
            mark=f"q{n}x{chance.randrange(1000)}a",
            session=session,
            route=_pick(chance, session.routes) if n >= len(self._all) else "api",
            deed=_pick(chance, DEEDS),
            again=chance.random() < AGAIN,
        )

    def pause(self, per_second: float) -> float:
        """Seconds until the next one: they come when they come."""
        return self._chance.expovariate(per_second)


def _pick(chance: random.Random, weights: Mapping[T, float]) -> T:
    return chance.choices(list(weights), list(weights.values()))[0]


# -------------------------------------------------------------------- what the gateway is told


def configuration(root: Path, all_: Sequence[Channel], urls: Mapping[str, str], secret: str, idle: float) -> str:
    """semel.toml, but for people. `urls`: where each platform listens; `idle`: seconds until an idle agent is ended."""
    lines = ["[gateway]", 'listen = "127.0.0.1:0"', f"data_dir = {json.dumps(str(root / 'data'))}", 'log = "json"']
    lines += [f"max_live_agents = {LIVE}", f'idle_after = "{idle:g}s"']
    for name in AGENTS:
        command = [sys.executable, "-S", "-E", "-s", str(AGENT), str(root), *(["memory"] if name == "loads" else [])]
        lines += [f"[agents.{name}]", f"command = {json.dumps(command)}", f'silence = "{SILENCE}s"']
    for one in all_:
        lines += [f"[channels.{one.name}]", f'kind = "{one.kind}"', f'agent = "{one.agent}"']
        lines += [f'narration = "{one.narration}"', *_settings(one, urls[one.name], secret)]
    return "\n".join(lines) + "\n"


def _settings(one: Channel, url: str, secret: str) -> list[str]:
    match one.kind:
        case "webhook":
            return [f'url = "{url}"', f'secret = "{secret}"', "allow_private = true", 'sessions = ["*"]', "timeout = 5"]
        case "telegram":
            return [f'api = "{url}"', f'token = "{token(one)}"', "poll = 5", "pace = 0", "timeout = 5"]
        case "pigeon":
            return [f'dovecote = "{url}"', f'carrier = "{one.safety}"', "timeout = 5.0", "settle = 0.5"]


def token(one: Channel) -> str:
    """Of a bot of its own."""
    return f"80000000{one.name[-1]}:AAtest-token_0123456789-abcdefghijk"


def people(all_: Sequence[Session]) -> str:
    """One owner, who has an account at every place."""
    accounts = [account(one) for one in all_ if one.channel is not None and one.channel.kind != "webhook"]
    return f'[people.ann]\nrole = "owner"\naccounts = {json.dumps(sorted(set(accounts)))}\n'


def account(one: Session) -> str:
    """Who writes there."""
    assert one.channel is not None
    return f"{one.channel.name}:{one.address if one.channel.kind == 'telegram' else 'ann'}"
