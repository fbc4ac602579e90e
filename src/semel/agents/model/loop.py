"""One turn of a model: ask, show what streams, run what it calls, ask again; until it has nothing more to call.

Nothing is retried here: a request that fails ends the prompt, and what is done then is decided where all turns are
(Law 9). What it showed until then stays.
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
from semel.agents.model.failures import Broken, Unreadable, answer, is_cut_inside_a_character
from semel.agents.model.plainly import Handed, handed
from semel.agents.model.provider import Models
from semel.agents.model.toolbox import Toolbox
from semel.gateway.ports import Answered
from semel.text.wellformed import scrub

Json = dict[str, Any]
Block = Sequence[Json]
SAMPLES_A_SECOND = 24_000  # of the sounds of OpenAI's chat completions, 16 bit each
STOPS = {"length": "max_tokens", "content_filter": "refusal"}


class Loop:
    """The turns of one conversation. `tell` is given ACP updates; `steered` what came since it was last asked."""

    def __init__(
        self,
        models: Models,
        toolbox: Toolbox,
        tell: Callable[[Json], None],
        steered: Callable[[], list[Block]],
        prefix: str,
    ) -> None:
        self._models = models
        self._toolbox = toolbox
        self._tell = tell
        self._steered = steered
        self._prefix = prefix
        self._requests = 0
        self.answered = 0  # requests of the last run that were answered
        self.joined: list[Block] = []  # what was steered into it

    def __repr__(self) -> str:
        return f"<Loop of {self._models.settings.model}, {self._requests} requests>"

    async def run(self, messages: list[ModelMessage], content: Block) -> Answered:
        """Answer a prompt. `messages` is what came before, and grows by what was asked and answered."""
        self.joined, self.answered = [], 0
        history.ask(messages, history.content(content))
        for _ in range(self._models.settings.max_requests):
            self._join(messages, self._steered())
            history.fit(messages, self._models.context)
            response = await self._request(messages)
            self.answered += 1
            messages.append(response)
            calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
            if response.finish_reason in STOPS:  # a call that was cut off is no call
                return Answered(STOPS[response.finish_reason])
            if response.finish_reason == "error":
                return answer("the model ended its answer with an error", passing=False)
            if calls:
                messages.append(ModelRequest([await self._toolbox.call(call) for call in calls]))
            else:  # what was steered in meanwhile is a prompt of its own, with an answer of its own
                return Answered("end_turn")
        return Answered("max_turn_requests")

    def _join(self, messages: list[ModelMessage], steered: list[Block]) -> None:
        self.joined += steered
        for block in steered:
            history.ask(messages, history.content(block))

    async def _request(self, messages: list[ModelMessage]) -> ModelResponse:
        """One request, shown as it streams. Raises Broken, Unreadable and pydantic-ai's errors."""
        self._requests += 1
        shown = _Shown(self._tell, f"{self._prefix}.{self._requests}")
        parameters = ModelRequestParameters(function_tools=self._toolbox.definitions())
        beside = Handed()
        handed.set(beside)
        try:
            async with model_request_stream(
                self._models.model,
                messages,
                model_settings=self._models.options(),
                model_request_parameters=parameters,
            ) as stream:
                async for event in stream:
                    shown.show_beside(beside)
                    if isinstance(event, PartStartEvent):
                        shown.start(event.part)
                    elif isinstance(event, PartDeltaEvent):
                        shown.grow(event.delta)
        except UnexpectedModelBehavior as error:
            if "ended without content" in error.message:  # not one event came: pydantic-ai's words, of every provider
                raise Broken from error
            raise
        except (ModelAPIError, UnicodeDecodeError) as error:
            if is_cut_inside_a_character(error):
                raise Broken from error
            raise
        except (AttributeError, TypeError, LookupError, ValueError) as error:  # it looked for what is not there
            raise Unreadable(error) from error
        response = _with_words(_with_refusal(stream.get(), shown), beside, shown)
        if not self._models.is_whole(response):
            raise Broken
        self._usage(response)
        return replace(response, parts=[_sound(part) for part in response.parts])

    def _usage(self, response: ModelResponse) -> None:
        used = response.usage.input_tokens + response.usage.output_tokens
        if used:
            self._tell({"sessionUpdate": "usage_update", "used": used, "size": self._models.context})


