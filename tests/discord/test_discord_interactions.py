"""Slash commands and buttons: heard once, acknowledged in time, answered as any message is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from discord_house import ANN, BOB, DiscordHouse, discord, until

from semel.channels.discord import interactions
from semel.channels.discord.app_commands import list_commands
from semel.gateway.ports import Button, Incoming, Person
from semel.law.commands import COMMANDS
from semel.testing.discord.model import InteractionModel
from semel.testing.discord.routes import THINKS


async def acknowledged(house: DiscordHouse, id: str) -> InteractionModel:
    """The interaction, once it has its answer."""
    interaction = house.double.interactions[id]
    await until(lambda: interaction.answer is not None)
    return interaction


async def test_every_command_of_semel_is_offered_once_and_again_only_if_one_changed(there: DiscordHouse) -> None:
    await there.online()
    assert [command["name"] for command in there.double.commands] == list(COMMANDS)
    await there.restart()
    assert len(there.double.asked("PUT /applications")) == 1
    await there.restart(commands=False)
    assert there.double.commands == []


def test_offered_commands_keep_to_what_discord_takes() -> None:
    for command in list_commands():
        assert 1 <= len(command["description"]) <= 100
        for option in command.get("options", ()):
            assert option["name"].isalpha() and option["name"] == option["name"].lower() and not option["required"]


async def dismissed(house: DiscordHouse, id: str) -> InteractionModel:
    """The interaction, once its author sees nothing as its answer any more."""
    interaction = await acknowledged(house, id)
    await until(lambda: interaction.shown is None)
    return interaction


async def test_a_slash_command_is_a_message_and_is_acknowledged_without_words(hearing: DiscordHouse) -> None:
    id = hearing.double.command(hearing.room, ANN, "history", 5)
    [message] = await hearing.hear(1)
    assert (message.text, message.key, message.mentioned) == ("/history 5", f"{hearing.room}/{id}", True)
    assert message.sender == Person(ANN, "Annie") and message.address == hearing.room and message.group
    assert (await dismissed(hearing, id)).answer == {"type": 5, "data": {"flags": 64}}
    assert "token" not in str(message.data)


async def test_a_deferral_is_deleted_also_if_discord_does_not_take_it_at_once(
    hearing: DiscordHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "DELETE_RETRY_DELAY_S", 0.01)
    hearing.double.fail("DELETE /webhooks/*", "drop")
    hearing.double.fail("DELETE /webhooks/*", "502")
    await dismissed(hearing, hearing.double.command(hearing.room, ANN, "status"))
    assert len(hearing.double.asked("DELETE /webhooks")) == 3


async def test_a_slow_commit_is_bridged_by_a_deferral_that_is_deleted_after_it(
    there: DiscordHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "DEFER_AFTER_S", 0.05)
    await there.online()
    gate, put = asyncio.Event(), there.inbox.put

    async def slow_put(events: Any, cursor: str | None = None) -> None:
        await gate.wait()
        await put(events, cursor)

    monkeypatch.setattr(there.inbox, "put", slow_put)
    id = there.double.command(there.direct, ANN, "status")
    interaction = await acknowledged(there, id)
    assert interaction.shown == THINKS and there.inbox.events == []
    gate.set()
    await dismissed(there, id)
    assert [event.text for event in there.inbox.events] == ["/status"]


async def test_a_command_whose_commit_failed_is_heard_after_the_restart(hearing: DiscordHouse) -> None:
    hearing.inbox.fail = OSError("disk full")
    hearing.double.command(hearing.direct, ANN, "status")
    with pytest.raises(OSError, match="disk full"):
        assert hearing.task is not None
        await hearing.task
    await hearing.restart()
    assert [event.text for event in await hearing.hear(1)] == ["/status"]


# ---------------------------------------------------------------- buttons


BUTTONS = (Button("Allow", "/approve 7", "allow"), Button("Always", "/approve 8"), Button("Deny", "/approve 9", "deny"))


async def test_buttons_stand_under_a_message_and_a_press_is_an_answer_of_who_pressed(hearing: DiscordHouse) -> None:
    receipt = await hearing.channel.send(hearing.op("May I?", buttons=BUTTONS))
    [shown] = hearing.double.shown(hearing.room)
    [row] = shown["components"]
    assert [(one["label"], one["custom_id"], one["style"]) for one in row["components"]] == [
        ("Allow", "/approve 7", 3), ("Always", "/approve 8", 2), ("Deny", "/approve 9", 4),
    ]  # fmt: skip
    id = hearing.double.press(hearing.room, BOB, shown["id"], "/approve 7")
    press: Incoming = (await hearing.hear(2))[1]
    assert (press.text, press.of, press.key) == ("/approve 7", receipt.id, f"press:{id}")
    assert press.sender == Person(BOB, "Bob") and press.mentioned
    assert (await acknowledged(hearing, id)).answer == {"type": 6}


async def test_all_presses_of_a_question_have_one_key(hearing: DiscordHouse) -> None:
    receipt = await hearing.channel.send(hearing.op("Tea?", buttons=(Button("yes", "yes"), Button("no", "no"))))
    message = receipt.id.partition("/")[2]
    for who, answer in ((ANN, "yes"), (BOB, "no")):
        hearing.double.press(hearing.room, who, message, answer)
    heard = [event for event in await hearing.heard_next("after") if event.kind == "message"]
    assert [(event.text, event.key) for event in heard] == [("yes", f"pressed:{receipt.id}")]
    assert hearing.inbox.repeats == {f"pressed:{receipt.id}": 1}


async def test_twenty_five_buttons_fill_five_rows(tmp_path: Path) -> None:
    async with discord(tmp_path) as house:
        await house.channel.send(house.op("Which?", buttons=tuple(Button("x" * 99, str(n)) for n in range(25))))
        rows = house.double.shown(house.room)[0]["components"]
        assert [len(row["components"]) for row in rows] == [5] * 5
