"""An echo is of what stands: as it was edited last, on whatever face, and not what was refused (Law 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, script, until

from fewer_cases import cross
from semel.gateway.ports import Incoming, Person, Rejected, Safety
from semel.gateway.settings import ChannelSettings, PersonSettings
from semel.testing import FakeChannel, Platform

Json = dict[str, Any]
ROOM = "demo:chat:room"


def send(text: str) -> Json:
    return {"call": "send_message", "arguments": {"text": text}}


def edit(text: str, message: str = "c1") -> Json:
    return {"call": "edit_message", "arguments": {"message": message, "text": text}}


class Stubborn(FakeChannel):
    """A channel that refuses every edit."""

    async def send(self, op: Any) -> Any:
        if op.kind == "edit":
            raise Rejected("too old to edit")
        return await super().send(op)


def world(path: Path, channel: FakeChannel, narration: Any = "last") -> World:
    settings = {"chat": ChannelSettings(name="chat", kind="fake", narration=narration)}
    people = {"ann": PersonSettings(name="ann", role="owner", accounts=("chat:ann",))}
    return World(path, channels={"chat": channel}, channel_settings=settings, people=people)


CASES = [
    ([send("Alpha."), edit("Beta.")], "Alpha.", True),
    ([send("Alpha."), edit("Beta.")], "Beta.", False),
    ([send("Alpha."), edit("Beta."), edit("Alpha.")], "Alpha.", False),
    ([send("Alpha."), edit("Beta."), edit("Gamma.")], "Beta.", True),
    ([send("Alpha."), edit("Beta."), edit("Gamma.", "c2")], "Gamma.", False),
    ([send("Alpha."), edit("Beta."), edit("Gamma.", "c2")], "Alpha.", True),
    ([send("Alpha."), send("Alpha."), edit("Beta.")], "Alpha.", False),
]


@pytest.mark.parametrize(("deeds", "closing", "said", "safety"), cross(CASES, Safety))
async def test_a_closing_text_is_held_against_what_people_read_now(
    tmp_path: Path, safety: Safety, deeds: list[Json], closing: str, said: bool
) -> None:
    platform = Platform()
    async with world(tmp_path, FakeChannel("chat", safety, platform)) as w:
        await w.ask(script(*deeds, closing), ROOM)
        await w.sent()
        posts = [post.text for post in platform.log if post.kind == "post"]
        sent = [deed["arguments"]["text"] for deed in deeds if deed["call"] == "send_message"]
        assert posts == [*sent, closing] if said else posts == sent


@pytest.mark.parametrize(("deeds", "closing", "said"), CASES)
async def test_it_is_the_same_on_a_page(tmp_path: Path, deeds: list[Json], closing: str, said: bool) -> None:
    async with World(tmp_path) as w:
        texts = await w.ask(script(*deeds, {"text": closing, "chunks": 4}))
        assert texts == [deed["arguments"]["text"] for deed in deeds] + ([closing] if said else [])


async def test_a_refused_edit_changed_nothing(tmp_path: Path) -> None:
    platform = Platform()
    channel = Stubborn("chat", Safety.IDEMPOTENT, platform)
    gate = {"wait": str(tmp_path / "gate")}
    async with world(tmp_path, channel) as w:
        await w.gateway.say(ROOM, script(send("Alpha."), edit("Beta."), gate, "Alpha."))

        async def refused() -> bool:
            return any(part["state"] == "rejected" for part in await w.gateway.parts(None, 100, None))

        await until(refused)
        (tmp_path / "gate").touch()
        await w.idle(ROOM)
        await w.sent()
        assert "Alpha." in [post.text for post in platform.log]
        said = [e["text"] for e in await w.entries(ROOM) if e["role"] == "agent"]
        assert said == ["Alpha.", "Beta."], "people read it still: the closing text repeats it"


async def delete(w: World, channel: FakeChannel, number: int) -> None:
    """Ann deletes one of our messages, and the gateway has heard so."""
    await w.sent()
    of = [post.id for post in channel.platform.log if post.kind == "post"][number]
    await channel.tell(Incoming("delete", f"{of}/gone", "room", Person("ann", "Ann"), of=of))

    async def is_heard() -> bool:
        return any(entry.get("deleted") for entry in await w.entries(ROOM))

    await until(is_heard)


DELETIONS = [
    ([send("Alpha.")], 0, "Alpha.", True),
    ([send("Alpha."), edit("Beta.")], 0, "Beta.", True),
    ([send("Alpha."), edit("Beta.")], 0, "Alpha.", True),
    ([send("Alpha."), send("Alpha.")], 0, "Alpha.", False),
    ([send("Alpha."), send("Beta.")], 1, "Alpha.", False),
]
"""What is said, the number of the message that is deleted, the closing text, and whether that is said."""


@pytest.mark.parametrize(
    ("deeds", "number", "closing", "said", "narration", "safety"), cross(DELETIONS, ["last", "all"], Safety)
)
async def test_what_was_deleted_has_no_echo(
    tmp_path: Path, safety: Safety, narration: str, deeds: list[Json], number: int, closing: str, said: bool
) -> None:
    channel = FakeChannel("chat", safety)
    async with world(tmp_path, channel, narration) as w:
        await w.gateway.say(ROOM, script(*deeds, {"wait": str(tmp_path / "gate")}, closing))

        async def is_done() -> bool:
            return len(await w.texts(ROOM, "agent")) == len(deeds)

        await until(is_done)
        await delete(w, channel, number)
        (tmp_path / "gate").touch()
        await w.idle(ROOM)
        await w.sent()
        posts = [post.text for post in channel.platform.log if post.kind == "post"]
        sent = [deed["arguments"]["text"] for deed in deeds if deed["call"] == "send_message"]
        assert posts == [*sent, closing] if said else posts == sent


async def test_what_was_deleted_while_the_gateway_was_away_has_no_echo(tmp_path: Path) -> None:
    """The attempt that goes on is told of it, and says it again."""
    channel = FakeChannel("chat", Safety.IDEMPOTENT)
    async with world(tmp_path, channel) as w:
        steps = [send("Alpha."), {"wait": str(tmp_path / "never")}]
        await w.gateway.say(ROOM, script(*steps, resume=[{"wait": str(tmp_path / "gate")}, "Alpha."]))

        async def is_sent() -> bool:
            return [post.text for post in channel.platform.log] == ["Alpha."]

        await until(is_sent)
    async with world(tmp_path, channel) as w:
        await delete(w, channel, 0)
        (tmp_path / "gate").touch()
        await w.idle(ROOM)
        await w.sent()
        assert [post.text for post in channel.platform.log] == ["Alpha.", "Alpha."]


async def test_what_a_call_is_about_to_say_is_not_previewed_before_it_comes(tmp_path: Path) -> None:
    """A tool server dies in mid-call, and the same words stream already: they are said once."""
    told = {"toolCallId": "t1", "title": "mcp__semel__send_message", "rawInput": {"text": "The report is ready."}}
    announced = {"update": {"sessionUpdate": "tool_call", **told, "status": "in_progress"}}
    streams = [announced, {"text": "The report is ", "chunks": 3, "message": "m"}]
    async with World(tmp_path) as w:
        call = {**send("The report is ready."), "announce": False, "id": "t1", "meta": {"claudecode/toolUseId": "t1"}}
        texts = await w.ask(script(*streams, call, {"text": "ready.", "chunks": 1, "message": "m"}))
        assert texts == ["The report is ready."]
