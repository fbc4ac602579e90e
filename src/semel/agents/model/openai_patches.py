"""Patches for OpenAI's client: skip its validation of messages, and collect parts of a stream that pydantic-ai drops.

The client matches each message against every type that it may have. That takes 0.13 ms per message, so half a second
for 4,000 messages, and blocks the event loop and with it every other session (Law 11). pydantic-ai's messages are
already in the API's format. So the patched `create` passes messages and tools as `extra_body`, which the client adds to
the request unchecked (openai-python's README, "Undocumented params").

The patched `create` also collects images and sound from the chunks of a chat completion, which pydantic-ai ignores, and
the media type of every stream.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Self

import msgspec

WEB_PAGE = "text/html"
"""The media type of an answer from a server that does not speak the API, such as a web interface at the same port."""

Create = Callable[..., Awaitable[Any]]


def bypass_client_validation(model: Any) -> None:
    """If the model's client is OpenAI's, patch it so that it sends messages and tools without validating them.

    Its streams then also fill the `StreamExtras` in `current_extras`.
    """
    client: Any = getattr(getattr(model, "provider", None), "client", None)
    if type(client).__module__.partition(".")[0] != "openai":
        return
    for resource, field in ((client.chat.completions, "messages"), (client.responses, "input")):
        resource.create = functools.partial(_create_observed, resource.create, field)


class StreamExtras:
    """The images and sound of one streamed chat completion, which pydantic-ai ignores, and the stream's media type.

    Images are in `delta.images` (OpenRouter and others). Sound is in `delta.audio`, as pieces of 16-bit samples and of
    their transcript (platform.openai.com/docs/guides/audio).
    """

    def __init__(self) -> None:
        self.images: list[str] = []  # addresses, most of them data: URLs
        self.words: list[str] = []  # transcript of the sound, in pieces
        self.samples: list[str] = []  # base64, in pieces
        self.media_type = ""  # such as "text/event-stream"

    def collect(self, chunk: Any) -> None:
        """Collect the images and sound of one chunk."""
        choices = getattr(chunk, "choices", None)
        delta = getattr(choices[0], "delta", None) if choices else None
        images = _get_field(delta, "images")
        for image in images if isinstance(images, list) else ():
            url = _get_field(_get_field(image, "image_url"), "url")
            if isinstance(url, str) and url:
                self.images.append(url)
        sound = _get_field(delta, "audio")
        for name, pieces in (("transcript", self.words), ("data", self.samples)):
            if isinstance(piece := _get_field(sound, name), str) and piece:
                pieces.append(piece)


def _get_field(value: Any, name: str) -> Any:
    """Return a field of a dict or an object; None if it is missing.

    The client leaves fields that it does not know as dicts.
    """
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


current_extras: ContextVar[StreamExtras | None] = ContextVar("handed", default=None)
"""The object in which a request that is made in this context collects its images and sound."""


class _ObservedStream:
    """A stream of chunks that passes each chunk to `StreamExtras.collect`, and then yields it."""

    def __init__(self, stream: Any, extras: StreamExtras) -> None:
        self._stream = stream
        self._extras = extras

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *fault: Any) -> Any:
        return await self._stream.__aexit__(*fault)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for chunk in self._stream:
            self._extras.collect(chunk)
            yield chunk


async def _create_observed(create: Create, field: str, **arguments: Any) -> Any:
    extras = current_extras.get()
    answer = await _create_unvalidated(create, field, **arguments)
    if extras is None or not arguments.get("stream"):
        return answer
    extras.media_type = answer.response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _ObservedStream(answer, extras) if field == "messages" else answer


async def _create_unvalidated(create: Create, field: str, **arguments: Any) -> Any:
    unchecked = {
        name: arguments[name]
        for name in (field, "tools")
        if isinstance(arguments.get(name), list) and _is_plain_json(arguments[name])
    }
    arguments |= {name: [] for name in unchecked}
    if unchecked:
        arguments["extra_body"] = {**unchecked, **(arguments.get("extra_body") or {})}
    return await create(**arguments)


def _is_plain_json(values: list[Any]) -> bool:
    """Return whether the list consists only of JSON values. Other values must be converted by the client."""
    try:
        msgspec.json.encode(values, enc_hook=_refuse)
    except TypeError:
        return False
    return True


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} has no JSON form of its own")
