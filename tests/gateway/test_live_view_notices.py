"""What an agent must be told rides in the next prompt that reaches it, and no stop on the way eats it (Law 7)."""

from __future__ import annotations

from pathlib import Path

from gateway_world import World, script, until

from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.ledger.transcript import views
from semel.ledger.turns import turns
from semel.ledger.turns.turns import EntryToTellRow
from semel.testing import FakeChannel


async def to_tell(w: World) -> list[str]:
    return await w.gateway.record.read(
        lambda tx: [e.text for e in tx.all(EntryToTellRow, "entries_to_tell", session=views.find_session(tx, "s").id)]
    )


async def test_a_notice_outlives_a_turn_that_was_stopped_before_its_agent_was_asked(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.report("s", "exec.progress", "half", wakes=False)
        await w.gateway.record.write(turns.add_notice, 1, "A message was held.")
        await w.gateway.say("s", script("Never said."))
        assert await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        assert await w.texts("s", "agent") == []
        assert "A message was held." in await to_tell(w)
        assert await w.ask(script("Now I know.")) == ["Now I know."]
        assert "A message was held." not in await to_tell(w)


async def test_half_of_a_surrogate_pair_is_heard_and_answered(tmp_path: Path) -> None:
    """A client that cuts an emoji in two: nothing is refused, nothing breaks, a repeat is a repeat."""
    async with World(tmp_path) as w:
        first = await w.gateway.say("s", "cut \ud83d", key="m1", sender="\udc00anna")
        again = await w.gateway.say("s", "cut \ud83d", key="m1", sender="\udc00anna")
        assert (first.status, again.status) == ("accepted", "duplicate")
        await w.gateway.report(
            "s", "note", "x", data={"deep": [{"\ud800": "\ud83d\ude00 \udfff"}], "n": 10**30}, wakes=False
        )
        await w.idle()
        entries = await w.entries()
        assert (entries[0]["text"], entries[0]["sender"]) == ("cut \ufffd", "\ufffdanna")
        (note,) = [e for e in entries if e["role"] == "event"]
        assert note["data"] == {"deep": [{"\ufffd": "\U0001f600 \ufffd"}], "n": 10**30}


async def test_an_answer_shown_before_its_agent_died_still_leaves_for_the_chat(tmp_path: Path) -> None:
    """Only closing texts leave for this chat. The agent that resumes knows that it has answered, and adds nothing."""
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    settings = {"chat": ChannelSettings(name="chat", kind="fake")}
    world = World(tmp_path, channels={"chat": chat}, channel_settings=settings)
    async with world as w:
        steps = [{"tool": "look"}, "All done: 42.", {"sleep": 0.3}, {"die": 9}]
        await w.gateway.say("demo:chat:7", script(*steps, resume=[{"think": "I have answered."}]))
        await w.idle("demo:chat:7")

        async def arrived() -> bool:
            return chat.platform.shown("7") == ["All done: 42."]

        await until(arrived)
        assert await w.texts("demo:chat:7", "agent") == ["All done: 42."]
