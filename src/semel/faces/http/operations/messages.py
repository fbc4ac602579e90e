"""Operations: send messages and events to a session, answer requests, stop a turn, set mode and model."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from semel.faces.api_types import Accepted
from semel.faces.http.problems import Problem
from semel.faces.http.routing import ApiCall, Param, RequestBody, Returns, Router, SessionKey, json_response
from semel.faces.http.security import Access
from semel.gateway.inbound.prompt_content import KINDS
from semel.gateway.ports import Heard
from semel.gateway.turns.session_controls import MAX_ROW_ID
from semel.law.wake import Busy as BusyMode
from semel.ledger.inbound.answers import AnswerContext

router = Router("talk")

OWNER = "the owner"  # recorded as the acting person if the request names none
MAX_KEY_CHARS = 255
MAX_MESSAGE_BYTES = 32 * 1024 * 1024  # bytes of the body of a message, which may hold images
IDEMPOTENCY_KEY = Param("The same as the key in the body (IETF draft idempotency-key-header).", name="Idempotency-Key")


class KeyedBody(RequestBody, kw_only=True):
    """A body with an idempotency key, which may be called `id` or `key`."""

    id: str | None = None
    key: str | None = None


Block = Annotated[
    dict[str, Any],
    Meta(extra_json_schema={"required": ["type"], "properties": {"type": {"type": "string", "enum": list(KINDS)}}}),
]
"""An ACP content block. The gateway checks it, and keeps fields that it does not know."""


class MessageFile(RequestBody):
    """An uploaded file. `name`: as the message calls it (default: the name that it was uploaded with)."""

    id: str
    name: str | None = None


class Say(KeyedBody, kw_only=True):
    """A message from a person: `text` with uploaded `files`, or `blocks`, which the agent gets as they are (ACP's
    `ContentBlock`).

    `id` or `key`: an idempotency key; `busy`: what to do with the message while the session is busy (default: the
    session's mode); `automatic`: a program sent it; `seen`: the rev of the view that the person had seen.
    """

    text: str = ""
    blocks: list[Block] | None = None
    files: list[MessageFile] | None = None
    sender: str | None = None
    busy: BusyMode | None = None
    automatic: bool = False
    seen: int | None = None


class Report(KeyedBody, kw_only=True):
    """An event that happened elsewhere. `key` or `id`: an idempotency key; `data`: stored with the entry; `wakes`:
    whether it starts a turn (default: depends on `kind`).
    """

    kind: str
    text: str
    data: dict[str, Any] | None = None
    wakes: bool | None = None


class Stop(RequestBody):
    """`turn`: the id of the turn to stop, which may be in a later attempt by now; no other turn is stopped. `seen`: the
    rev of the view in which that turn was seen. `message`: the id of a message instead of a turn: it is withdrawn if it
    waits; else the turn that took it is stopped, and `seen` is ignored."""

    by: str | None = None
    turn: Annotated[int, Meta(ge=1, le=MAX_ROW_ID)] | None = None
    seen: int | None = None
    message: Annotated[str, Meta(min_length=1, max_length=MAX_KEY_CHARS)] | None = None


class Stopped(Struct):
    """`stopped` is false if no turn was running or about to begin, or if the one that was named had ended. `withdrawn`
    is true if the named message waited: no agent gets it. Then `stopped` is true, too."""

    stopped: bool
    withdrawn: bool = False


OPTION = "the `optionId` of one of the request's options, or the text that answers a question; null cancels a request"


class Answer(RequestBody):
    """`item`: the id of a permission request or question; `seen`: the rev of the view in which it was answered."""

    item: int
    option: Annotated[str | None, Meta(description=OPTION)]
    by: str | None = None
    seen: int | None = None


class Answered(Struct):
    """`answered`: it has this answer, by this or an equal earlier request. `already`: it had another answer. `closed`:
    the request is no longer open.
    """

    outcome: Literal["answered", "already", "closed"]


class Busy(RequestBody):
    """`mode`: null restores the configured mode."""

    mode: BusyMode | None


class Mode(RequestBody):
    mode: str


class Model(RequestBody):
    model: str


class OptionValue(RequestBody):
    """`option`: the id of one of the session's `options`; `value`: one of its values, or true or false for a switch."""

    option: str
    value: str | bool


EVENT_ACCEPTED = Returns("The event is committed, now or by an earlier request (`duplicate`).", Accepted, status=202)
CHANGED = Returns("Done. Watchers get the change.", status=204)
EVENT_ERRORS = ("two-keys", "conflict", "unavailable")
AGENT_ERRORS = ("no-such-session", "agent-refused", "agent-logged-out", "unavailable")


@router.route(
    "POST",
    "/v1/sessions/{key}/messages",
    EVENT_ACCEPTED,
    headers=(IDEMPOTENCY_KEY,),
    errors=(*EVENT_ERRORS, "not-found"),
    max_body=MAX_MESSAGE_BYTES,
)
async def say(call: ApiCall, key: SessionKey, body: Say) -> Response:
    """Send a message to a session. A new key creates the session. With an `id`, a repeat is accepted only once."""
    if not body.text and not body.files and body.blocks is None:
        raise Problem("bad-field", "A message needs `text`, `files` or `blocks`.", field="text")
    event = await call.gateway.say(
        key, body.text, blocks=body.blocks, attached=[msgspec.structs.asdict(file) for file in body.files or ()],
        sender=body.sender, key=read_event_key(call, body), busy=body.busy, automatic=body.automatic, seen=body.seen,
    )  # fmt: skip
    return event_response(event)


@router.route(
    "POST",
    "/v1/sessions/{key}/events",
    EVENT_ACCEPTED,
    headers=(IDEMPOTENCY_KEY,),
    errors=EVENT_ERRORS,
    access=Access.EVENTS,
)
async def report(call: ApiCall, key: SessionKey, body: Report) -> Response:
    """Report an event to a session. With a `key`, a repeat is accepted only once."""
    node = call.node
    note = await call.gateway.describe_new_session(key, for_owner=node is None)
    event = await call.gateway.report(
        key, body.kind, body.text, key=read_event_key(call, body), data=body.data, wakes=body.wakes,
        source=node.source if node else None, scope=node.sessions if node else None,
    )  # fmt: skip
    return event_response(replace(event, note=note) if event.status == "accepted" else event)


def read_event_key(call: ApiCall, body: KeyedBody | None = None) -> str | None:
    """Return the event's idempotency key, from the body or the Idempotency-Key header; `None` if there is none.

    Raises a Problem if these keys differ.
    """
    in_body = {key for key in (body.id, body.key) if key is not None} if body is not None else set()
    field = "Idempotency-Key" if body is None else "key" if body.id is None and body.key is not None else "id"
    keys = {_strip_quotes(value) for value in call.request.headers.getlist("idempotency-key")} | in_body
    if len(keys) > 1:
        raise Problem("two-keys", "Send one key, or the same one twice.", field=field)
    for key in keys:
        if not 0 < len(key) <= MAX_KEY_CHARS:
            raise Problem("bad-field", f"A key has 1 to {MAX_KEY_CHARS} characters, this one {len(key)}.", field=field)
        return key
    return None


def _strip_quotes(value: str) -> str:
    """Remove quotes: the IETF draft makes the header a quoted string, but most clients send it bare."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def event_response(event: Heard) -> Response:
    status = check_accepted(event)
    return json_response(Accepted(event.event, status, event.waiting, event.place, event.why, event.note), 202)


def check_accepted(event: Heard, key_name: str = "key") -> Literal["accepted", "duplicate"]:
    """Return the event's status. Raises a Problem if its key, which clients call `key_name`, had other content."""
    if event.status == "conflict":
        first = (
            f"The first content, for another session ({event.elsewhere})," if event.elsewhere else "The first content"
        )
        raise Problem(
            "conflict",
            f"{first} stays; this one is recorded beside it, and is not answered. "
            f"Use a new {key_name} for a new message.",
            event=event.event,
            kept=event.digest,
            given=event.other,
        )
    return event.status


@router.route(
    "POST",
    "/v1/sessions/{key}/stop",
    Returns("What was stopped.", Stopped),
    errors=("no-such-session",),
    body_optional=True,
)
async def stop_turn(call: ApiCall, key: SessionKey, body: Stop) -> Response:
    """Cancel the turn that runs or is about to begin. Waiting events are taken by the next turn.

    With `turn`, cancel this turn and no other. With `message`, withdraw this message of the session if it waits;
    otherwise cancel the turn that has taken it.
    """
    by, controls = body.by or OWNER, call.gateway.controls
    if body.message is None:
        return json_response(Stopped(await controls.stop_turn(key, by, body.turn, body.seen)))
    if body.turn is not None:
        raise Problem("bad-field", "Name a turn or a message, not both.", field="message")
    done = await controls.stop_message(key, by, body.message)
    return json_response(Stopped(done is not None, done == "withdrawn"))


@router.route(
    "POST",
    "/v1/sessions/{key}/answers",
    Returns("The outcome of the answer.", Answered),
    errors=("no-such-session",),
)
async def answer(call: ApiCall, key: SessionKey, body: Answer) -> Response:
    """Answer a permission request or a question. The first answer counts."""
    context = AnswerContext(seen=body.seen)
    outcome = await call.gateway.controls.answer(key, body.item, body.option, body.by or OWNER, context=context)
    return json_response({"outcome": outcome})


@router.route("PUT", "/v1/sessions/{key}/busy", CHANGED, errors=("no-such-session",))
async def set_busy(call: ApiCall, key: SessionKey, body: Busy) -> Response:
    """Set what happens to messages that arrive while the session is busy."""
    await call.gateway.controls.set_busy(key, body.mode)
    return Response(status_code=204)


@router.route("PUT", "/v1/sessions/{key}/mode", CHANGED, errors=AGENT_ERRORS)
async def set_mode(call: ApiCall, key: SessionKey, body: Mode) -> Response:
    """Switch the agent's mode to one of those that the session's `mode` item names."""
    await call.gateway.controls.set_mode(key, body.mode)
    return Response(status_code=204)


@router.route("PUT", "/v1/sessions/{key}/model", CHANGED, errors=AGENT_ERRORS)
async def set_model(call: ApiCall, key: SessionKey, body: Model) -> Response:
    """Switch the agent's model."""
    await call.gateway.controls.set_model(key, body.model)
    return Response(status_code=204)


@router.route("PUT", "/v1/sessions/{key}/option", CHANGED, errors=AGENT_ERRORS)
async def set_option(call: ApiCall, key: SessionKey, body: OptionValue) -> Response:
    """Set one of the agent's other options."""
    await call.gateway.controls.set_option(key, body.option, body.value)
    return Response(status_code=204)
