"""Operations: the state of the channels, input that could not be used, and webhooks of platforms."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.problems import PROBLEM_MEDIA_TYPE, Problem, make_channel_response
from semel.faces.http.routing import (
    ApiCall,
    Cursor,
    Page,
    Param,
    Returns,
    Router,
    complete_response,
    json_response,
    page_response,
    read_cursor,
)
from semel.faces.http.security import Access

router = Router("channels")
MAX_HOOK_BYTES = 4 * 1024 * 1024
"""Maximum size of a platform's request in bytes: WhatsApp sends several messages at once, in up to 3 MB."""


class Counts(Struct):
    """Events of a channel since the gateway started. `duplicate`: repeats; `conflict`: a known key with other content;
    `quarantined`: events that could not be used.
    """

    accepted: int
    duplicate: int
    conflict: int
    quarantined: int


class RefusedRequest(Struct):
    """An HTTP request that was refused. `reason`: the problem's code; `why`: a sentence for people."""

    reason: str
    why: str
    at: int


class ChannelState(Struct, omit_defaults=True):
    """The state of a channel. Times are milliseconds since 1970. `since`: when this state began; `agent`: the agent of
    the channel's sessions; `error`: the last error, at `error_at`; `retry_at`: when the channel is tried again;
    `refused`: how much input was refused, by reason; `last_refused`: the last HTTP request that was; `people`: whether
    people have accounts on the channel, so that a pairing code or an account can let somebody in; `closed`: nobody may
    talk there yet.
    """

    name: str
    safety: str
    agent: str
    state: Literal["starting", "online", "offline", "denied"]
    since: int
    counts: Counts
    refused: dict[str, int]
    last_refused: RefusedRequest | None = None
    kind: str | None = None
    people: bool | None = None
    closed: bool = False
    error: str | None = None
    error_at: int | None = None
    retry_at: int | None = None


class Channels(Page):
    channels: list[ChannelState]


class Quarantined(Struct, omit_defaults=True):
    """An event that could not be used. `raw` is what was received, as text, or as base64 if `encoding` says so. `cut`:
    the size of the whole input in bytes, if `raw` is only its beginning.
    """

    event: int
    channel: str
    why: str
    at: int
    kind: str
    key: str
    raw: str
    encoding: Literal["base64"] | None = None
    cut: int | None = None
    sender: str | None = None
    repeats: int = 0


class Quarantine(Page):
    quarantined: list[Quarantined]


@router.route("GET", "/v1/channels", Returns("The channels, in the order of the configuration.", Channels))
async def list_channels(call: ApiCall) -> Response:
    """List all channels with their state, last error and number of events."""
    return complete_response("channels", call.gateway.channel_manager.list())


@router.route("GET", "/v1/quarantined", Returns("The events, each with the reason.", Quarantine))
async def list_quarantined(
    call: ApiCall,
    limit: Annotated[int, Param("Maximum number of events.", minimum=1, maximum=1000)] = 100,
    after: Cursor = None,
    before: Annotated[int | None, Param("Only events with a smaller id.")] = None,
) -> Response:
    """List events from channels that could not be used, newest first."""
    rows = await call.gateway.quarantined(limit + 1, read_cursor(after, before))
    return page_response("quarantined", rows, limit, "event")


@router.route(
    "POST",
    "/v1/hooks/{channel}",
    Returns("Accepted, or already known.", dict[str, Any]),
    Returns("Accepted, after the commit.", dict[str, Any], status=202),
    Returns("The request cannot be read.", None, PROBLEM_MEDIA_TYPE, 400),
    Returns("The signature or the token is missing or wrong.", None, PROBLEM_MEDIA_TYPE, 401),
    Returns("The channel may not speak there.", None, PROBLEM_MEDIA_TYPE, 403),
    Returns("There is no such channel.", None, PROBLEM_MEDIA_TYPE, 404),
    Returns("The id was used before with other content.", None, PROBLEM_MEDIA_TYPE, 409),
    Returns("The body is too large.", None, PROBLEM_MEDIA_TYPE, 413),
    tag="doors",
    errors=("unavailable",),
    access=Access.SIGNED,
    max_body=MAX_HOOK_BYTES,
)
async def hook(call: ApiCall, channel: Annotated[str, Param("Name of a configured channel.")], body: bytes) -> Response:
    """Receive a webhook of a platform. The channel checks the signature and decides the answer."""
    status, answer = await call.gateway.hook(channel, dict(call.request.headers), body)
    if status >= 400:
        return make_channel_response(status, answer)
    return json_response(answer, status)


@router.route(
    "GET",
    "/v1/hooks/{channel}",
    Returns("The challenge, as it came.", str, "text/plain"),
    tag="doors",
    errors=("channel-scope", "not-found", "unavailable"),
    access=Access.SIGNED,
)
async def confirm_hook(
    call: ApiCall,
    channel: Annotated[str, Param("Name of a configured channel.")],
    mode: Annotated[str | None, Param("What the platform asks for.", name="hub.mode")] = None,
    challenge: Annotated[str | None, Param("What the answer repeats.", name="hub.challenge")] = None,
    token: Annotated[str | None, Param("The channel's `verify_token`.", name="hub.verify_token")] = None,
) -> Response:
    """Confirm the address of a webhook to a platform: repeat its challenge, if it knows the channel's token."""
    if not call.gateway.confirm_hook(channel, token or "") or mode != "subscribe":
        raise Problem("channel-scope", f"The channel {channel} expects hub.mode=subscribe and its own verify_token.")
    return Response(challenge or "", media_type="text/plain")
