"""Everything at once: many sessions, an API that breaks in every way, cancels, and a gateway that is started anew."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from model_world import Answer, ModelServer, ModelWorld, Request, until

SESSIONS, TURNS = 4, 8


class Moody:
    """An API that answers each request in one of many ways; what it ever said is in `said`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = itertools.count(1)
        self.said: set[str] = set()

    def __call__(self, request: Request) -> Answer:
        n = next(self.count)
        words = [f"answer {n} ", "goes ", f"on {n}."]
        self.said.add("".join(words))
        match self.random.randrange(10):
            case 0:
                return Answer(status=self.random.choice([429, 500, 503]))
            case 1:
                return Answer(status=400, body={"error": {"message": "scripted no"}})
            case 2 | 3:
                cut = self.random.randrange(4)
                self.said.add("".join(words[:cut]))
                return Answer(words[:cut], cut=self.random.choice(["reset", "close", "event"]))
            case 4 | 5:
                name, given = self.random.choice([
                    ("send_message", {"text": f"sent {n}"}), ("shell", {"command": f"echo {n} >> log"}), ("list", {}),
                ])  # fmt: skip
                self.said |= {f"sent {n}", words[0]}
                return Answer(words[:1], calls=[(name, given)])
            case 6:
                return Answer([])
            case _:
                return Answer(words)


LONG = pytest.mark.long
STORMS = [("openai-chat", 1), pytest.param("openai", 2, marks=LONG), pytest.param("anthropic", 3, marks=LONG)]


@pytest.mark.parametrize(("provider", "seed"), STORMS)
async def test_whatever_happens_the_record_is_what_was_said_and_the_books_balance(
    tmp_path: Path, provider: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.01, 0.02))
    mood = Moody(seed)
    async with ModelServer(*([mood] * 2000)) as api:
        for part in range(2):
            async with ModelWorld(tmp_path, api, provider, attempts=3, max_live_agents=3) as w:
                await asyncio.gather(*(talk(w, f"s{n}", part, mood) for n in range(SESSIONS)))
                for n in range(SESSIONS):
                    await check(w, f"s{n}", (part + 1) * TURNS, mood)
        assert all(mine(request) for request in api.requests)


async def talk(w: ModelWorld, session: str, part: int, mood: Moody) -> None:
    for n in range(TURNS):
        await w.gateway.say(session, f"{session} says {part * TURNS + n}", busy=mood.random.choice(["queue", "steer"]))
        if mood.random.randrange(6) == 0:
            await w.gateway.controls.stop_turn(session, "me")
        if mood.random.randrange(2):
            await w.idle(session)
    await w.idle(session)


async def check(w: ModelWorld, session: str, count: int, mood: Moody) -> None:
    await until(lambda: quiet(w, session))
    entries = await w.entries(session)
    assert [e["text"] for e in entries if e["role"] == "user"] == [f"{session} says {n}" for n in range(count)]
    strange = [e["text"] for e in entries if e["role"] == "agent" and not is_said(e, mood)]
    assert strange == []
    assert not [e for e in entries if e.get("live")]


async def quiet(w: ModelWorld, session: str) -> bool:
    found = next(s for s in await w.gateway.sessions() if s["key"] == session)
    return bool(found["state"] == "idle" and not found["waiting"])


def is_said(entry: dict[str, Any], mood: Moody) -> bool:
    """It is what the API said, to the letter, or, where it is marked so, the beginning of that."""
    text = entry["text"]
    return text in mood.said or (bool(entry.get("partial")) and any(one.startswith(text) for one in mood.said))


def mine(request: Request) -> bool:
    """A request tells messages of one session only, and each of them once."""
    told = [text for role, text in request.talk if role == "user" and " says " in text and "[semel" not in text]
    return len({text.split()[0] for text in told}) <= 1 and len(told) == len(set(told))
