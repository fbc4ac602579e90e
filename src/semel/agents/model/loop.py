"""The request loop of a model agent: send a request, stream the answer, run its tool calls; repeat until it has none.

Nothing is retried here. A failed request ends the prompt with an error, and the gateway decides about a retry as it
does for every agent (Law 9). Text that was already streamed stays.

A chat completion may contain images and sound that pydantic-ai does not pass on. `openai_patches.py` collects them
while the response streams, and this module shows them.
"""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters

from semel.agents.model import history
from semel.agents.model.failures import StreamCutOff, UnreadableResponse, error_answer, is_cut_inside_a_character
from semel.agents.model.openai_patches import WEB_PAGE, StreamExtras, current_extras
from semel.agents.model.provider import ConfiguredModel
from semel.agents.model.toolbox import Toolbox
from semel.gateway.ports import Answered
from semel.text.json_types import Json
from semel.text.wellformed import scrub

Block = Sequence[Json]
AUDIO_SAMPLE_RATE_HZ = 24_000  # OpenAI's chat completions send 16-bit mono samples
STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal"}


class RequestLoop:
    """The loop that answers the prompts of one conversation.

    - `tell`: gets each ACP update.
    - `take_steered`: returns the prompts that have arrived since its last call.
    - `prefix`: the beginning of every message id, so that the ids of different spawns differ.
    """

    def __init__(
        self,
        models: ConfiguredModel,
        toolbox: Toolbox,
        tell: Callable[[Json], None],
        take_steered: Callable[[], list[Block]],
        prefix: str,
    ) -> None:
        self._models = models
        self._toolbox = toolbox
        self._tell = tell
        self._take_steered = take_steered
        self._prefix = prefix
        self._requests = 0
        self.answered_requests = 0  # how many requests of the last run were answered
        self.tokens = 0  # the tokens that the requests of the last run used
        self.joined_prompts: list[Block] = []  # prompts that joined the last run

    def __repr__(self) -> str:
        return f"<Loop of {self._models.agent.model}, {self._requests} requests>"

    async def run(self, messages: list[ModelMessage], content: Block) -> Answered:
        """Answer a prompt, and return the signal that ends it.

        `messages`: the messages before the prompt; the loop appends its requests and responses. `content`: the prompt's
        ACP content blocks. Raises the errors of a failed request.
        """
        self.joined_prompts, self.answered_requests, self.tokens = [], 0, 0
        history.append_prompt(messages, history.convert_content(content))
        for _ in range(self._models.agent.max_requests):
            self._join_prompts(messages, self._take_steered())
            history.drop_old_results(messages, self._models.context)
            response = await self._send_request(messages)
            self.answered_requests += 1
            messages.append(response)
            calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
            if response.finish_reason in STOP_REASONS:  # tool calls in such an answer may be incomplete: not run
                return Answered(STOP_REASONS[response.finish_reason])
            if response.finish_reason == "error":
                return error_answer("the model ended its answer with an error", passing=False)
            if calls:
                messages.append(ModelRequest([await self._toolbox.call(call) for call in calls]))
            else:  # prompts that arrived since the last request are not joined any more
                return Answered("end_turn")
        return Answered("max_turn_requests")

    def _join_prompts(self, messages: list[ModelMessage], steered: list[Block]) -> None:
        self.joined_prompts += steered
        for block in steered:
            history.append_prompt(messages, history.convert_content(block))

    async def _send_request(self, messages: list[ModelMessage]) -> ModelResponse:
        """Send one request, show its answer as it streams, and return it.

        Raises StreamCutOff, UnreadableResponse or an error of pydantic-ai.
        """
        self._requests += 1
        shown = _ShownMessage(self._tell, f"{self._prefix}.{self._requests}")
        parameters = ModelRequestParameters(function_tools=self._toolbox.definitions())
        beside = StreamExtras()
        current_extras.set(beside)
        try:
            async with model_request_stream(
                self._models.model,
                messages,
                model_settings=self._models.request_options(),
                model_request_parameters=parameters,
            ) as stream:
                async for event in stream:
                    shown.show_beside(beside)
                    if isinstance(event, PartStartEvent):
                        shown.start(event.part)
                    elif isinstance(event, PartDeltaEvent):
                        shown.grow(event.delta)
        except UnexpectedModelBehavior as error:
            if "ended without content" in error.message:  # pydantic-ai's message if the stream had no event at all
                if beside.media_type == WEB_PAGE:
                    raise UnreadableResponse(f"it is a page, {WEB_PAGE}") from error
                raise StreamCutOff from error
            raise
        except (ModelAPIError, UnicodeDecodeError) as error:
            if is_cut_inside_a_character(error):
                raise StreamCutOff from error
            raise
        except (AttributeError, TypeError, LookupError, ValueError) as error:  # the client met an unexpected format
            raise UnreadableResponse(f"{type(error).__name__}: {error}") from error
        response = _append_transcript(_append_refusal(stream.get(), shown), beside, shown)
        if not self._models.is_whole(response):
            raise StreamCutOff
        self._report_usage(response)
        return replace(response, parts=[_scrub_part(part) for part in response.parts])

    def _report_usage(self, response: ModelResponse) -> None:
        used = response.usage.input_tokens + response.usage.output_tokens
        self.tokens += used
        if used:
            self._tell({"sessionUpdate": "usage_update", "used": used, "size": self._models.context})


