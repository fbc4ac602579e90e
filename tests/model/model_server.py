"""A scripted model API over real HTTP: chat completions, responses and messages, as server-sent events.

`async with ModelServer(Answer("Hello"), ...) as api:` answers one request after another; what was asked is in
`api.requests`. Which dialect an answer is told in follows from the path that was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from semel.testing.servers import close_server

Json = dict[str, Any]


@dataclass
class Answer:
    """What the model says, or how it fails.

    chunks   the text, piece by piece
    calls    tool calls behind it: (name, arguments)
    thought  what it thinks first
    refusal  instead of a text: words of the model in OpenAI's own field, piece by piece
    images   addresses of images, told behind the first chunk as OpenRouter does (chat completions alone)
    audio    pieces of a sound, each {"transcript"?, "data"?} (chat completions alone)
    stop     "stop", "length" or "filter"
    word     the reason for the end in the server's own word, whatever `stop` is
    status   of the HTTP answer; not 200: `body` and `retry_after` go with it
    junk     instead of all events: the data of one that is no answer; empty: no event at all
    page     a web page instead of all events, as from a server that is no such API
    cut      after the chunks, instead of an end: the connection is reset, closed cleanly, or an error event comes;
             "inside": it is closed cleanly inside the first character of the chunks that has more than one byte
    gate     waited for after the first chunk, before the next; `reached` is set when it is
    """

    chunks: Sequence[str] = ()
    calls: Sequence[tuple[str, Json]] = ()
    thought: str = ""
    refusal: Sequence[str] = ()
    images: Sequence[str] = ()
    audio: Sequence[Json] = ()
    stop: Literal["stop", "length", "filter"] = "stop"
    word: str | None = None
    status: int = 200
    body: Json = field(default_factory=dict)
    retry_after: str | None = None
    junk: str | None = None
    page: bool = False
    cut: Literal["reset", "close", "event", "inside", None] = None
    gate: asyncio.Event | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    usage: tuple[int, int] = (11, 7)

    def __post_init__(self) -> None:
        if isinstance(self.chunks, str):
            self.chunks = (self.chunks,)


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Json

    @property
    def messages(self) -> list[tuple[str, str]]:
        """(role, text) of what was asked, tool calls and their results as "call" and "result"."""
        out: list[tuple[str, str]] = []
        if isinstance(self.body.get("system"), str | list):
            out.append(("system", _text(self.body["system"])))
        for one in self.body.get("messages") or self.body.get("input") or []:
            out += _flat(one)
        return out

    @property
    def talk(self) -> list[tuple[str, str]]:
        """Without the system prompt."""
        return [one for one in self.messages if one[0] not in ("system", "developer")]

    @property
    def system(self) -> str:
        return "\n".join(text for role, text in self.messages if role in ("system", "developer"))


def _flat(one: Json) -> Iterator[tuple[str, str]]:
    if one.get("type") == "function_call":
        yield "call", one["name"]
    elif one.get("type") == "function_call_output":
        yield "result", _text(one["output"])
    elif one.get("role") == "tool":
        yield "result", _text(one["content"])
    else:
        content = one.get("content")
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            if isinstance(part, dict) and part.get("type") == "tool_use":
                yield "call", part["name"]
            elif isinstance(part, dict) and part.get("type") == "tool_result":
                yield "result", _text(part["content"])
            elif part:
                yield one["role"], _text(part)
        for call in one.get("tool_calls") or []:
            yield "call", call["function"]["name"]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text(one) for one in content)
    return str(content.get("text", "")) if isinstance(content, dict) else ""


class ModelServer:
    """Serves on a free port of the loopback address while the block runs."""

    def __init__(self, *answers: Answer | Callable[[Request], Answer]) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> ModelServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await close_server(self._server)
        for writer in list(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                answer = self.answers.pop(0) if self.answers else Answer(status=400, body={"error": "no more answers"})
                if callable(answer):
                    answer = answer(request)
                if not await _tell(answer, request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    line = await reader.readline()
    if not line:
        return None
    path = line.split()[1].decode()
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(path, headers, json.loads(body) if body else {})


async def _tell(answer: Answer, request: Request, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection may be used again."""
    if answer.status != 200:
        body = json.dumps(answer.body or {"error": {"message": "scripted", "type": "scripted"}}).encode()
        head = f"HTTP/1.1 {answer.status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        head += f"retry-after: {answer.retry_after}\r\n" if answer.retry_after else ""
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()
        return True
    if answer.page:
        body = b"<html><body>Welcome</body></html>"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n")
        writer.write(f"content-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        return True
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    dialect = _DIALECTS[request.path.rpartition("/")[2].partition("?")[0]]
    events = dialect(answer, request.body.get("model", "m"))
    for event in events if answer.junk is None else [_sse(answer.junk)] if answer.junk else []:
        if event is GATE:
            answer.reached.set()
            if answer.gate is not None:
                await answer.gate.wait()
            continue
        data = event.encode()
        if answer.cut == "inside" and (inside := _inside(data)):
            writer.write(f"{inside:x}\r\n".encode() + data[:inside] + b"\r\n")
            break
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
    if answer.cut == "reset":
        sock: socket.socket = writer.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def _inside(data: bytes) -> int:
    """How many bytes end inside a character; 0: it is all ASCII."""
    return next((n + 1 for n, byte in enumerate(data) if byte > 0x7F), 0)


GATE = "\0gate"


def _sse(data: Any, event: str = "") -> str:
    head = f"event: {event}\n" if event else ""
    if isinstance(data, str):
        return f"{head}data: {data}\n\n"
    text = json.dumps(data, ensure_ascii=False)
    escaped = any("\ud800" <= sign <= "\udfff" for sign in text)  # half of a surrogate pair has no UTF-8 form
    return f"{head}data: {json.dumps(data) if escaped else text}\n\n"


def _completions(answer: Answer, model: str) -> Iterator[str]:
    def chunk(delta: Json, finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _sse({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model,
                     "choices": [choice], **more})  # fmt: skip

    yield chunk({"role": "assistant", "content": ""})
    if answer.thought:
        yield chunk({"reasoning_content": answer.thought})
    for n, text in enumerate(answer.chunks):
        yield chunk({"content": text})
        if n == 0:
            yield GATE
            for url in answer.images:
                yield chunk({"images": [{"type": "image_url", "index": 0, "image_url": {"url": url}}]})
    for piece in answer.audio:
        yield chunk({"content": None, "audio": {"id": "a1", **piece}})
    for text in answer.refusal:
        yield chunk({"refusal": text})
    if answer.cut == "event":
        yield _sse({"error": {"message": "scripted failure", "type": "server_error", "code": "server_error"}})
    if answer.cut:
        return
    for n, (name, arguments) in enumerate(answer.calls):
        raw = json.dumps(arguments)
        yield chunk({"tool_calls": [{"index": n, "id": f"call_{n}", "type": "function",
                                     "function": {"name": name, "arguments": raw[:5]}}]})  # fmt: skip
        yield chunk({"tool_calls": [{"index": n, "function": {"arguments": raw[5:]}}]})
    finish = {"stop": "tool_calls" if answer.calls else "stop", "length": "length", "filter": "content_filter"}
    yield chunk({}, answer.word or finish[answer.stop])
    used = {"prompt_tokens": answer.usage[0], "completion_tokens": answer.usage[1], "total_tokens": sum(answer.usage)}
    yield _sse({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [],
                "usage": used})  # fmt: skip
    yield _sse("[DONE]")


def _messages(answer: Answer, model: str) -> Iterator[str]:
    def event(type: str, **fields: Any) -> str:
        return _sse({"type": type, **fields}, type)

    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
             "stop_sequence": None, "usage": {"input_tokens": answer.usage[0], "output_tokens": 1}}  # fmt: skip
    yield event("message_start", message=start)
    index = 0
    if answer.thought:
        yield event("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""})
        yield event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": answer.thought})
        yield event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "sig"})
        yield event("content_block_stop", index=0)
        index = 1
    if answer.chunks:
        yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        for n, text in enumerate(answer.chunks):
            yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": text})
            if n == 0:
                yield GATE
    if answer.cut == "event":
        yield event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    if answer.cut:
        return
    if answer.chunks:
        yield event("content_block_stop", index=index)
        index += 1
    for n, (name, arguments) in enumerate(answer.calls):
        yield event("content_block_start", index=index + n,
                    content_block={"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": {}})  # fmt: skip
        yield event("content_block_delta", index=index + n,
                    delta={"type": "input_json_delta", "partial_json": json.dumps(arguments)})  # fmt: skip
        yield event("content_block_stop", index=index + n)
    stop = {"stop": "tool_use" if answer.calls else "end_turn", "length": "max_tokens", "filter": "refusal"}
    yield event("message_delta", delta={"stop_reason": answer.word or stop[answer.stop], "stop_sequence": None},
                usage={"output_tokens": answer.usage[1]})  # fmt: skip
    yield event("message_stop")


