"""A front end that speaks AG-UI with a real gateway, for the tests of the endpoint."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx2
import msgspec
import pytest
from gateway_house import GatewayHouse, PlayedConversation, until

Json = dict[str, Any]
SESSION = "main:web:ag-ui-t1"
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


def user(text: Any, id: str = "u1") -> Json:
    return {"id": id, "role": "user", "content": text}


class Front:
    """Runs the agent `main` in one thread, and plays it."""

    def __init__(self, world: GatewayHouse, client: httpx2.AsyncClient):
        self.world = world
        self.client = client

    def run(self, *messages: Json, run: str = "r1", thread: str = "t1", **more: Any) -> asyncio.Task[httpx2.Response]:
        body = {
            "threadId": thread,
            "runId": run,
            "messages": list(messages),
            "tools": [],
            "state": {},
            "protocolVersion": "1.0",
        }
        return asyncio.ensure_future(self.client.post("/ag-ui/main", json=body | more))

    async def agent(self, prompts: int = 1, session: str = SESSION) -> PlayedConversation:
        played = self.world.agents["main"].conversations

        async def prompted() -> bool:
            return session in played and played[session].prompts >= prompts

        await until(prompted)
        return played[session]


@pytest.fixture
def front(world: GatewayHouse, client: httpx2.AsyncClient) -> Front:
    return Front(world, client)


async def events(running: asyncio.Task[httpx2.Response]) -> list[Json]:
    answer = await running
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [msgspec.json.decode(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def types(shown: list[Json]) -> list[str]:
    return [event["type"] for event in shown]
