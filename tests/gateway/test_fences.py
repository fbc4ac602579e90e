"""Law 10: whose call is this? Calls with real tokens, from processes that live, finished or died."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, record_tokens, script, until

from semel.gateway.errors import BadRequest, UnknownSpawn
from semel.gateway.turns.run import Run
from semel.ledger.turns.turns import TurnFence, release_lease

Json = dict[str, Any]


async def call(w: World, token: str, text: str, **more: Any) -> Json:
    params = {"token": token, "conn": "c1", "call": secrets.token_hex(8), "name": "send_message", "meta": {}}
    return await w.gateway.tools("call", {**params, "arguments": {"text": text}, **more})


async def test_a_call_after_its_turn_finished_is_late_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(tmp_path) as w:
        tokens = record_tokens(monkeypatch)
        await w.ask(script("done"))
        answer = await call(w, tokens[0], "One more thing.")
        assert answer["ok"]
        entry = (await w.entries())[-1]
        assert (entry["text"], entry["late"]) == ("One more thing.", True)


async def test_a_late_call_belongs_to_the_turn_that_announced_it_though_another_ran_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World(tmp_path) as w:
        tokens = record_tokens(monkeypatch)
        announced = {"sessionUpdate": "tool_call", "toolCallId": "T1", "title": "send", "status": "in_progress"}
        first = await w.ask(script("one", {"update": announced}))
        second = await w.ask(script("two"))
        answer = await call(w, tokens[0], "Of the first.", meta={"claudecode/toolUseId": "T1"})
        assert answer["ok"]
        entry = (await w.entries())[-1]
        assert (entry["text"], entry["late"]) == ("Of the first.", True)
        turns = [e["turn"] for e in await w.entries() if e["text"] in ("one", "two")]
        assert entry["turn"] == turns[0] != turns[1], (first, second)


async def test_a_call_after_a_cancel_is_refused_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(tmp_path) as w:
        tokens = record_tokens(monkeypatch)
        mark = tmp_path / "began"
        await w.gateway.say("s", script("x", {"touch": str(mark)}, {"hang": True}))
        await until(_exists(mark))
        await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        answer = await call(w, tokens[0], "Never.")
        assert not answer["ok"]
        assert "cancelled" in answer["text"]
        story = await w.gateway.why(answer["data"]["id"])
        assert any("refused" in line["text"] for line in story["lines"])


async def test_a_call_after_the_stop_is_refused_even_if_the_agent_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World(tmp_path) as w:
        tokens = record_tokens(monkeypatch)
        mark = tmp_path / "began"
        await w.gateway.say("s", script("x", {"deaf": True}, {"touch": str(mark)}, {"sleep": 60}))
        await until(_exists(mark))
        await w.gateway.controls.stop_turn("s", "me")
        answer = await call(w, tokens[0], "Never.")
        assert not answer["ok"]
        assert "cancelled" in answer["text"]
        assert "Never." not in await w.texts()


async def test_a_call_from_a_dead_process_is_refused_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World(tmp_path) as w:
        tokens = record_tokens(monkeypatch)
        await w.ask(script("one"))
        await w.gateway.spawns.drop(next(iter(w.gateway.spawns.live.values())), "test")
        answer = await call(w, tokens[0], "From an orphan.")
        assert not answer["ok"]
        assert "From an orphan." not in await w.texts()
        assert any("ended" in text for text in await w.texts("s", "notice"))


async def test_a_strangers_call_is_counted_and_not_recorded(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script("one"))
        before = await w.entries()
        with pytest.raises(UnknownSpawn):
            await call(w, "no such token", "Hello?")
        assert await w.entries() == before
        assert (await w.gateway.metrics())["semel_strangers_total"] == 1


async def test_the_same_call_id_is_one_message_however_often_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World(tmp_path) as w:
        tokens = record_tokens(monkeypatch)
        await w.ask(script("one"))
        answers = await asyncio.gather(*(call(w, tokens[0], "Once.", call="same") for _ in range(5)))
        assert {a["data"]["id"] for a in answers} == {answers[0]["data"]["id"]}
        assert (await w.texts("s", "agent")).count("Once.") == 1


async def test_one_call_id_for_two_texts_is_an_error_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World(tmp_path) as w:
        tokens = record_tokens(monkeypatch)
        await w.ask(script("one"))
        await call(w, tokens[0], "First.", call="same")
        with pytest.raises(BadRequest, match="give each tools/call an id of its own"):
            await call(w, tokens[0], "Second.", call="same")


async def test_a_turn_whose_fence_moved_on_cannot_write(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script("one"))
        with pytest.raises(Exception, match="no longer runs"):
            await w.gateway.record.write(release_lease, TurnFence(1, 1, 1))


def _exists(path: Path) -> Any:
    async def there() -> bool:
        return path.exists()

    return there


async def test_a_repeated_call_is_one_message_though_the_first_was_slow_and_the_repetition_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool server died, its call was still being looked at, and the agent asked again by another one."""
    held, go_on = asyncio.Event(), asyncio.Event()
    find = Run.match_call

    async def slow(self: Run, tool: str | None, name: str, arguments: Json) -> tuple[str | None, int | None]:
        if not held.is_set():
            held.set()
            await go_on.wait()
        return await find(self, tool, name, arguments)

    monkeypatch.setattr(Run, "match_call", slow)
    async with World(tmp_path) as w:
        tokens = record_tokens(monkeypatch)
        mark = tmp_path / "began"
        await w.gateway.say("s", script("x", {"touch": str(mark)}, {"hang": True}))
        await until(_exists(mark))
        first = asyncio.create_task(call(w, tokens[0], "Once."))
        await held.wait()
        again = asyncio.create_task(call(w, tokens[0], "Once.", conn="c2", call="again"))
        if (await asyncio.wait([again], timeout=1))[0]:
            await w.gateway.tools("answered", {"token": tokens[0], "call": "again"})
        go_on.set()
        assert (await first)["ok"]
        assert (await again)["ok"]
        assert (await w.texts()).count("Once.") == 1
