"""A gateway with a Signal account: what people see of an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script
from signal_house import ACCOUNT_ID, SignalHouse, signal, until

from semel.channels.signal import receive
from semel.gateway.settings import ChannelSettings, PersonSettings

ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}


@asynccontextmanager
async def account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[World, SignalHouse]]:
    """A gateway with an account that talks to Ann, the owner, and Bob, a member."""
    monkeypatch.setattr(receive, "QUIET_S", 0.05)
    async with signal(tmp_path) as house:
        listed = (
            PersonSettings(name="ann", role="owner", accounts=(f"signal:{house.ann}",)),
            PersonSettings(name="bob", role="member", accounts=(f"signal:{house.bob}",)),
        )
        world = World(
            tmp_path, channels={"signal": house.channel}, people={one.name: one for one in listed},
            channel_settings={"signal": ChannelSettings(name="signal", kind="signal", **settings)},
            agent={"approvals": ("owner",)},
        )  # fmt: skip
        async with world:
            await until(lambda: bool(house.double.requests))  # it has asked for the version
            yield world, house


async def test_people_talk_to_an_agent_and_approve_what_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with account(tmp_path, monkeypatch) as (world, house):
        double = house.double
        double.write(house.ann, script("Hello **Ann**."))
        await until(lambda: double.texts(house.ann) == ["Hello Ann."])
        [answer] = double.shown(house.ann)
        assert (len(answer.edits), answer.params["textStyle"]) == (1, ["6:3:BOLD"])  # its place was reserved
        mention = double.mention(ACCOUNT_ID, 0)
        asked = double.write(house.bob, f"\ufffc {script('Hello all.')}", house.room, mentions=[mention])
        await until(lambda: double.texts(house.room) == ["Hello all."])
        [answer] = double.shown(house.room)
        assert (answer.params["quoteTimestamp"], answer.params["quoteAuthor"]) == (asked, house.bob)
        double.write(house.ann, script(ASK))
        await until(lambda: any("rm -r build" in text for text in double.texts(house.ann)))
        question = next(text for text in double.texts(house.ann) if "rm -r build" in text)
        assert "The owner answers /approve" in question
        await world.sent()  # nobody answers within the moment until the gateway knows that the question arrived
        double.write(house.ann, "/approve")
        await until(lambda: "tidy" in double.texts(house.ann))
        assert double.typing


async def test_a_reaction_answers_a_request_in_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with account(tmp_path, monkeypatch) as (world, house):
        double = house.double
        double.write(house.bob, f"\ufffc {script(ASK)}", house.room, mentions=[double.mention(ACCOUNT_ID, 0)])
        await until(lambda: any("1. ✅ Allow once" in text for text in double.texts(house.room)))
        await world.sent()
        [asked] = double.shown(house.room)
        double.react(house.bob, ACCOUNT_ID, asked.time, "✅", house.room)
        await until(lambda: any("/approve: " in text for text in double.texts(house.room)))
        double.react(house.ann, ACCOUNT_ID, asked.time, "✅", house.room)
        await until(lambda: "tidy" in double.texts(house.room))
        await until(lambda: asked.text.endswith("\n\nAllow once, by ann"))
        double.react(house.ann, ACCOUNT_ID, asked.edits[-1], "❌", house.room)  # apps may name the last edit
        await until(lambda: any("gone: Allow once, by ann" in text for text in double.texts(house.room)))
        assert not asked.reactions


@pytest.mark.channels
async def test_a_message_whose_answer_is_lost_is_held_if_no_place_is_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with account(tmp_path, monkeypatch, reserve=False) as (world, house):
        house.double.fail("send", "die", after=True)
        house.double.write(house.ann, script("Hello."))
        await until(lambda: len(house.double.starts) == 2)
        assert house.double.texts(house.ann)[0] == "Hello."
        house.double.write(house.ann, script("Again."))
        await until(lambda: "Again." in house.double.texts(house.ann))
        assert house.double.texts(house.ann).count("Hello.") == 1
        notices = await world.texts(f"demo:signal:{house.ann}", "notice")
        assert sum("was held: signal-cli ended before it answered" in notice for notice in notices) == 1


@pytest.mark.channels
async def test_a_lost_answer_leaves_a_stray_place_at_worst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with account(tmp_path, monkeypatch) as (_, house):
        house.double.fail("send", "die", after=True)
        house.double.write(house.ann, script("Hello."))
        await until(lambda: "Hello." in house.double.texts(house.ann), 60.0)
        assert house.double.texts(house.ann) == ["…", "Hello."]
