"""`/stop` while messages wait for further ones: the turn that was about to begin never does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from command_world import answer, command, given
from gateway_world import World, until

from semel.gateway.settings import SessionSettings, WakeSettings


async def test_a_stop_ends_what_waits_for_further_messages_and_nothing_that_came_after_it(tmp_path: Path) -> None:
    """So does one that names no turn. `/retry` runs again what was stopped."""
    log = tmp_path / "prompts"
    sessions = {"s": SessionSettings(wake=WakeSettings(debounce_s=60.0, max_wait_s=60.0))}
    async with World(tmp_path, log=log, sessions=sessions) as w:
        await w.gateway.say("s", "overheard", automatic=True)
        for text in ("one", "two"):
            await w.gateway.say("s", text, busy="collect")
        wake = w.gateway.commands.wake
        w.gateway.commands.wake = lambda session: None  # type: ignore[method-assign]  # it is executed later
        stop = await w.gateway.say("s", "/stop", sender="Ada")
        await w.gateway.say("s", "three")
        w.gateway.commands.wake = wake  # type: ignore[method-assign]
        wake(await w.gateway.record.find_session("s"))
        assert (await answer(w, stop.event)).startswith("The turn that was about to begin is stopped")
        users = [entry for entry in await w.entries() if entry["role"] == "user"]
        assert [entry.get("waiting") for entry in users if entry["text"] != "/stop"] == [None, None, None, "collect"]
        assert await w.gateway.controls.stop_turn("s", "Bob")
        assert not await w.gateway.controls.stop_turn("s", "Bob"), "nothing waits now"
        await w.idle()
        notices = [text for text in await w.texts("s", "notice") if text.startswith("Stopped")]
        assert (given(log), notices) == ([], ["Stopped by Ada.", "Stopped by Bob."])
        assert "runs again" in await command(w, "/retry")
        await until(lambda: asyncio.sleep(0, bool(given(log))))
        (prompt,) = given(log)
        assert prompt.endswith("\nthree")
