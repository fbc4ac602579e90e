"""A message that joined a turn which then failed is asked again together with it, and answered once (Laws 3, 4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import invariant_judge as judge
import pytest
from gateway_world import until
from invariant_house import house
from invariant_ways import RETRY, error
from model_server import Answer


@pytest.mark.parametrize("kind", ["acp", "openai-chat", pytest.param("anthropic", marks=pytest.mark.long)])
async def test_a_steered_message_is_asked_again_with_the_turn_it_joined(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))
    go, gate = tmp_path / "go", asyncio.Event()
    async with house(kind, tmp_path, attempts=2) as h:
        chat = h.chats[0]
        waits = [{"text": "Half of ", "chunks": 1}, {"wait": str(go)}, error("503 Unavailable")]
        cut = Answer(["Half of "], gate=gate, cut="reset")
        await h.say(chat, [waits, []] if kind == "acp" else [cut, Answer(["Both."])])
        await chat.watch()
        await chat.sees("text")
        await h.say(chat, ["Both."] if kind == "acp" else [], busy="steer")

        async def joined() -> bool:
            return any(row.get("joined") for row in chat.view.entries.values())

        await until(joined)
        go.touch()
        gate.set()
        await chat.rest()
        record = chat.record()
        judge.transcript(record, h.said(chat))
        judge.shown(record, ["agent partial: Half of ", f"user: {h.said(chat)[1]}", RETRY, "agent: Both."])
        judge.received(record, chat.received, ["Both."])
        assert len({record.root(row.turn) for row in record.rows}) == 1, "one turn for both"

        await h.say(chat, ["Then this."] if kind == "acp" else [Answer(["Then this."])])
        await chat.rest()
        if kind == "acp":
            judge.prompts(chat.record(), h.given(chat))
        else:
            judge.history(chat.record(), h.asked(chat)[-1].talk)
