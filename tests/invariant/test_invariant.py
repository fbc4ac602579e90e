"""The invariant: after a turn, whatever became of it, the transcript holds exactly what each person received, in order,
as what it was; and the agent is told so next (Laws 4, 6, 8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import invariant_judge as judge
import pytest
from invariant_house import Chat, House, house
from invariant_ways import WAYS, Way
from model_server import Answer

from fewer_cases import cross

MODEL_KINDS = ("openai-chat", "anthropic")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause before another attempt, in less time."""
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))


@pytest.mark.parametrize(("way", "kind"), [*((way, "acp") for way in WAYS), *cross(WAYS, MODEL_KINDS)], ids=str)
async def test_what_people_received_is_what_is_recorded_and_what_the_agent_is_told(
    tmp_path: Path, way: Way, kind: str
) -> None:
    async with house(kind, tmp_path, attempts=way.attempts, permissions=way.permissions) as h:
        for chat in h.chats:
            await walk(h, chat, way)
        for chat in h.chats:
            await judged(h, chat, way)
        if kind == "acp":
            await forgotten(h, h.chats[1])


async def walk(h: House, chat: Chat, way: Way) -> None:
    """One turn along this way; a newer message that interrupts it is part of it."""
    await h.say(chat, way.acp if h.kind == "acp" else way.answers(), resume=way.resume)
    await chat.watch()
    if way.does:
        await chat.sees(way.sees)
    if way.does == "stop":
        assert await h.world.gateway.controls.stop_turn(chat.key, "me")
    elif way.does == "interrupt":
        await h.say(chat, one("Now this.", h.kind), busy="interrupt")
    await chat.rest()


def one(text: str, kind: str) -> list[Any]:
    return [text] if kind == "acp" else [Answer([text])]


async def judged(h: House, chat: Chat, way: Way) -> None:
    newer = ["Now this."] if way.does == "interrupt" else []
    expected = [f"user: {h.said(chat)[1]}" if row == "user" else row for row in way.shown]
    looked(h, chat, expected, [*getattr(way, chat.narration), *newer])

    await h.say(chat, one("Then this.", h.kind))
    await chat.rest()
    after = [*expected, f"user: {h.said(chat)[-1]}", "agent: Then this."]
    looked(h, chat, after, [*getattr(way, chat.narration), *newer, "Then this."])
    told(h, chat)


def looked(h: House, chat: Chat, expected: Sequence[str], delivered: Sequence[str]) -> None:
    """The record, the watcher and the chat agree, and hold what is expected."""
    record = chat.record()
    judge.transcript(record, h.said(chat))
    judge.shown(record, expected)
    judge.view(record, chat.view.entries.values())
    judge.received(record, chat.received, delivered)


def told(h: House, chat: Chat) -> None:
    """The newest prompt of the agent holds what happened, once."""
    record = chat.record()
    if h.kind == "acp":
        judge.prompts(record, h.given(chat))
        judge.cut_off(record, h.given(chat))
    else:
        judge.history(record, h.asked(chat)[-1].talk)
        judge.cut_in_history(record, h.asked(chat)[-1].talk)


async def forgotten(h: House, chat: Chat) -> None:
    """The agent's memory is gone: it is told the conversation as the record holds it."""
    await h.forget(chat)
    await h.say(chat, one("And that.", h.kind))
    await chat.rest()
    record = chat.record()
    judge.transcript(record, h.said(chat))
    judge.prompts(record, h.given(chat))
    judge.retold(record, h.given(chat)[-1])
