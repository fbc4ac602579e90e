"""Anthropic's Messages API, streaming (https://docs.anthropic.com/en/api/messages-streaming)."""

from __future__ import annotations

import asyncio
import json

from .http import Json, Reply, Request
from .script import (
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
    broken,
    our_tool,
    pieces,
    refused,
    shell_call,
)

USAGE = {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
ERRORS = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}


class Messages:
    """The handler."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "POST" and request.path == "/v1/messages/count_tokens":
            await reply.send(200, {"input_tokens": 1000})
        elif request.method == "POST" and request.path == "/v1/messages":
            await self._answer(request.json(), reply)
        else:
            await reply.send(404, {"type": "error", "error": {"type": "not_found_error", "message": "not here"}})

    async def _answer(self, body: Json, reply: Reply) -> None:
        tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or []}
        if shell_call(tools, "") is None:
            self.script.aside += 1
            acts: Attempt = [Text('{"title": "A title", "isNewTopic": false}', 1)]
        else:
            acts = self.script.next(_turns(body))
        if (status := refused(acts)) is not None:
            kind = ERRORS.get(status, "api_error")
            error = {"type": kind, "message": "The scripted server refuses this request."}
            await reply.send(status, {"type": "error", "error": error})
            return
        message = {
            "id": self.script.new_id("msg"), "type": "message", "role": "assistant", "model": body.get("model"),
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": USAGE,
        }  # fmt: skip
        if body.get("stream"):
            await _Stream(self.script, tools, reply).run(message, acts)
        else:
            content = [{"type": "text", "text": act.text} for act in acts if type(act) is Text]
            await reply.send(200, {**message, "content": content, "stop_reason": "end_turn"})


def _turns(body: Json) -> list[Turn]:
    out: list[Turn] = []
    for message in body["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                out.append(("user", block["text"]))
            elif block["type"] == "tool_result":
                out.append(("result", block["tool_use_id"]))
    return out


class _Stream:
    """One streamed message."""

    def __init__(self, script: Script, tools: dict[str, Json], reply: Reply) -> None:
        self.script, self.tools, self.reply = script, tools, reply
        self.index = 0

    async def _send(self, kind: str, **rest: object) -> None:
        await self.reply.event({"type": kind, **rest}, kind)

    async def run(self, message: Json, acts: Attempt) -> None:
        await self.reply.begin()
        await self._send("message_start", message=message)
        for n, act in enumerate(acts):
            if isinstance(act, Cut):
                await self.reply.cut()
                return
            if isinstance(act, Gate):
                await self.script.gate(act.name).wait()
                continue
            await self._block(act, whole=not broken(acts, n))
        stop = "tool_use" if any(isinstance(act, Shell | Tool) for act in acts) else "end_turn"
        delta = {"stop_reason": stop, "stop_sequence": None}
        await self._send("message_delta", delta=delta, usage={"output_tokens": 25})
        await self._send("message_stop")
        await self.reply.end()

    async def _block(self, act: Act, whole: bool) -> None:
        match act:
            case Think():
                start: Json = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(act.text, act.pieces)]
                deltas.append({"type": "signature_delta", "signature": "c2lnbmF0dXJl" * 6})
            case Text():
                start = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces(act.text, act.pieces)]
            case _:
                name, arguments = self._call(act)
                start = {"type": "tool_use", "id": self.script.new_id("toolu"), "name": name, "input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": p} for p in pieces(json.dumps(arguments), 3)]
        await self._send("content_block_start", index=self.index, content_block=start)
        for delta in deltas:
            await self._send("content_block_delta", index=self.index, delta=delta)
            await asyncio.sleep(act.pause if isinstance(act, Text) else 0)
        if isinstance(act, Text) and act.hold:
            await self.script.gate(act.hold).wait()
        if whole:
            await self._send("content_block_stop", index=self.index)
        self.index += 1

    def _call(self, act: Act) -> tuple[str, Json]:
        if isinstance(act, Tool):
            return our_tool(self.tools, act.name), act.arguments
        assert isinstance(act, Shell)
        call = shell_call(self.tools, act.command)
        assert call is not None
        return call
