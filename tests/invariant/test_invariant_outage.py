"""A model's API that is down for minutes: the turn waits where people see it, is tried again, and ends (Laws 7, 9)."""

from __future__ import annotations

from pathlib import Path

import invariant_judge as judge
import pytest
from invariant_house import house
from invariant_ways import FAILED
from model_server import Answer

from semel.law import turn as law
from semel.law.retries import MAX_RETRY_AFTER_S


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["openai-chat", pytest.param("anthropic", marks=pytest.mark.long)])
async def test_the_time_that_an_api_asks_for_is_kept_to(tmp_path: Path, kind: str) -> None:
    async with house(kind, tmp_path, attempts=3) as h:
        chat = h.chats[0]
        await h.say(chat, [Answer(status=503, retry_after="1"), Answer(["Back."])])
        await chat.watch()
        await chat.rest()
        judge.shown(chat.record(), ["notice retry: The agent's turn failed: ", "agent: Back."])
        assert "It is tried again in 1 s (attempt 2)." in chat.record().rows[1].text
        assert h.router.times[1] - h.router.times[0] >= 1.0
        assert chat.received == ["Back."], "a short pause is no news for a chat"


@pytest.mark.parametrize("kind", ["acp", "openai-chat"])
async def test_a_long_wait_is_told_in_the_chat_and_can_be_stopped(tmp_path: Path, kind: str) -> None:
    async with house(kind, tmp_path, attempts=3) as h:
        chat = h.chats[0]
        down = {"error": {"code": -32603, "message": "503 Unavailable, retry after 90 s"}}
        await h.say(chat, [down] if kind == "acp" else [Answer(status=503, retry_after="90")])
        await chat.watch()
        await chat.sees("turn.retry")
        assert await h.world.gateway.controls.stop_turn(chat.key, "me")
        await chat.rest()
        told, stopped = chat.received
        assert stopped == "Stopped by me."
        assert "It is tried again in 9" in told or "It is tried again in 2 min" in told
        judge.transcript(chat.record(), h.said(chat))


@pytest.mark.parametrize("kind", ["acp", "openai-chat"])
async def test_a_wait_without_bounds_is_a_failure(tmp_path: Path, kind: str) -> None:
    async with house(kind, tmp_path, attempts=3) as h:
        chat = h.chats[0]
        down = {"error": {"code": -32603, "message": "503 Unavailable, retry after 3600 s"}}
        await h.say(chat, [down] if kind == "acp" else [Answer(status=503, retry_after="3600")])
        await chat.watch()
        await chat.rest()
        judge.shown(chat.record(), [FAILED])


def test_no_turn_waits_for_ever() -> None:
    waits = [law.delay_after_failure(attempt=n, is_transient=True, retry_after=MAX_RETRY_AFTER_S) for n in range(1, 9)]
    assert waits == [MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S, *[None] * 6]
