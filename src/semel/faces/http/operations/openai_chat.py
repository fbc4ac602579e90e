"""Operations: talk to agents as a client of OpenAI's chat API does (docs/openai-api.md).

The model's name is the agent's. A request is one message to a session, and its answer is what the turn says that takes
the message (`reply_stream.py`); which part of the request is the message, and which session it belongs to, is decided
in `conversations.py`. Shapes and parameters: https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from semel.faces.http.conversations import (
    AcceptedMessage,
    Conversation,
    accept_message,
    check_agent,
    check_name,
    name_session,
)
from semel.faces.http.openai_messages import read_conversation
from semel.faces.http.operations.messages import IDEMPOTENCY_KEY, MAX_MESSAGE_BYTES, read_event_key
from semel.faces.http.operations.stream import Stream, encode_data
from semel.faces.http.problems import CODES, ErrorFormat, Problem
from semel.faces.http.routing import ApiCall, Param, Returns, Router, json_response, run_until_stopped
from semel.faces.reply_stream import Activity, NoticePiece, ReplyEnd, TextPiece, follow_reply
from semel.gateway.errors import GatewayUnavailable
from semel.ledger.turns.replies import Reply
from semel.text.json_types import Json

OPENAI_CLIENT = "openai"
OPEN_WEBUI_CLIENT = "openwebui"
TEMPORARY_CHAT = "local:"  # begins the id of a chat that Open WebUI does not keep; chats in one tab share it
TASK_HEAD = "### Task:\n"
"""Begins the requests that Open WebUI sends under a chat's id for its own tasks, such as finding a title."""
FINISH_REASONS: dict[str, Literal["length", "content_filter"]] = {
    "turn.max_tokens": "length",
    "turn.refusal": "content_filter",
}
IGNORED = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "presence_penalty",
    "frequency_penalty", "logit_bias", "reasoning_effort", "verbosity", "tools", "parallel_tool_calls", "user", "store",
    "service_tier", "safety_identifier", "prompt_cache_key",
)  # fmt: skip
"""Parameters that have no effect, because the agent decides itself. An answer names those that the request had."""


class OpenAIError(Struct):
    """An error as clients of OpenAI's API expect it: `{"message", "type", "param", "code"}`."""

    error: dict[str, Any]


class ChatMessage(Struct):
    """`content`: a text, or a list of parts of the types `text`, `image_url`, `input_audio` and `file`."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(Struct):
    include_usage: bool = False


class ChatRequest(Struct):
    """`model`: the agent's name. `messages`: the conversation; what comes after the last answer is said to the agent.
    `metadata`: may name the `session`. `n`: only 1. Parameters of the model itself have no effect.
    """

    model: str
    messages: list[ChatMessage]
    stream: bool = False
    stream_options: StreamOptions | None = None
    metadata: dict[str, Any] | None = None
    n: int | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    temperature: Any = None
    top_p: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    stop: Any = None
    seed: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    logit_bias: Any = None
    reasoning_effort: Any = None
    verbosity: Any = None
    parallel_tool_calls: Any = None
    user: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None


class AnswerMessage(Struct):
    """What the agent said."""

    content: str
    role: Literal["assistant"] = "assistant"
    refusal: None = None
    reasoning_content: str | UnsetType = UNSET


class Choice(Struct):
    message: AnswerMessage
    finish_reason: str
    index: int = 0
    logprobs: None = None


class Usage(Struct, frozen=True):
    """Tokens. Agents do not say how many an answer took, so each is 0; clients fail without the numbers."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class ChatCompletion(Struct):
    """The answer. `id` names the event: `semel why` explains `e7` for `chatcmpl-e7`."""

    id: str
    created: int
    model: str
    choices: list[Choice]
    object: Literal["chat.completion"] = "chat.completion"
    usage: Usage = Usage()


class AgentModel(Struct):
    """An agent, as a model. `created`: when the gateway started (seconds since 1970)."""

    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "semel"


class AgentModels(Struct):
    data: list[AgentModel]
    object: Literal["list"] = "list"


