"""OpenAI's client is given the conversation, and the tools, as they are to be sent.

The client looks at each message through every type that it may have: 0.13 ms a message, half a second on the event
loop for a past of 4,000, while every other session waits (Law 11). What pydantic-ai hands it is in the API's form
already, so it goes in as `extra_body`, which the client adds to the request unseen (openai-python's README,
"Undocumented params").
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

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


async def _create(create: Create, field: str, **given: Any) -> Any:
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
