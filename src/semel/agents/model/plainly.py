"""OpenAI's client is given the conversation, and the tools, as they are to be sent.

The client looks at each message through every type that it may have: 0.13 ms a message, half a second on the event
loop for a past of 4,000, while every other session waits (Law 11). What pydantic-ai hands it is in the API's form
already, so it goes in as `extra_body`, which the client adds to the request unseen (openai-python's README,
"Undocumented params").
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Self

import msgspec

Create = Callable[..., Awaitable[Any]]


def speak_plainly(model: Any) -> bool:
    """True: this model's client is OpenAI's, sends conversations unseen from now on, and retries nothing (Law 7)."""
    client: Any = getattr(getattr(model, "provider", None), "client", None)
    if type(client).__module__.partition(".")[0] != "openai":
        return False
    client.max_retries = 0  # to say so with each request would make a client for each, that looks again
    for resource, field in ((client.chat.completions, "messages"), (client.responses, "input")):
        resource.create = functools.partial(_create, resource.create, field)
    return True


class Handed:
    """What a chat completion says beside its text, as it streams: the library passes over it.

    Images are in `delta.images`, as OpenRouter and other gateways tell them; sounds in `delta.audio`, in pieces of
    16-bit samples with their words (platform.openai.com/docs/guides/audio).
    """

    def __init__(self) -> None:
        self.images: list[str] = []  # addresses, most of them data: URLs
        self.words: list[str] = []  # of the sound, piece by piece
        self.samples: list[str] = []  # base64, piece by piece

    def note(self, chunk: Any) -> None:
        """What one chunk holds."""
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
    """A field, whether the client has a type for what holds it or not."""
    return told.get(name) if isinstance(told, dict) else getattr(told, name, None)


handed: ContextVar[Handed | None] = ContextVar("handed", default=None)
"""Where the request that is made in this context notes what the library passes over."""


class _Watched:
    """A stream of chunks, each looked at on its way."""

    def __init__(self, stream: Any, noted: Handed) -> None:
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


async def _create(create: Create, field: str, **given: Any) -> Any:
    noted = handed.get()
    answer = await _created(create, field, **given)
    return _Watched(answer, noted) if noted is not None and field == "messages" and given.get("stream") else answer


async def _created(create: Create, field: str, **given: Any) -> Any:
    told = {
        name: given[name] for name in (field, "tools") if isinstance(given.get(name), list) and _is_plain(given[name])
    }
    given |= {name: [] for name in told}
    if told:
        given["extra_body"] = {**told, **(given.get("extra_body") or {})}
    return await create(**given)


def _is_plain(told: list[Any]) -> bool:
    """Whether it is JSON as it stands; else the client has to make it so."""
    try:
        msgspec.json.encode(told, enc_hook=_refuse)
    except TypeError:
        return False
    return True


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} has no JSON form of its own")
