"""A whole gateway with a chat channel that streams: real ledger, scripted agent, and what is on its platform."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway_world import World

from semel.gateway.ports import Op, Receipt, Safety
from semel.gateway.settings import ChannelSettings
from semel.testing import FakeChannel, Platform

ROOM = "main:chat:room"


class Board:
    """What a person sees: a platform's log with its edits and deletions done, message by message."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def messages(self, address: str = "room") -> list[str]:
        shown: dict[str, str] = {}
        for post in self.platform.log:
            if post.address != address:
                continue
            if post.kind == "edit" and post.target in shown:
                shown[post.target] = post.text
            elif post.kind == "delete":
                shown.pop(str(post.target), None)
            elif post.kind in ("post", "file"):
                shown[post.id] = post.text
        return list(shown.values())


class TypingChannel(FakeChannel):
    """A chat whose people see that somebody types."""

    def __init__(self, *args: Any, **facts: Any) -> None:
        super().__init__(*args, **facts)
        self.typed: list[str] = []
        self.meanwhile: Callable[[str], Any] | None = None

    async def typing(self, address: str) -> None:
        self.typed.append(address)
        if self.meanwhile is not None:
            await self.meanwhile(address)


class Slow(FakeChannel):
    """Each send to it waits for `gate`, if there is one."""

    gate: asyncio.Event | None = None

    async def send(self, op: Op) -> Receipt:
        if self.gate is not None:
            await self.gate.wait()
        return await super().send(op)


def chat(safety: Safety = Safety.AT_MOST_ONCE, platform: Platform | None = None, **facts: Any) -> FakeChannel:
    return TypingChannel("chat", safety, platform, **{"deletes": True, **facts})


def world(
    path: Path,
    channel: FakeChannel,
    *,
    stream: bool = True,
    narration: Any = "last",
    reserve: bool = False,
    **more: Any,
) -> World:
    own = ChannelSettings(name=channel.name, kind="fake", stream=stream, narration=narration, reserve=reserve)
    return World(path, channels={channel.name: channel}, channel_settings={channel.name: own}, **more)


async def asked(w: World, channel: FakeChannel, text: str, key: str = "1") -> None:
    """A person of the chat says something; returns when it was heard."""
    await channel.write("room", text, key=key)
