"""Google's Gemini API, generateContent with and without streaming (https://ai.google.dev/api/generate-content)."""

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
    our_tool,
    pieces,
    refused,
    shell_call,
)

USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 25, "totalTokenCount": 125}


class Gemini:
    """The handler of the API."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def __call__(self, request: Request, reply: Reply) -> None:
        if "countTokens" in request.path:
            await reply.send(200, {"totalTokens": 100})
        elif "enerateContent" in request.path:
            await self._generate(request.json(), reply, "streamGenerateContent" in request.path)
        else:
            await reply.send(404, {"error": {"code": 404, "message": "not here", "status": "NOT_FOUND"}})

    async def _generate(self, body: Json, reply: Reply, streams: bool) -> None:
        declared = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations") or []]
        tools = {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {} for one in declared}
        answer = _Answer(self.script, tools, reply)
        if shell_call(tools, "") is None:  # a question beside the conversation: which model, whose turn
            self.script.aside += 1
            acts: Attempt = [Text(_choose(body), 1)]
        else:
            acts = self.script.next(_turns(body.get("contents") or []))
        if (status := refused(acts)) is not None:
            error = {"code": status, "message": "The scripted server refuses this request.", "status": "UNAVAILABLE"}
            await reply.send(status, {"error": error})
        elif streams:
            await answer.stream(acts)
        else:
            await reply.send(200, answer.frame([{"text": a.text} for a in acts if type(a) is Text], ends=True))


def _choose(body: Json) -> str:
    """The answer that the wanted schema allows."""
    wanted = json.dumps(body.get("generationConfig") or {})
    if "next_speaker" in wanted:
        return json.dumps({"reasoning": "It is said.", "next_speaker": "user"})
    return json.dumps({"reasoning": "It is easy.", "model_choice": "flash"})


def _turns(contents: list[Json]) -> list[Turn]:
    out: list[Turn] = []
    for content in contents:
        for part in content.get("parts") or []:
            if "functionResponse" in part:
                out.append(("result", str(part["functionResponse"].get("id"))))
            elif content.get("role") == "user" and "text" in part:
                out.append(("user", part["text"]))
    return out


class _Answer:
    """One answer."""

    def __init__(self, script: Script, tools: dict[str, Json], reply: Reply) -> None:
        self.script, self.tools, self.reply = script, tools, reply
        self.id = script.new_id("resp")

    def frame(self, parts: list[Json], ends: bool = False) -> Json:
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        frame: Json = {"candidates": [candidate], "modelVersion": "scripted", "responseId": self.id}
        if ends:
            candidate["finishReason"] = "STOP"
            frame["usageMetadata"] = USAGE
        return frame

    async def stream(self, acts: Attempt) -> None:
        await self.reply.begin()
        for act in acts:
            match act:
                case Cut():
                    await self.reply.cut()
                    return
                case Gate():
                    await self.script.gate(act.name).wait()
                case Text():
                    more = {"thought": True} if isinstance(act, Think) else {}
                    for piece in pieces(act.text, act.pieces):
                        await self.reply.event(self.frame([{"text": piece, **more}]))
                        await asyncio.sleep(act.pause)
                    if act.hold:
                        await self.script.gate(act.hold).wait()
                case _:
                    await self.reply.event(self.frame([self._call(act)]))
        await self.reply.event(self.frame([], ends=True))
        await self.reply.end()

    def _call(self, act: Act) -> Json:
        if isinstance(act, Tool):
            name, arguments = our_tool(self.tools, act.name), act.arguments
        else:
            assert isinstance(act, Shell)
            call = shell_call(self.tools, act.command)
            assert call is not None
            name, arguments = call
        return {"functionCall": {"id": self.script.new_id("fc"), "name": name, "args": arguments}}
