"""A chat's order is the record's, also of a text that was still being written when something else was said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until
from stream_world import ROOM, Board, asked, chat, world

from semel.gateway.outbound import previews

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "MIN_EDIT_INTERVAL_S", 0.02)


async def until_recorded(w: World, text: str, live: bool = True) -> None:
    """Until an entry holds it; `live`: also one that still streams."""

    async def look() -> bool:
        found = [entry for entry in await w.entries(ROOM) if entry["role"] != "user" and text in entry["text"]]
        return any(live or not entry.get("live") for entry in found)

    await until(look)


async def until_sent(board: Board, text: str) -> None:
    """Until the chat has a message with it."""

    async def look() -> bool:
        return any(text in message for message in board.messages())

    await until(look)


async def still(w: World) -> None:
    """Until nothing runs, and the chat has all that it gets."""
    await w.idle(ROOM)

    async def arrived() -> bool:
        return all(way["state"] == "sent" for entry in await w.entries(ROOM) for way in entry.get("delivery", ()))

    await until(arrived)
    await w.sent()


async def told_order(w: World) -> list[str]:
    """What the transcript says that the chat got, in the order in which it says so."""
    sent = [entry for entry in await w.entries(ROOM) if entry.get("delivery")]
    sent.sort(key=lambda entry: (max(entry["seq"], entry.get("behind", 0)), "behind" in entry, entry["seq"]))
    return [entry["text"] for entry in sent]


@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "previewed"])
@pytest.mark.parametrize("narration", ["last", "all"])
@pytest.mark.parametrize("command", ["/status", "/new", "/stop"])
async def test_a_text_that_streams_while_a_command_is_answered_says_that_it_came_later(
    tmp_path: Path, narration: str, stream: bool, command: str
) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel, stream=stream, narration=narration) as w:
        await asked(w, channel, script("I am working on it.", {"wait": str(gate)}, " It is 42."))
        await until_recorded(w, "I am working")
        await asked(w, channel, command, key="2")
        await until_recorded(w, {"/status": "State:", "/new": "new chapter", "/stop": "stopped"}[command])
        gate.touch()
        await still(w)
        assert await told_order(w) == board.messages()
        assert len(board.messages()) >= 2
        [text] = [entry for entry in await w.entries(ROOM) if entry["role"] == "agent"]
        if command == "/status":  # the others stop the turn: the text may end, and leave, before they are answered
            assert text["behind"] > text["seq"]


@pytest.mark.parametrize("narration", ["last", "all"])
async def test_a_text_that_was_whole_before_a_command_is_not_behind_it(tmp_path: Path, narration: str) -> None:
    channel = chat()
    board, gate = Board(channel.platform), tmp_path / "go on"
    async with world(tmp_path, channel, stream=False, narration=narration) as w:
        steps = ["I am working on it.", {"tool": "look"}, {"wait": str(gate)}, "It is 42."]
        await asked(w, channel, script(*steps))
        await until_recorded(w, "I am working", live=False)
        await asked(w, channel, "/status", key="2")
        await until_sent(board, "State:")
        gate.touch()
        await still(w)
        messages = board.messages()
        assert await told_order(w) == messages
        assert (messages[0], messages[2]) == ("I am working on it.", "It is 42.")
        assert not any("behind" in entry for entry in await w.entries(ROOM))
