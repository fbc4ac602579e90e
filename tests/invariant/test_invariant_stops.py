"""A stop is kept: what a person stopped is not run again, whoever dies before it ended (Laws 6, 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import invariant_judge as judge
import pytest
from invariant_house import house
from invariant_ways import STOPPED, error
from model_server import Answer

HALF: dict[str, Any] = {"text": "Half of ", "chunks": 1}
DEAF: list[Any] = [HALF, {"deaf": True}, {"sleep": 60}]


@pytest.mark.parametrize("does", ["stop", "interrupt"])
async def test_a_turn_that_was_stopped_is_not_run_again_by_the_next_gateway(tmp_path: Path, does: str) -> None:
    """The agent does not hear the stop; the gateway ends before the agent is ended."""
    async with house("acp", tmp_path, attempts=3) as h:
        chat = h.chats[0]
        await h.say(chat, DEAF)
        await chat.watch()
        await chat.sees("text")
        newer = []
        if does == "stop":
            assert await h.world.gateway.controls.stop_turn(chat.key, "me")
        else:
            await h.say(chat, ["Now this."], busy="interrupt")
            newer = [f"user: {h.said(chat)[1]}"]
        await chat.leave()
        await h.world.stop()
        await h.world.start()
        await chat.watch()
        await chat.rest()
        answer = ["agent: Now this."] if newer else []
        record = chat.record()
        judge.transcript(record, h.said(chat))
        judge.shown(record, ["agent partial: Half of ", *newer, STOPPED, *answer])
        judge.prompts(record, h.given(chat))
        assert len(h.given(chat)) == 1 + len(newer)


async def test_a_turn_that_waits_to_be_tried_again_is_interrupted_also_by_a_message_before_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house("acp", tmp_path, attempts=3) as h:
        chat = h.chats[0]
        await h.say(chat, [error("503 Unavailable")])
        await chat.watch()
        await chat.sees("retry")
        monkeypatch.setattr(h.world.gateway.turns, "act_on", lambda heard: None)  # the gateway ends before it heeds it
        await h.say(chat, ["Now this."], busy="interrupt")
        await chat.leave()
        await h.world.stop()
        await h.world.start()
        await chat.watch()
        await chat.rest()
        judge.transcript(chat.record(), h.said(chat))
        assert [str(row)[:24] for row in chat.record().rows[-2:]] == [f"{STOPPED}a "[:24], "agent: Now this."]
        assert chat.received == ["Stopped by a newer message.", "Now this."], "the newer message came by another face"


@pytest.mark.parametrize("kind", ["acp", "openai-chat"])
async def test_that_a_turn_is_tried_again_is_no_answer(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))
    monkeypatch.setattr("semel.gateway.turns.turn_end.LONG_DELAY_S", 0.0)  # each wait is told in the chat
    async with house(kind, tmp_path, attempts=2) as h:
        chat = h.chats[0]
        await h.say(chat, [[error("503 Unavailable")], []] if kind == "acp" else [Answer(status=503), Answer()])
        await chat.watch()
        await chat.rest()
        empty = "The agent ended its turn without a word."
        judge.shown(chat.record(), ["notice turn.retry: The agent's turn failed: ", f"notice turn.empty: {empty}"])
        assert chat.received[1:] == [empty]