def _with_refusal(response: ModelResponse, shown: _Shown) -> ModelResponse:
    """OpenAI's models refuse in a field of its own, which pydantic-ai keeps beside the text. It is what they said."""
    refusal = (response.provider_details or {}).get("refusal")
    if not isinstance(refusal, str) or not refusal.strip():
        return response
    shown.start_new_text(refusal)
    return replace(response, parts=[*response.parts, TextPart(refusal)])


def _with_words(response: ModelResponse, beside: Handed, shown: _Shown) -> ModelResponse:
    """What came beside the text is shown; the words of a sound are what the model said."""
    shown.show_beside(beside)
    shown.show_sound(beside.samples)
    words = "".join(beside.words)
    return replace(response, parts=[*response.parts, TextPart(words)]) if words.strip() else response


def _sound(part: Any) -> Any:
    """What a model said goes back to its API with the next request: no half of a surrogate pair can."""
    told = {name: getattr(part, name, None) for name in ("content", "tool_name", "args")}
    sound = {name: scrub(value) for name, value in told.items()}
    return replace(part, **{name: value for name, value in sound.items() if value != told[name]})


class _Shown:
    """What one model message shows: text and thoughts, under ids of their own.

    Text parts that follow each other are one message; with a thought or a call between them they are two.
    """

    def __init__(self, tell: Callable[[Json], None], id: str) -> None:
        self._tell = tell
        self._id = id
        self._last: type = TextPart
        self._texts = 0
        self._words = 0  # pieces of a sound's words that were shown

    def start(self, part: object) -> None:
        if isinstance(part, TextPart) and self._last is not TextPart:
            self._texts += 1
        self._last = type(part)
        if isinstance(part, TextPart):
            self._chunk("agent_message_chunk", part.content)
        elif isinstance(part, ThinkingPart):
            self._chunk("agent_thought_chunk", part.content)
        elif isinstance(part, FilePart):
            mime = part.content.media_type
            self._file("audio" if mime.startswith("audio/") else "image", part.content.data, mime)

    def show_beside(self, beside: Handed) -> None:
        """What a chat completion told beside its text since it was last asked."""
        images, beside.images = beside.images, []
        for url in images:
            self._tell_file({"type": "image", "uri": url})
        words = beside.words[self._words :]
        self._words += len(words)
        self._chunk("agent_message_chunk", "".join(words))

    def show_sound(self, samples: Sequence[str]) -> None:
        """A sound whose pieces are all there."""
        if not samples:
            return
        try:
            data = b"".join(base64.b64decode(piece) for piece in samples)
        except ValueError:
            self._tell_file({"type": "audio", "mimeType": "audio/wav", "data": "".join(samples)})
            return
        self._file("audio", wav(data), "audio/wav")

    def _file(self, kind: str, data: bytes, mime: str) -> None:
        self._tell_file({"type": kind, "mimeType": mime, "data": base64.b64encode(data).decode("ascii")})

    def _tell_file(self, content: Json) -> None:
        id = f"{self._id}.{self._texts}"
        self._tell({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": content})

    def start_new_text(self, text: str) -> None:
        """Show a text that is a message of its own, whatever came before it."""
        self._texts += 1
        self._last = TextPart
        self._chunk("agent_message_chunk", text)

    def grow(self, delta: object) -> None:
        if isinstance(delta, TextPartDelta):
            self._chunk("agent_message_chunk", delta.content_delta)
        elif isinstance(delta, ThinkingPartDelta):
            self._chunk("agent_thought_chunk", delta.content_delta or "")

    def _chunk(self, kind: str, text: str) -> None:
        if text:
            id = f"{self._id}.{self._texts}" + ("t" if kind == "agent_thought_chunk" else "")
            self._tell({"sessionUpdate": kind, "messageId": id, "content": {"type": "text", "text": text}})


def wav(samples: bytes) -> bytes:
    """Raw samples as a file that players know."""
    out = io.BytesIO()
    with wave.open(out, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(SAMPLES_A_SECOND)
        written.writeframes(samples)
    return out.getvalue()
