"""A server that answers as a model's: it knows the questions of the sample stores, and calls a tool for some."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

Json = dict[str, Any]
ANSWERS = {
    "time of the train": "The train leaves at 9:41.",
    "brings bread": "Ben brings the bread.",
    "And back?": "The last one back leaves at 22:15.",
    "Bake the cake": "It is in the oven.",
    "The cake is baked": "The cake is ready.",
    "Tell me once": "Dinner is at seven.",
    "this picture": "It shows nothing.",
    "I am Ben": "Hello Ben.",
    "a new day": "A new day it is.",
    "Ring the bell": "The bell rings.",
    "From the command line": "Hello from the agent.",
    "Think about it": "I have thought about it.",
}
"""Words of a question -> the answer."""
OTHER_ANSWER = "Noted."
SLOW_QUESTION, SLOW_S = "Think about it", 30.0
BAKING = "sleep 4; echo The cake is baked"
CALLS: dict[str, dict[str, Json]] = {
    "Bake the cake": {
        "exec": {"command": BAKING, "background": True},
        "terminal": {"command": BAKING, "background": True, "notify_on_complete": True},
    },
    "Tell me once": {"message": {"action": "send", "message": "Dinner is at seven."}},
}
"""Words of a question -> the tool that is called first, by its name in each program."""


def choose_answer(messages: list[Json], tools: set[str]) -> tuple[str, Json | None]:
    """Return the text that answers the newest question, or the tool call that comes before it."""
    asked, is_called = "", False
    for message in messages:
        content = json.dumps(message.get("content"))
        if message["role"] == "tool":
            is_called = True
        elif message["role"] == "user" and "_INTERNAL_CONTEXT" not in content:  # there, OpenClaw repeats what was said
            known = sorted((words for words in ANSWERS if words in content), key=content.rindex)
            if known:
                asked, is_called = known[-1], False
    call = next(((name, given) for name, given in CALLS.get(asked, {}).items() if name in tools), None)
    if call is None or is_called:
        return ANSWERS.get(asked, OTHER_ANSWER), None
    function = {"name": call[0], "arguments": json.dumps(call[1])}
    return "", {"id": f"call{time.time_ns()}", "type": "function", "function": function}


class Model(BaseHTTPRequestHandler):
    """OpenAI's chat completions, as far as both programs call them."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send(json.dumps({"object": "list", "data": [{"id": "small", "object": "model"}]}), "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        tools = {tool["function"]["name"] for tool in body.get("tools") or ()}
        text, call = choose_answer(body.get("messages", []), tools)
        if text == ANSWERS[SLOW_QUESTION]:
            time.sleep(SLOW_S)
        reason = "tool_calls" if call else "stop"
        common = {"id": "answer", "created": 1, "model": "small"}
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        if not body.get("stream"):
            message = {"role": "assistant", "content": text, **({"tool_calls": [call]} if call else {})}
            choice = {"index": 0, "message": message, "finish_reason": reason}
            answer = {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._send(json.dumps(answer), "application/json")
            return
        called: Json = {"tool_calls": [{"index": 0, **call}]} if call else {}
        deltas: list[tuple[Json, str | None]] = [({"role": "assistant", "content": text, **called}, None), ({}, reason)]
        chunks: list[Json] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} for delta, reason in deltas
        ]
        chunks.append({"choices": [], "usage": usage})
        lines = [json.dumps({**common, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
        self._send("".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]), "text/event-stream")

    def _send(self, text: str, media_type: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        with suppress(BrokenPipeError):  # the program was killed meanwhile
            self.wfile.write(content)