FINAL_CODES = ("conflict", "wrong-state")  # a repeat gets the same error
NO_RETRY = {"X-Should-Retry": "false"}  # OpenAI's libraries then do not repeat the request by themselves


def render_error(problem: Problem) -> Response:
    """Return a problem as an error of OpenAI's API."""
    final = NO_RETRY if problem.code in FINAL_CODES else {}
    return json_response(_make_error(problem), CODES[problem.code][0], {**(problem.headers or {}), **final})


def _make_error(problem: Problem) -> OpenAIError:
    status, param = CODES[problem.code][0], problem.members.get("field")
    code = "model_not_found" if (problem.code, param) == ("not-found", "model") else problem.code
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return OpenAIError({"message": problem.detail, "type": kind, "param": param, "code": code})


OPENAI_ERRORS = ErrorFormat("/openai/", render_error, OpenAIError)
router = Router("openai")
SESSION_HEADER = Param("Key of the session; the same as `metadata.session`.", name="X-Semel-Session")
CHAT_HEADER = Param("Id of a chat in Open WebUI: it gets a session of its own.", name="X-OpenWebUI-Chat-Id")
PROGRESS_HEADER = Param("1: thoughts and tool calls as `reasoning_content`.", name="X-Semel-Progress")


@router.route("GET", "/openai/v1/models", Returns("The agents.", AgentModels), error_format=OPENAI_ERRORS)
async def list_models(call: ApiCall) -> Response:
    """List the agents as models of OpenAI's API."""
    return json_response(AgentModels([_describe_model(call, name) for name in call.gateway.settings.agents]))


@router.route(
    "GET",
    "/openai/v1/models/{model}",
    Returns("The agent.", AgentModel),
    errors=("not-found",),
    error_format=OPENAI_ERRORS,
)
async def read_model(call: ApiCall, model: Annotated[str, Param("Name of an agent.")]) -> Response:
    """Read one agent as a model of OpenAI's API."""
    check_name(call.gateway, model, "model")
    return json_response(_describe_model(call, model))


def _describe_model(call: ApiCall, name: str) -> AgentModel:
    return AgentModel(name, int(call.gateway.started_at))


