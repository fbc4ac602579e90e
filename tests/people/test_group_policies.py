"""Groups: what is heard there, what wakes, and who may talk."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_world import script
from people_world import ADA, BOB, EVE, Chat, said

from semel.gateway.ports import Incoming
from semel.gateway.settings import ChannelSettings, GroupSettings
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns.turn_events import TurnEvent, is_home_group

OWN = {
    "groups": "mention",
    "group": {
        "loud": GroupSettings(policy="always"),
        "quiet": GroupSettings(policy="never"),
        "open": GroupSettings(policy="mention", strangers="guest"),
        "-100*": GroupSettings(policy="always", strangers="guest"),
        "-100*:7": GroupSettings(policy="never"),
    },
}
CASES = [  # who, room, mentioned, refused, wakes
    (ADA, "any", True, None, None),
    (ADA, "any", False, None, False),
    (EVE, "any", True, "stranger", None),
    (ADA, "loud", False, None, None),
    (BOB, "quiet", True, "group", None),
    (EVE, "quiet", True, "stranger", None),
    (EVE, "open", True, None, None),
    (EVE, "open", False, None, False),
    (EVE, "-1001234", False, None, None),
    (ADA, "-1001234:7", False, None, None),  # the first pattern that fits
]


@pytest.mark.parametrize(("who", "room", "mentioned", "refused", "wakes"), CASES)
async def test_the_policy_of_a_group_decides(
    tmp_path: Path, who: object, room: str, mentioned: bool, refused: str | None, wakes: bool | None
) -> None:
    async with Chat(tmp_path, own=OWN) as w:
        verdict = await w.judge(said("hi", who, room, group=True, mentioned=mentioned))  # type: ignore[arg-type]
        assert (verdict.refused, verdict.wakes) == (refused, wakes)
        assert (await w.judge(said("hi", ADA, room))).refused is None  # alone with it, a group's rules are nobody's


async def test_whose_files_are_fetched_is_decided_by_the_group_too(tmp_path: Path) -> None:
    async with Chat(tmp_path, own=OWN) as w:
        known = w.gateway.people.may_speak
        assert await known("chat", EVE, "open") and await known("chat", EVE, "-1001234")
        assert not await known("chat", EVE) and not await known("chat", EVE, "any")
        assert await known("chat", ADA, "any")


def test_a_group_of_its_own_address_comes_before_a_pattern() -> None:
    group = {
        "*": GroupSettings(policy="never"),
        "a": GroupSettings(policy="always"),
        "[a]": GroupSettings(policy="always", strangers="guest"),
    }
    own = ChannelSettings(name="chat", kind="fake", groups="mention", group=group)
    assert (own.room("a").policy, own.room("b").policy, own.room("[a]").strangers) == ("always", "never", "guest")
    assert ChannelSettings(name="chat", kind="fake", groups="always").room("a") == GroupSettings(
        policy="always", strangers="refuse"
    )


async def test_what_is_not_meant_for_it_is_read_with_the_next_turn(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.tell("just between us", BOB, "room", group=True)
        await w.tell("/stop", BOB, "room", group=True)  # for another bot
        assert (await w.gateway.session("demo:chat:room"))["state"] == "idle"
        assert await w.texts("demo:chat:room") == ["just between us", "/stop"]
        await w.tell("hello you", BOB, "room", group=True, mentioned=True)
        await w.until_shown("hello you", "room")
        await w.idle("demo:chat:room")
        await w.tell("/status", BOB, "room", group=True, mentioned=True)
        await w.until_shown("demo", "room")
        await w.tell("hi", EVE, "room", group=True, mentioned=True)
        assert "hi" not in await w.texts("demo:chat:room", "user")
        assert w.refused() == {"stranger": 1}


async def test_where_nothing_is_heard_nothing_is_recorded(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"groups": "never"}) as w:
        before = await w.rows()
        await w.tell("hello", ADA, "room", group=True, mentioned=True)
        await w.chat.tell(Incoming("reaction", "r1", "room", ADA, "+1", of="m1", group=True))
        assert await w.rows() == before
        assert w.refused() == {"group": 2}
        assert w.people.refused()["strangers"] == []  # she is none


async def test_a_question_in_a_group_says_to_reply_to_it(tmp_path: Path) -> None:
    ask = {"call": "ask", "arguments": {"question": "Which?", "options": ["red", "blue"]}}
    async with Chat(tmp_path) as w:
        await w.tell(script(ask), BOB, "room", group=True, mentioned=True)
        question = "Which?\n1. red\n2. blue"
        assert await w.until_shown("Which?", "room") == f"{question}\n\nIn the group, reply to this message to answer."
        await w.tell(script(ask), ADA, "ada-dm")
        assert await w.until_shown("Which?", "ada-dm") == question


async def test_whether_a_home_is_a_group_is_known_also_if_nobody_there_asked_for_the_turn(tmp_path: Path) -> None:
    """So what a schedule has an agent ask in a group says to reply to it, too."""
    firing = TurnEvent(1, 1, "schedule:daily", "schedule", None, "Look.", {}, 0)

    def is_group(tx: Tx, key: str) -> bool:
        return is_home_group(tx, tx.get(SessionRow, "session_by_key", key=key), [firing])

    async with Chat(tmp_path) as w:
        for room, group in (("room", True), ("bob-dm", False)):
            await w.tell("hello", BOB, room, group=group, mentioned=group)
            await w.until_shown("hello", room)
            assert await w.gateway.record.read(is_group, f"demo:chat:{room}") is group
