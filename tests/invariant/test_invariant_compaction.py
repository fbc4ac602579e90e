"""A conversation that outgrew its context: the record is whole, and the model is told each turn once (Law 4)."""

from __future__ import annotations

from pathlib import Path

import invariant_judge as judge
import pytest
from invariant_house import SUMMARY, house
from model_server import Answer

LONG = "word " * 400  # 2,000 bytes; the context below holds 9,000 for the past and the system prompt


@pytest.mark.parametrize("kind", ["openai-chat", pytest.param("anthropic", marks=pytest.mark.long)])
async def test_older_turns_are_told_as_a_summary_and_nothing_of_the_record_is_lost(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))
    async with house(kind, tmp_path, attempts=2, model={"context": 4_000}) as h:
        chat = h.chats[0]
        answers: list[str] = []
        while h.router.summaries < 2 and len(answers) < 20:
            text = f"Answer {len(answers)}. {LONG}"
            cut = [Answer([text[:30]], cut="reset")] if len(answers) % 3 == 1 else []  # and said anew
            await h.say(chat, [*cut, Answer([text])])
            if chat.watching is None:
                await chat.watch()
            await chat.rest()
            answers.append(text)
        assert h.router.summaries == 2
        record = chat.record()
        judge.transcript(record, h.said(chat))
        judge.view(record, chat.view.entries.values())
        judge.received(record, chat.received, answers)
        told = [row for row in record.rows if row.more.get("kind") == "summary"]
        assert [row.text for row in told] == [SUMMARY, SUMMARY]

        talk = h.asked(chat)[-1].talk
        flat = judge.pieces(talk)
        asked = [text for role, text in flat if role == "user"]
        assert asked == h.said(chat)[-len(asked) :], "the newest turns, each once, in their order"
        assert 1 < len(asked) < len(answers)
        said = [text for role, text in flat if role == "assistant"]
        assert [judge.bare(text) for text in said] == [judge.bare(text) for text in answers[-len(asked) : -1]]
        assert "".join(text for _, text in talk).count(SUMMARY) == 1, "the newest summary, once"
