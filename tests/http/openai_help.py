"""Requests, answers and errors of OpenAI's chat API, and who asks."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
from gateway_house import GatewayHouse, PlayedConversation, until

SESSION = "main:web:notes"
CHAT = "/openai/v1/chat/completions"
Json = dict[str, Any]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": text}


def error(response: httpx2.Response) -> Json:
    assert set(response.json()) == {"error"}
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    return dict(response.json()["error"])


class Asker:
    """Sends requests, and plays the agent that answers them."""

    def __init__(self, world: GatewayHouse, client: httpx2.AsyncClient):
        self.world = world
        self.client = client

    def post(self, *messages: Json, body: Json | None = None, **headers: str) -> asyncio.Task[httpx2.Response]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = {"model": "main", "messages": list(messages), **(body or {})}
        return asyncio.ensure_future(self.client.post(CHAT, json=request, headers=named))

    async def conversation(self, prompts: int = 1, agent: str = "main") -> tuple[str, PlayedConversation]:
        """Wait until the agent has been prompted that often in any session; return the session prompted last."""
        played = self.world.agents[agent].conversations

        async def prompted() -> bool:
            return sum(each.prompts for each in played.values()) >= prompts

        await until(prompted)
        return list(played.items())[-1]

    async def ask(self, *messages: Json, answer: str, prompts: int = 1, **more: Any) -> httpx2.Response:
        """Send a request, and let the agent answer it."""
        waiting = self.post(*messages, **more)
        _, agent = await self.conversation(prompts)
        agent.say(answer)
        agent.end()
        return await waiting

    async def texts(self, session: str) -> list[tuple[str, str]]:
        return [(each["role"], each["text"]) for each in await self.world.entries(session)]


def content(response: httpx2.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])
