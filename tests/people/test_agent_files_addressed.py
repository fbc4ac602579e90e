"""A file belongs to the text that it stands in: to its destination, to home, or to nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import script
from people_world import Chat

from semel.gateway.settings import DestinationSettings

Json = dict[str, Any]
KEY = "demo:chat:dm"
BOSS = {
    "boss": DestinationSettings(name="boss", channel="chat", address="boss", allow=("*",)),
    "me": DestinationSettings(name="me", channel="chat", address="dm", allow=("*",)),
}
PLAN = {"type": "resource", "resource": {"uri": "file:///x/plan.txt", "mimeType": "text/plain", "text": "fire bob"}}
EMPTY = {"type": "resource", "resource": {"uri": "file:///x/secret.txt", "mimeType": "text/plain", "text": ""}}
NOTHING: list[Json] = [{"sleep": 0.01}]
TO_BOSS = ('<message to="boss">The plan: ', PLAN, " as agreed.</message>", "I told the boss.")
INSIDE = ("<internal>Not for them: ", PLAN, " end.</internal>", "It is on its way.")


def steps(*parts: Any) -> list[Json]:
    found = [part if isinstance(part, dict) else {"type": "text", "text": part} for part in parts]
    return [{"update": {"sessionUpdate": "agent_message_chunk", "content": one}} for one in found]


def whole(*parts: Any) -> list[Json]:
    found = [part if isinstance(part, dict) else {"type": "text", "text": part} for part in parts]
    return [{"update": {"sessionUpdate": "agent_message", "messageId": "m1", "content": found}}]


def remembered(*parts: Any) -> list[Json]:
    """Its gateway had died before anybody received it; the agent's history holds it."""
    updates = [one["update"] for one in steps(*parts)]
    return [{"tool": "x"}, *({"remember": one} for one in updates), {"save": True}, {"sleep": 0.2}, {"die": 9}]


WAYS = [pytest.param(way, id=way.__name__) for way in (steps, whole, remembered)]


def left(w: Chat, room: str) -> list[str]:
    posts = [post for post in w.chat.platform.log if post.address == room]
    return [post.text if post.kind == "post" else f"<{post.kind}>" for post in posts]


async def ask(w: Chat, said: list[Json], **more: Any) -> None:
    await w.tell(script(*said, **({"resume": NOTHING} if {"die": 9} in said else {}), **more))
    await w.idle(KEY)
    await w.sent()
    assert (await w.gateway.doctor())["ok"]


async def names(w: Chat) -> list[str]:
    return [file["name"] for entry in await w.entries(KEY) for file in entry.get("files", [])]


@pytest.mark.parametrize("narration", ["all", "last"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_file_in_an_addressed_text_goes_there_behind_it(tmp_path: Path, way: Any, narration: str) -> None:
    async with Chat(tmp_path, own={"narration": narration}, destinations=BOSS) as w:
        await ask(w, way(*TO_BOSS))
        assert left(w, "boss") == ["The plan:  as agreed.", "<file>"]
        assert left(w, "dm") == ["I told the boss."]
        [entry] = [one for one in await w.entries(KEY) if one.get("files")]
        assert entry["to"] == "chat:boss"


@pytest.mark.parametrize("narration", ["all", "last"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_file_in_internal_text_is_shown_to_nobody(tmp_path: Path, way: Any, narration: str) -> None:
    async with Chat(tmp_path, own={"narration": narration}, destinations=BOSS) as w:
        await ask(w, way(*INSIDE))
        assert left(w, "dm") == ["It is on its way."] and await names(w) == []


@pytest.mark.parametrize(
    "said",
    [
        ("<internal", PLAN, ">x</internal>", "Hi."),
        ("<internal>a `", PLAN, "` b</internal>Hi."),
        ('<message to="boss">x<internal>', PLAN, "</internal></message>Hi."),
        ("<internal>a", EMPTY, "</internal>Hi."),
    ],
)
async def test_wherever_in_internal_text_it_stands_it_stays_inside(tmp_path: Path, said: tuple[Any, ...]) -> None:
    async with Chat(tmp_path, destinations=BOSS) as w:
        await ask(w, steps(*said))
        assert left(w, "dm") == ["Hi."] and await names(w) == []
        assert not [one for one in await w.entries(KEY) if one["role"] != "user" and "secret" in one["text"]]


@pytest.mark.parametrize(
    "said",
    [
        ('<message to="bos">', PLAN, "</message>"),
        ('<message to="boss">Look: ', PLAN),
        ("<internal>Look: ", PLAN),
        ('<message to="boss">', EMPTY, "</message>"),
    ],
)
async def test_what_cannot_go_where_it_was_meant_to_is_held_back_and_told(
    tmp_path: Path, said: tuple[Any, ...]
) -> None:
    async with Chat(tmp_path, destinations=BOSS) as w:
        await ask(w, steps(*said), correct=["Sorry."])
        assert await names(w) == [] and left(w, "boss") == []
        held = [one["text"] for one in await w.entries(KEY) if one["text"].startswith("Held back")]
        assert len(held) == 1 and ("file" in held[0])


async def test_a_file_alone_is_a_message_to_its_place(tmp_path: Path) -> None:
    async with Chat(tmp_path, destinations=BOSS) as w:
        await ask(w, steps('<message to="boss">', PLAN, "</message>"))
        assert left(w, "boss") == ["<file>"] and await names(w) == ["plan.txt"]


async def test_the_same_file_goes_to_each_place_it_was_written_to(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"narration": "all"}, destinations=BOSS) as w:
        await ask(w, steps(*TO_BOSS[:3], "Yours: ", PLAN, " and ", PLAN))
        assert left(w, "boss").count("<file>") == left(w, "dm").count("<file>") == 1


@pytest.mark.parametrize("narration", ["all", "last"])
@pytest.mark.parametrize("name", ["home", "me"])
async def test_a_file_that_was_addressed_home_is_said_there_in_its_order(
    tmp_path: Path, name: str, narration: str
) -> None:
    async with Chat(tmp_path, own={"narration": narration}, destinations=BOSS) as w:
        await ask(w, steps("Before.", f'<message to="{name}">Yours:', PLAN, "</message>", "Behind."))
        assert left(w, "dm") == ["Before.", "Yours:", "<file>", "Behind."]


async def test_a_place_that_takes_no_files_is_told_of_it_in_words(tmp_path: Path) -> None:
    async with Chat(tmp_path, facts={"files": False}, destinations=BOSS) as w:
        await ask(w, steps(*TO_BOSS))
        text, told = left(w, "boss")
        assert text == "The plan:  as agreed." and "plan.txt" in told
        assert left(w, "dm") == ["I told the boss."]
