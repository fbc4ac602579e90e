"""OpenAI's Responses API, streaming (https://platform.openai.com/docs/api-reference/responses-streaming)."""

from __future__ import annotations

import asyncio
import json
import time

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

USAGE = {
    "input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 25,
    "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 125,
}  # fmt: skip
OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


class Responses:
    """The handler of POST /v1/responses."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method != "POST":  # a websocket is asked for first, by some
            await reply.send(426, {"error": {"message": "only server-sent events here"}})
            return
        body = request.json()
        items = body.get("input") or []
        tools, spaces = _tools(body, items)
        if shell_call(tools, "") is None or "json_schema" in json.dumps(body.get("text") or {}):
            self.script.aside += 1
            acts: Attempt = [Text('{"title": "A title"}', 1)]
        else:
            acts = self.script.next(_turns(items))
        if (status := refused(acts)) is not None:
            await reply.send(status, {"error": {"message": "The scripted server refuses this request."}})
            return
        await _Stream(self.script, tools, spaces, reply).run(body.get("model"), acts)


def _tools(body: Json, items: list[Json]) -> tuple[dict[str, Json], dict[str, tuple[str, str]]]:
    """Schemas by qualified name, and (namespace, name) of those that have one."""
    found: dict[str, Json] = {}
    spaces: dict[str, tuple[str, str]] = {}
    later = [tool for item in items if item.get("type") == "additional_tools" for tool in item.get("tools", [])]
    for tool in [*(body.get("tools") or []), *later]:
        if tool.get("type") == "function":
            found[tool["name"]] = tool.get("parameters") or {}
        elif tool.get("type") == "namespace":
            for each in tool.get("tools", []):
                name = f"{tool['name']}.{each['name']}"
                found[name] = each.get("parameters") or {}
                spaces[name] = (tool["name"], each["name"])
        elif tool.get("type") == "local_shell":
            found["local_shell"] = {}
    return found, spaces


def _turns(items: list[Json]) -> list[Turn]:
    out: list[Turn] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") == "user":
            content = item["content"]
            parts = [content] if isinstance(content, str) else [p.get("text", "") for p in content]
            out.append(("user", "\n".join(parts)))
        elif kind in OUTPUTS:
            out.append(("result", item["call_id"]))
    return out


class _Stream:
    """One streamed response."""

    def __init__(
        self, script: Script, tools: dict[str, Json], spaces: dict[str, tuple[str, str]], reply: Reply
    ) -> None:
        self.script, self.tools, self.spaces, self.reply = script, tools, spaces, reply
        self.number = 0
        self.output: list[Json] = []
        self.index = 0

    async def _send(self, kind: str, **rest: object) -> None:
        await self.reply.event({"type": kind, "sequence_number": self.number, **rest}, kind)
        self.number += 1

    async def run(self, model: object, acts: Attempt) -> None:
        response = {
            "id": self.script.new_id("resp"), "object": "response", "created_at": int(time.time()), "model": model,
            "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None,
        }  # fmt: skip
        await self.reply.begin()
        await self._send("response.created", response=response)
        await self._send("response.in_progress", response=response)
        for n, act in enumerate(acts):
            if isinstance(act, Cut):
                await self.reply.cut()
                return
            if isinstance(act, Gate):
                await self.script.gate(act.name).wait()
                continue
            await self._item(act, whole=not broken(acts, n))
        await self._send(
            "response.completed", response={**response, "status": "completed", "output": self.output, "usage": USAGE}
        )
        await self.reply.end()

    async def _item(self, act: Act, whole: bool) -> None:
        match act:
            case Think():
                await self._thought(act)
            case Text():
                await self._text(act, whole)
            case _:
                await self._call(act)
        self.index += 1

    async def _done(self, item: Json) -> None:
        self.output.append(item)
        await self._send("response.output_item.done", output_index=self.index, item=item)

    async def _text(self, act: Text, whole: bool) -> None:
        at: Json = {"item_id": self.script.new_id("msg"), "output_index": self.index, "content_index": 0}
        item = {"id": at["item_id"], "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        part = {"type": "output_text", "text": "", "annotations": []}
        await self._send("response.output_item.added", output_index=self.index, item=item)
        await self._send("response.content_part.added", **at, part=part)
        for piece in pieces(act.text, act.pieces):
            await self._send("response.output_text.delta", **at, delta=piece)
            await asyncio.sleep(act.pause)
        if act.hold:
            await self.script.gate(act.hold).wait()
        if whole:
            part = {**part, "text": act.text}
            await self._send("response.output_text.done", **at, text=act.text)
            await self._send("response.content_part.done", **at, part=part)
            await self._done({**item, "status": "completed", "content": [part]})

    async def _thought(self, act: Think) -> None:
        at: Json = {"item_id": self.script.new_id("rs"), "output_index": self.index, "summary_index": 0}
        item = {"id": at["item_id"], "type": "reasoning", "summary": [], "encrypted_content": None}
        part = {"type": "summary_text", "text": ""}
        await self._send("response.output_item.added", output_index=self.index, item=item)
        await self._send("response.reasoning_summary_part.added", **at, part=part)
        for piece in pieces(act.text, act.pieces):
            await self._send("response.reasoning_summary_text.delta", **at, delta=piece)
            await asyncio.sleep(act.pause)
        part = {**part, "text": act.text}
        await self._send("response.reasoning_summary_text.done", **at, text=act.text)
        await self._send("response.reasoning_summary_part.done", **at, part=part)
        await self._done({**item, "summary": [part], "encrypted_content": "Z" * 40})

    async def _call(self, act: Act) -> None:
        name, arguments = self._named(act)
        item_id, text = self.script.new_id("fc"), json.dumps(arguments)
        item: Json = {
            "id": item_id, "type": "function_call", "status": "in_progress", "call_id": self.script.new_id("call"),
            "name": name, "arguments": "",
        }  # fmt: skip
        if name in self.spaces:
            item["namespace"], item["name"] = self.spaces[name]
        await self._send("response.output_item.added", output_index=self.index, item=item)
        for piece in pieces(text, 3):
            at: Json = {"item_id": item_id, "output_index": self.index}
            await self._send("response.function_call_arguments.delta", **at, delta=piece)
        await self._send("response.function_call_arguments.done", **at, arguments=text)
        await self._done({**item, "status": "completed", "arguments": text})

    def _named(self, act: Act) -> tuple[str, Json]:
        if isinstance(act, Tool):
            return our_tool(self.tools, act.name), act.arguments
        assert isinstance(act, Shell)
        call = shell_call(self.tools, act.command)
        assert call is not None
        return call
