"""A watcher learns which events a finished turn took, and how it ended, after everything that the turn showed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway_world import World, script

Json = dict[str, Any]


async def ends(w: World) -> list[Json | None]:
    """How the turn of each of the person's messages ended."""
    return [entry.get("ended") for entry in await w.entries() if entry["role"] == "user"]


async def test_the_end_comes_behind_everything_that_the_turn_said(tmp_path: Path) -> None:
    gate = tmp_path / "go on"
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"wait": str(gate)}, {"tool": "ls"}, "Done.", stop="max_tokens"))
        changes: list[Json] = []
        async for frame in w.gateway.watch("s"):
            gate.touch()
            changes += frame.get("changes", ())
            if changes and changes[-1].get("state") == "idle":
                break
        *_, notice, end, idle = changes
        assert end["ended"] == {"turn": 1, "state": "done", "stop": "max_tokens"}
        assert (end["seq"], end["role"], idle["op"]) == (1, "user", "session")
        assert notice["role"] == "notice", "the answer was cut off at the token limit"
        answer = next(e for e in reversed(changes) if e.get("role") == "agent")
        assert (answer["text"], "live" in answer) == ("Done.", False)


async def test_each_of_two_queued_messages_has_the_end_of_its_own_turn(tmp_path: Path) -> None:
    gate = tmp_path / "go on"
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"wait": str(gate)}, "One."))
        await w.gateway.say("s", script("Two.", stop="refusal"), busy="queue")
        assert await ends(w) == [None, None]
        gate.touch()
        await w.idle()
        assert await ends(w) == [
            {"turn": 1, "state": "done", "stop": "end_turn"},
            {"turn": 2, "state": "done", "stop": "refusal"},
        ]


async def test_messages_that_one_turn_took_end_together_and_one_that_asked_for_none_has_no_end(tmp_path: Path) -> None:
    gate = tmp_path / "go on"
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"wait": str(gate)}, "One."))
        await w.gateway.say("s", "by the way", wakes=False)
        await w.gateway.say("s", "two", busy="queue")
        await w.gateway.say("s", script("Both."), busy="queue")
        gate.touch()
        await w.idle()
        second = {"turn": 2, "state": "done", "stop": "end_turn"}
        assert (await ends(w))[1:] == [None, second, second]


async def test_a_stopped_turn_is_cancelled_and_a_failed_one_says_why(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.say("s", script({"text": "Well"}, {"hang": True}))
        await w.gateway.controls.stop_turn("s", "Ann")
        await w.idle()
        await w.ask(script({"error": {"code": -32602, "message": "no such thing"}}))
        stopped, failed = await ends(w)
        assert stopped is not None and stopped["state"] == "cancelled"
        assert failed == {"turn": 2, "state": "failed", "stop": "error", "error": "no such thing"}


async def test_a_lost_attempt_is_no_end(tmp_path: Path) -> None:
    attempts = [["Half an ans", {"sleep": 0.1}, {"die": 9}], ["The whole."]]
    async with World(tmp_path) as w:
        await w.gateway.say("s", script(attempts=attempts))
        changes: list[Json] = []
        async for frame in w.gateway.watch("s"):
            changes += [*frame.get("entries", ()), *frame.get("changes", ())]
            if any("ended" in change for change in changes):
                break
        (end,) = [change["ended"] for change in changes if "ended" in change]
        assert end == {"turn": 2, "state": "done", "stop": "end_turn"}


async def test_a_turn_that_is_given_up_ends_as_failed(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask(script({"exit": 3}))
        (end,) = await ends(w)
        assert end is not None and end["state"] == "failed" and "error" in end
