"""OpenAI's Chat Completions API, streaming (https://platform.openai.com/docs/api-reference/chat-streaming)."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Literal

from .http import Json, Reply, Request
from .responses import Responses
from .script import (
    TYPESCRIPT,
    Act,
    Attempt,
    Cut,
    Gate,
    Script,
    Shell,
    Text,
    Think,
    Tool,
    Turn,
    demanded,
    fenced,
    our_tool,
    pieces,
    refused,
    shell_call,
    typescript,
)  # fmt: skip

USAGE = {"prompt_tokens": 100, "completion_tokens": 25, "total_tokens": 125}
REFUSAL = {"error": {"message": "The scripted server refuses this request.", "type": "refused", "code": "refused"}}


class OpenAI:
    """The handler of both of OpenAI's APIs: the path decides."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.responses = Responses(script)

    async def __call__(self, request: Request, reply: Reply) -> None:
        path = request.path.removeprefix("/v1")
        if path == "/responses":
            await self.responses(request, reply)
        elif path == "/chat/completions":
            await self._chat(request.json(), reply)
        elif path == "/models":
            names = ("gpt-5.4", "scripted")
            models = [{"id": name, "object": "model", "created": 1, "owned_by": "semel"} for name in names]
            await reply.send(200, {"object": "list", "data": models})
        else:
            await reply.send(404, {"error": {"message": "not here"}})

    async def _chat(self, body: Json, reply: Reply) -> None:
        functions = [tool["function"] for tool in body.get("tools") or []]
        tools = {one["name"]: one.get("parameters") or {} for one in functions}
        if shell_call(tools, ""):
            acts = self.script.next(_turns(body["messages"]))
        elif _calls_in_fences(body["messages"]):
            acts = [fenced(act) for act in self.script.next(_turns_with_fences(body["messages"]))]
        else:
            self.script.aside += 1
            acts = [Text("A title", 1)]
        if (status := refused(acts)) is not None:
            await reply.send(status, REFUSAL)
            return
        base = {"id": self.script.new_id("chatcmpl"), "created": int(time.time()), "model": body.get("model")}
        if body.get("stream"):
            await _Stream(self.script, tools, base, reply).run(acts)
        else:
            await self._whole(acts, tools, base, reply)

    async def _whole(self, acts: Attempt, tools: dict[str, Json], base: Json, reply: Reply) -> None:
        """The answer in one piece, for a program that does not ask for a stream."""
        calls: list[Json] = []
        for act in acts:
            match act:
                case Cut():
                    await reply.cut()
                    return
                case Gate():
                    await self.script.gate(act.name).wait()
                case Text():
                    if act.hold:
                        await self.script.gate(act.hold).wait()
                case _:
                    name, arguments = _call(tools, act)
                    function = {"name": name, "arguments": json.dumps(arguments)}
                    calls.append({"id": self.script.new_id("call"), "type": "function", "function": function})
        message: Json = {"role": "assistant", "content": "".join(a.text for a in acts if type(a) is Text)}
        if calls:
            message["tool_calls"] = calls
        if thoughts := "".join(a.text for a in acts if isinstance(a, Think)):
            message["reasoning_content"] = thoughts
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        await reply.send(200, {**base, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def _call(tools: dict[str, Json], act: Act) -> tuple[str, Json]:
    """(name, arguments) of a call as the agent's tools want it."""
    if isinstance(act, Tool):
        if TYPESCRIPT in tools:
            return TYPESCRIPT, {"code": typescript(act)}
        name = our_tool(tools, act.name)
        return name, act.arguments | demanded(tools[name])
    assert isinstance(act, Shell)
    call = shell_call(tools, act.command)
    assert call is not None
    return call


def _turns(messages: list[Json]) -> list[Turn]:
    out: list[Turn] = []
    for message in messages:
        if message["role"] == "user":
            out.append(("user", _text(message)))
        elif message["role"] == "tool":
            out.append(("result", message["tool_call_id"]))
    return out


def _calls_in_fences(messages: list[Json]) -> bool:
    """Whether the model is told to call tools in fenced blocks of its text, as gptme's is."""
    return any(message["role"] in ("system", "developer") and "```shell" in _text(message) for message in messages)


def _turns_with_fences(messages: list[Json]) -> list[Turn]:
    """The turns of such a conversation: what the model called in a fence has its result in the next message."""
    kinds: dict[str, Literal["user", "result"]] = {"user": "user", "assistant": "result"}
    told = [(kinds[message["role"]], _text(message)) for message in messages if message["role"] in kinds]
    return [(kind, text) for kind, text in told if kind == "user" or "```" in text]


def _text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


class _Stream:
    """One streamed completion."""

    def __init__(self, script: Script, tools: dict[str, Json], base: Json, reply: Reply) -> None:
        self.script, self.tools, self.base, self.reply = script, tools, base, reply
        self.calls = 0

    async def _send(self, delta: Json, finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        await self.reply.event({**self.base, "object": "chat.completion.chunk", "choices": [choice]})

    async def run(self, acts: Attempt) -> None:
        await self.reply.begin()
        await self._send({"role": "assistant", "content": ""})
        for act in acts:
            match act:
                case Cut():
                    await self.reply.cut()
                    return
                case Gate():
                    await self.script.gate(act.name).wait()
                case Text():
                    name = "reasoning_content" if isinstance(act, Think) else "content"
                    for piece in pieces(act.text, act.pieces):
                        await self._send({name: piece})
                        await asyncio.sleep(act.pause)
                    if act.hold:
                        await self.script.gate(act.hold).wait()
                case _:
                    await self._call(act)
        await self._send({}, "tool_calls" if self.calls else "stop")
        await self.reply.event({**self.base, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
        await self.reply.event("[DONE]")
        await self.reply.end()

    async def _call(self, act: Act) -> None:
        name, arguments = _call(self.tools, act)
        function = {"name": name, "arguments": ""}
        first = {"index": self.calls, "id": self.script.new_id("call"), "type": "function", "function": function}
        await self._send({"tool_calls": [first]})
        for piece in pieces(json.dumps(arguments), 3):
            await self._send({"tool_calls": [{"index": self.calls, "function": {"arguments": piece}}]})
        self.calls += 1
