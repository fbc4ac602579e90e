"""Configuration options of an agent: set, checked, told to watchers, and set again for the agent's next process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script

from semel.gateway.errors import BadRequest

Json = dict[str, Any]


def current(session: Json) -> dict[str, Any]:
    return {option["id"]: option["currentValue"] for option in session["options"]}


async def test_an_option_is_set_at_once_and_watchers_see_it(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        before = await w.gateway.start_agent("s")
        assert current(before) == {"model": "brisk", "effort": "low", "search": False}
        await w.gateway.controls.set_option("s", "effort", "high")
        await w.gateway.controls.set_option("s", "search", True)
        session = await w.gateway.session("s")
        assert current(session) == {"model": "brisk", "effort": "high", "search": True}
        assert session["chosen"] == {"effort": "high", "search": True}
        assert session["rev"] > before["rev"]


async def test_a_later_process_of_the_agent_gets_what_was_set(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.start_agent("s")
        await w.gateway.controls.set_option("s", "effort", "high")
        assert await w.ask(script("Hi.")) == ["Hi."]
        await w.gateway.spawns.end(1, "a test")
        await w.gateway.controls.set_option("s", "search", True)  # while none runs
        await w.gateway.start_agent("s")
        live = w.gateway.spawns.live[1]
        assert current({"options": live.conversation.options}) == {"model": "brisk", "effort": "high", "search": True}


async def test_an_option_may_be_the_model(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.start_agent("s")
        await w.gateway.controls.set_option("s", "model", "slow")
        session = await w.gateway.session("s")
        assert (session["model"], session["models"]["currentValue"]) == ("slow", "slow")
        assert "chosen" not in session


async def test_what_the_agent_does_not_offer_is_refused_with_what_it_offers(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.gateway.make_session("s")
        for option, value, why in (
            ("colour", "red", r"there is no option 'colour'. There are: model, effort, search"),
            ("effort", "huge", r"option 'effort' has no value 'huge'. There are: low, high"),
            ("search", "on", r"option 'search' is on or off: give true or false"),
            ("effort", True, r"option 'effort' is not a switch"),
        ):
            with pytest.raises(BadRequest, match=why):
                await w.gateway.controls.set_option("s", option, value)