@router.route(
    "POST",
    "/openai/v1/chat/completions",
    Returns("The answer; with `stream`, server-sent events with its pieces.", ChatCompletion),
    headers=(IDEMPOTENCY_KEY, SESSION_HEADER, CHAT_HEADER, PROGRESS_HEADER),
    errors=("two-keys", "conflict", "not-found", "wrong-state", "turn-failed", "unavailable"),
    error_format=OPENAI_ERRORS,
    max_body=MAX_MESSAGE_BYTES,
)
async def create_chat_completion(call: ApiCall, body: ChatRequest) -> Response:
    """Say the last message of a conversation to an agent, and return what it answers. With an idempotency key, a repeat
    returns the answer to the first request."""
    check_name(call.gateway, body.model, "model")
    _check_parameters(body)
    messages = msgspec.to_builtins(body.messages)
    conversation = await asyncio.to_thread(read_conversation, body.model, messages)
    session, key = _read_place(call, body, conversation)
    if session is not None:
        await check_agent(call.gateway, session, body.model, _session_field(call))
    message = await accept_message(call.gateway, conversation, session, key, OPENAI_CLIENT)
    reply = await call.gateway.reply(message.event)
    answer = _Answer(call, body, message, reply.at // 1000)
    headers = _answer_headers(body, message)
    if not body.stream:
        is_known = session is None or key is not None  # whether a repeat is recognised
        return json_response(await _run_until_stopped(call, answer.wait(), is_known), headers=headers)
    stopping = Problem("unavailable", "The gateway is stopping. Ask again with the same key: nothing is asked twice.")
    return Stream(answer.stream(), call, encode_data(_make_error(stopping)), headers)


def _answer_headers(body: ChatRequest, message: AcceptedMessage) -> dict[str, str]:
    headers = {"X-Semel-Session": message.session, "X-Request-Id": f"e{message.event}"}
    ignored = [name for name in IGNORED if getattr(body, name) is not None]
    return headers | ({"X-Semel-Ignored": ", ".join(ignored)} if ignored else {})


# ---------------------------------------------------------------- reading the request


def _check_parameters(body: ChatRequest) -> None:
    """Refuse what would change the answer's meaning if it were ignored."""
    refusals = {
        "n": body.n not in (None, 1) and "An agent gives one answer; send n = 1.",
        "functions": body.functions and "The agent uses its own tools, never those of a request.",
        "tool_choice": body.tool_choice not in (None, "auto", "none")
        and "The agent uses its own tools, so it cannot be made to call one of the request.",
        "response_format": (body.response_format or {}).get("type", "text") != "text"
        and "An agent answers in text; ask it for JSON in the message.",
        "logprobs": body.logprobs and "An agent has no log probabilities.",
        "modalities": (body.modalities or ["text"]) != ["text"] and "An agent answers in text.",
    }
    for name, reason in refusals.items():
        if reason:
            raise Problem("bad-field", str(reason), field=name)


def _session_field(call: ApiCall) -> str:
    """Return where the request names its session."""
    return "X-Semel-Session" if call.request.headers.get("x-semel-session") else "metadata.session"


def _read_place(call: ApiCall, body: ChatRequest, conversation: Conversation) -> tuple[str | None, str | None]:
    """Return the session's key and the event's key, as far as the request names them."""
    key, headers = read_event_key(call), call.request.headers
    sessions = {str(name) for name in (headers.get("x-semel-session"), (body.metadata or {}).get("session")) if name}
    if len(sessions) > 1:
        raise Problem("bad-field", "Header and metadata name different sessions.", field="metadata.session")
    if sessions:  # a program that sends no history may mean a second "go on" with the same words
        return sessions.pop(), key or (conversation.make_content_key() if conversation.history else None)
    chat = headers.get("x-openwebui-chat-id", "")
    if chat and conversation.new_messages[-1].text.startswith(TASK_HEAD):
        detail = "Open WebUI sent this for a task of its own, not for the chat, so no agent is asked."
        raise Problem("bad-field", f"{detail} Choose another task model, or switch the tasks off.", field="messages")
    if chat and not chat.startswith(TEMPORARY_CHAT):
        return name_session(body.model, OPEN_WEBUI_CLIENT, chat), key or conversation.make_content_key()
    return None, key


# ---------------------------------------------------------------- writing the answer


class _Answer:
    """Writes the reply to one message as a chat completion."""

    def __init__(self, call: ApiCall, body: ChatRequest, message: AcceptedMessage, created: int):
        self._gateway = call.gateway
        self._body = body
        self._message = message
        self._url = str(call.request.base_url).rstrip("/")
        self._has_progress = call.request.headers.get("x-semel-progress") == "1"
        self._head: Json = {"id": f"chatcmpl-e{message.event}", "created": created, "model": body.model}
        self._finish = "stop"
        self._last_text: int | None = None  # id of the text that was written last; negative or 0: a notice
        self._shown_items: set[int] = set()

    async def wait(self) -> ChatCompletion:
        """Return the answer when the turn has ended, or waits for a person. Raises a Problem if the turn failed."""
        texts: list[str] = []
        thoughts: list[str] = []
        async with aclosing(self._follow_deltas()) as deltas:
            async for delta in deltas:
                if isinstance(delta, ReplyEnd):
                    raise _make_failure(delta.reason, "".join(texts))
                texts.append(delta.get("content", ""))
                thoughts.append(delta.get("reasoning_content", ""))
                if delta.get("asks"):
                    break  # the client sees nothing before the answer, so it must not wait for a person
        message = AnswerMessage("".join(texts), reasoning_content="".join(thoughts) or UNSET)
        return ChatCompletion(choices=[Choice(message, self._finish)], **self._head)

    async def stream(self) -> AsyncGenerator[bytes]:
        """Yield the answer as server-sent events, as it grows."""
        yield self._encode_chunk({"role": "assistant", "content": ""})
        async with aclosing(self._follow_deltas()) as deltas:
            async for delta in deltas:
                if isinstance(delta, ReplyEnd):
                    yield encode_data(_make_error(_make_failure(delta.reason)))
                    return
                yield self._encode_chunk({name: text for name, text in delta.items() if name != "asks"})
        yield self._encode_chunk({}, self._finish)
        if self._body.stream_options and self._body.stream_options.include_usage:
            yield encode_data({**self._head, "object": "chat.completion.chunk", "choices": [], "usage": Usage()})
        yield b"data: [DONE]\n\n"

    def _encode_chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return encode_data({**self._head, "object": "chat.completion.chunk", "choices": [choice]})

    async def _follow_deltas(self) -> AsyncGenerator[Json | ReplyEnd]:
        """Yield the answer's deltas as it grows. One with `asks`: the turn now waits for a person.

        A turn that failed ends the answer with its `ReplyEnd`.
        """
        async with aclosing(follow_reply(self._gateway, self._read_reply, self._url)) as pieces:
            async for piece in pieces:
                match piece:
                    case TextPiece() if piece.text:
                        yield {"content": self._separate_from_last(piece.id) + piece.text}
                    case NoticePiece() if (text := self._read_notice(piece.entry)) is not None:
                        yield {"content": text}
                    case Activity() if (delta := self._read_item(piece.item)) is not None:
                        yield delta
                    case ReplyEnd("failed"):
                        yield piece

    async def _read_reply(self) -> Reply:
        return await self._gateway.reply(self._message.event)

    def _separate_from_last(self, text: int) -> str:
        """Return the blank line before a text, unless it is the first or continues the last one. `text`: its id."""
        separator = "" if self._last_text in (None, text) else "\n\n"
        self._last_text = text
        return separator

    def _read_notice(self, entry: Json) -> str | None:
        kind = str(entry.get("kind", ""))
        self._finish = FINISH_REASONS.get(kind, self._finish)
        if kind == "turn.max_tokens":
            return None
        return self._separate_from_last(-int(entry["seq"])) + str(entry["text"])

    def _read_item(self, item: Json) -> Json | None:
        if item["kind"] == "permission" and item.get("state") == "open" and item["id"] not in self._shown_items:
            self._shown_items.add(item["id"])
            return {"content": self._separate_from_last(0) + self._describe_request(item), "asks": True}
        if not self._has_progress or item["id"] in self._shown_items or item.get("live"):
            return None
        self._shown_items.add(item["id"])
        if item["kind"] == "thought":
            return {"reasoning_content": f"{item['text']}\n\n"}
        return {"reasoning_content": f"[{item.get('title') or 'tool'}]\n\n"} if item["kind"] == "tool" else None

    def _describe_request(self, item: Json) -> str:
        first = int(item.get("first") or 1)
        options = "; ".join(f"{first + n}: {option.get('name')}" for n, option in enumerate(item.get("options") or ()))
        return (
            f"The agent asks: {item.get('title') or 'may it go on?'} ({options}). It waits for an answer: "
            f"/approve N or /deny N here, or on the page: {self._url}/#/s/{self._message.session}"
        )


def _make_failure(reason: str, partial: str = "") -> Problem:
    """Return the Problem for a turn that failed. `partial`: what the agent said before.

    Its header keeps OpenAI's clients from repeating the request.
    """
    remark = f" Before, it said: {partial}" if partial else ""
    return Problem("turn-failed", reason + remark, headers=NO_RETRY)


async def _run_until_stopped(
    call: ApiCall, answer: Coroutine[Any, Any, ChatCompletion], is_known: bool
) -> ChatCompletion:
    """Return what `answer` returns. If the client goes away or the gateway stops, it is cancelled; the turn goes on.

    `is_known`: whether a repeat of the request is recognised. If not, the library is told not to repeat it by itself.
    """
    waiting = asyncio.ensure_future(answer)
    ended = asyncio.ensure_future(run_until_stopped(call.request.receive(), call.request.app.state.stopping))
    try:
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        if is_known:
            raise GatewayUnavailable("the gateway is stopping, or you went away; ask again with the same key")
        detail = "The gateway is stopping. The message was accepted, and its answer will be in the session."
        raise Problem("unavailable", detail, headers=NO_RETRY)
    finally:
        waiting.cancel()
        ended.cancel()


assert set(IGNORED) <= {field.name for field in msgspec.structs.fields(ChatRequest)}
