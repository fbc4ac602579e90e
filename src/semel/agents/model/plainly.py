"""Patches for OpenAI's client: skip its validation of messages, and collect what pydantic-ai drops from a stream.

The client matches each message against every type that it may have: 0.13 ms a message, half a second for a past of
4,000, which blocks the event loop and so every other session (Law 11). pydantic-ai's messages are in the API's format
already, so `create` passes messages and tools as `extra_body`, which the client adds to the request unchecked
(openai-python's README, "Undocumented params").

The same wrapper watches the chunks of a chat completion for images and sound, which pydantic-ai ignores.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Self

import msgspec

Create = Callable[..., Awaitable[Any]]


def bypass_client_validation(model: Any) -> bool:
    """Patch the model's client if it is OpenAI's: no validation of messages, no retries (Law 7). True if patched."""
    client: Any = getattr(getattr(model, "provider", None), "client", None)
    if type(client).__module__.partition(".")[0] != "openai":
        return False
    client.max_retries = 0  # a per-request setting makes an unpatched client for each request
    for resource, field in ((client.chat.completions, "messages"), (client.responses, "input")):
        resource.create = functools.partial(_create_observed, resource.create, field)
    return True


class StreamExtras:
    """Images and sound of one streamed chat completion, which pydantic-ai ignores.

    Images come in `delta.images` (OpenRouter and others), sound in `delta.audio`: pieces of 16-bit samples and of
    their transcript (platform.openai.com/docs/guides/audio).
    """

    def __init__(self) -> None:
        self.images: list[str] = []  # addresses, most of them data: URLs
        self.words: list[str] = []  # transcript of the sound, in pieces
        self.samples: list[str] = []  # base64, in pieces

    def note(self, chunk: Any) -> None:
        """Collect the images and sound of one chunk."""
        choices = getattr(chunk, "choices", None)
        delta = getattr(choices[0], "delta", None) if choices else None
        images = _field(delta, "images")
        for image in images if isinstance(images, list) else ():
            url = _field(_field(image, "image_url"), "url")
            if isinstance(url, str) and url:
                self.images.append(url)
        sound = _field(delta, "audio")
        for name, pieces in (("transcript", self.words), ("data", self.samples)):
            if isinstance(piece := _field(sound, name), str) and piece:
                pieces.append(piece)


def _field(told: Any, name: str) -> Any:
    """A field of a dict or of an object; the client parses into objects only what it has types for."""
    return told.get(name) if isinstance(told, dict) else getattr(told, name, None)


current_extras: ContextVar[StreamExtras | None] = ContextVar("handed", default=None)
"""Where the request made in this context collects its images and sound."""


class _ObservedStream:
    """A stream of chunks that passes each chunk to `note` before it yields it."""

    def __init__(self, stream: Any, noted: StreamExtras) -> None:
        self._stream = stream
        self._noted = noted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *fault: Any) -> Any:
        return await self._stream.__aexit__(*fault)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for chunk in self._stream:
            self._noted.note(chunk)
            yield chunk


async def _create_observed(create: Create, field: str, **given: Any) -> Any:
    noted = current_extras.get()
    answer = await _create_unvalidated(create, field, **given)
    return (
        _ObservedStream(answer, noted) if noted is not None and field == "messages" and given.get("stream") else answer
    )


async def _create_unvalidated(create: Create, field: str, **given: Any) -> Any:
    told = {
        name: given[name]
        for name in (field, "tools")
        if isinstance(given.get(name), list) and _is_plain_json(given[name])
    }
    given |= {name: [] for name in told}
    if told:
        given["extra_body"] = {**told, **(given.get("extra_body") or {})}
    return await create(**given)


def _is_plain_json(told: list[Any]) -> bool:
    """Whether the list consists of plain JSON values; anything else must go through the client's conversion."""
    try:
        msgspec.json.encode(told, enc_hook=_refuse)
    except TypeError:
        return False
    return True


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} has no JSON form of its own")