def _append_refusal(response: ModelResponse, shown: _ShownMessage) -> ModelResponse:
    """Show a refusal, and return the response with the refusal added to its text.

    OpenAI sends a refusal in a field of its own (`provider_details`).
    """
    refusal = (response.provider_details or {}).get("refusal")
    if not isinstance(refusal, str) or not refusal.strip():
        return response
    shown.start_new_text(refusal)
    return replace(response, parts=[*response.parts, TextPart(refusal)])


def _append_transcript(response: ModelResponse, beside: StreamExtras, shown: _ShownMessage) -> ModelResponse:
    """Show the images and sound of a response.

    Return the response with the transcript of the sound added to its text.
    """
    shown.show_beside(beside)
    shown.show_sound(beside.samples)
    words = "".join(beside.words)
    return replace(response, parts=[*response.parts, TextPart(words)]) if words.strip() else response


def _scrub_part(part: Any) -> Any:
    """Replace lone surrogates in a part of a response.

    The next request contains the part, and UTF-8 cannot encode them.
    """
    texts = {name: getattr(part, name, None) for name in ("content", "tool_name", "args")}
    scrubbed = {name: scrub(value) for name, value in texts.items()}
    return replace(part, **{name: value for name, value in scrubbed.items() if value != texts[name]})


class _ShownMessage:
    """One response of the model as it is shown: its text, thoughts and files, sent as ACP chunks with message ids.

    Consecutive text parts have the same message id; after a thought or a tool call, text gets a new id. `id`: the
    beginning of these ids.
    """

    def __init__(self, tell: Callable[[Json], None], id: str) -> None:
        self._tell = tell
        self._id = id
        self._last: type = TextPart
        self._text_count = 0
        self._shown_words = 0  # how many pieces of the sound's transcript were shown

    def start(self, part: object) -> None:
        if isinstance(part, TextPart) and self._last is not TextPart:
            self._text_count += 1
        self._last = type(part)
        if isinstance(part, TextPart):
            self._add_chunk("agent_message_chunk", part.content)
        elif isinstance(part, ThinkingPart):
            self._add_chunk("agent_thought_chunk", part.content)
        elif isinstance(part, FilePart):
            mime = part.content.media_type
            self._add_file("audio" if mime.startswith("audio/") else "image", part.content.data, mime)

    def show_beside(self, beside: StreamExtras) -> None:
        """Show the images and the pieces of transcript that were collected since the last call."""
        images, beside.images = beside.images, []
        for url in images:
            self._tell_file({"type": "image", "uri": url})
        words = beside.words[self._shown_words :]
        self._shown_words += len(words)
        self._add_chunk("agent_message_chunk", "".join(words))

    def show_sound(self, samples: Sequence[str]) -> None:
        """Show a complete sound as a WAV file.

        `samples`: pieces of base64; if they cannot be decoded, send them unchanged.
        """
        if not samples:
            return
        try:
            data = b"".join(base64.b64decode(piece) for piece in samples)
        except ValueError:
            self._tell_file({"type": "audio", "mimeType": "audio/wav", "data": "".join(samples)})
            return
        self._add_file("audio", encode_wav(data), "audio/wav")

    def _add_file(self, kind: str, data: bytes, mime: str) -> None:
        self._tell_file({"type": kind, "mimeType": mime, "data": base64.b64encode(data).decode("ascii")})

    def _tell_file(self, content: Json) -> None:
        id = f"{self._id}.{self._text_count}"
        self._tell({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": content})

    def start_new_text(self, text: str) -> None:
        """Show a text under a new message id."""
        self._text_count += 1
        self._last = TextPart
        self._add_chunk("agent_message_chunk", text)

    def grow(self, delta: object) -> None:
        if isinstance(delta, TextPartDelta):
            self._add_chunk("agent_message_chunk", delta.content_delta)
        elif isinstance(delta, ThinkingPartDelta):
            self._add_chunk("agent_thought_chunk", delta.content_delta or "")

    def _add_chunk(self, kind: str, text: str) -> None:
        if text:
            id = f"{self._id}.{self._text_count}" + ("t" if kind == "agent_thought_chunk" else "")
            self._tell({"sessionUpdate": kind, "messageId": id, "content": {"type": "text", "text": text}})


def encode_wav(samples: bytes) -> bytes:
    """Return a WAV file that contains these raw 16-bit mono samples."""
    out = io.BytesIO()
    with wave.open(out, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(AUDIO_SAMPLE_RATE_HZ)
        written.writeframes(samples)
    return out.getvalue()
