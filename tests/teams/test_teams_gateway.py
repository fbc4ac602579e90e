"""A gateway with a Teams channel: what people there see of an agent, and what becomes of lost answers."""

from __future__ import annotations

from pathlib import Path

from gateway_world import script
from posting_double import find_shown
from teams_chat import chat
from teams_house import ANN, CHAT, until

ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}


async def test_a_request_is_answered_by_a_button_once_and_says_by_whom(tmp_path: Path) -> None:
    async with chat(tmp_path) as (_, house):
        house.double.write(ANN, script(ASK))
        asked = await find_shown(house.double, CHAT, "The agent asks for permission: rm -r build")
        await until(lambda: bool(house.double.buttons(asked)))
        stale = house.double.sent[asked]["message"]
        house.double.press(ANN, asked, "Allow once")
        await find_shown(house.double, CHAT, "tidy")
        await until(lambda: house.double.buttons(asked) == [])
        assert "ann" in house.double.texts(CHAT)[0].lower()
        house.double.sent[asked]["message"] = stale  # who has not seen the edit yet
        house.double.press(ANN, asked, "Allow once")
        await find_shown(house.double, CHAT, "That request is gone")
        assert len([text for text in house.double.texts(CHAT) if text == "tidy"]) == 1


async def test_a_lost_answer_leaves_a_placeholder_at_worst_and_holds_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path) as (world, house):
        house.double.fail("post", "drop", after=True)
        house.double.fail("edit", "502", after=True)
        house.double.write(ANN, script("one"))
        await find_shown(house.double, CHAT, "one")

        async def is_sent() -> bool:
            return {part["state"] for part in await world.gateway.parts()} == {"sent"}

        await until(is_sent)
        assert sorted(house.double.texts(CHAT)) == ["one", "…"]


async def test_each_thread_is_a_session_and_is_answered_in_its_place(tmp_path: Path) -> None:
    async with chat(tmp_path) as (_, house):
        roots = [house.double.write(ANN, script(text), address=house.garden) for text in ("roses", "leaves")]
        for root, text in zip(roots, ("roses", "leaves"), strict=True):
            await find_shown(house.double, f"{house.garden};messageid={root}", text)
        house.double.write(ANN, script("thorns"), address=f"{house.garden};messageid={roots[0]}")
        thread = f"{house.garden};messageid={roots[0]}"
        await find_shown(house.double, thread, "thorns")
        assert house.double.texts(thread) == ["roses", "thorns"]