def _responses(answer: Answer, model: str) -> Iterator[str]:
    number = iter(range(1000))

    def event(type: str, **fields: Any) -> str:
        return _sse({"type": type, "sequence_number": next(number), **fields}, type)

    def response(status: str, **more: Any) -> Json:
        return {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": model, "output": [],
                "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
                "incomplete_details": None, **more}  # fmt: skip

    yield event("response.created", response=response("in_progress"))
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    if answer.chunks:
        yield event("response.output_item.added", output_index=0, item=message)
        part = {"type": "output_text", "text": "", "annotations": []}
        yield event("response.content_part.added", part=part, **place)
        for n, text in enumerate(answer.chunks):
            yield event("response.output_text.delta", delta=text, logprobs=[], **place)
            if n == 0:
                yield GATE
    if answer.refusal:
        yield event("response.output_item.added", output_index=0, item=message)
        yield event("response.content_part.added", part={"type": "refusal", "refusal": ""}, **place)
        for text in answer.refusal:
            yield event("response.refusal.delta", delta=text, **place)
    if answer.cut == "event":
        yield event("error", code="server_error", message="scripted failure", param=None)
    if answer.cut:
        return
    if answer.chunks:
        whole = {"type": "output_text", "text": "".join(answer.chunks), "annotations": []}
        yield event("response.output_text.done", text=whole["text"], logprobs=[], **place)
        yield event("response.content_part.done", part=whole, **place)
        done = {**message, "status": "completed", "content": [whole]}
        yield event("response.output_item.done", output_index=0, item=done)
    if answer.refusal:
        part = {"type": "refusal", "refusal": "".join(answer.refusal)}
        yield event("response.refusal.done", refusal=part["refusal"], **place)
        yield event("response.content_part.done", part=part, **place)
        done = {**message, "status": "completed", "content": [part]}
        yield event("response.output_item.done", output_index=0, item=done)
    for n, (name, arguments) in enumerate(answer.calls, 1):
        item = {"id": f"fc_{n}", "type": "function_call", "status": "in_progress", "call_id": f"call_{n}",
                "name": name, "arguments": ""}  # fmt: skip
        raw = json.dumps(arguments)
        yield event("response.output_item.added", output_index=n, item=item)
        yield event("response.function_call_arguments.delta", output_index=n, item_id=f"fc_{n}", delta=raw)
        yield event(
            "response.function_call_arguments.done", output_index=n, item_id=f"fc_{n}", arguments=raw, name=name
        )
        yield event("response.output_item.done", output_index=n, item={**item, "status": "completed", "arguments": raw})
    used = {"input_tokens": answer.usage[0], "output_tokens": answer.usage[1], "total_tokens": sum(answer.usage),
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
    if answer.stop == "stop":
        yield event("response.completed", response=response("completed", usage=used))
    else:
        why = {"length": "max_output_tokens", "filter": "content_filter"}[answer.stop]
        details = {"reason": why}
        yield event("response.incomplete", response=response("incomplete", usage=used, incomplete_details=details))


_DIALECTS: dict[str, Callable[[Answer, str], Iterator[str]]] = {
    "completions": _completions,
    "messages": _messages,
    "responses": _responses,
}
