"""Operations: send messages and events to a session, answer requests, stop a turn, set mode and model."""

from __future__ import annotations

from starlette.responses import Response

from semel.faces.http import shapes
from semel.faces.http.problems import Problem
from semel.faces.http.security import Access
from semel.faces.http.table import Answers, Call, Operation, Param, json
from semel.gateway.ports import Heard
from semel.ledger.inbound.answers import AnswerContext

OWNER = "owner"  # recorded as the acting person if the request names none
MAX_KEY_CHARS = 255

HEARD = {
    202: Answers("It is in the ledger, or it was already (`duplicate`): answered after the commit.", shapes.Accepted)
}
IDEMPOTENCY = (Param("Idempotency-Key", str, "The same as the key in the body (IETF httpapi idempotency-key)."),)


async def say(call: Call) -> Response:
    body: shapes.Say = call.body
    key = event_key(call, body.id, "id")
    event = await call.gateway.say(
        call.session, body.text, sender=body.sender, key=key, busy=body.busy, automatic=body.automatic, seen=body.seen
    )
    return heard(event)


async def report(call: Call) -> Response:
    body: shapes.Report = call.body
    key = event_key(call, body.key, "key")
    event = await call.gateway.report(
        call.session, body.kind, body.text, key=key, data=body.data, wakes=body.wakes,
        source=call.node.source if call.node else None, scope=call.node.sessions if call.node else None,
    )  # fmt: skip
    return heard(event)


def event_key(call: Call, in_body: str | None, field: str) -> str | None:
    """The event's idempotency key, from the body or the Idempotency-Key header. Raises a Problem if they differ."""
    headers = set(call.request.headers.getlist("idempotency-key"))
    named = {_unquoted(value) for value in headers} | ({in_body} if in_body is not None else set())
    if len(named) > 1:
        raise Problem("two-keys", "Send one key, or the same one twice.", field=field)
    for key in named:
        if not 0 < len(key) <= MAX_KEY_CHARS:
            raise Problem("bad-field", f"A key has 1 to {MAX_KEY_CHARS} characters, this one {len(key)}.", field=field)
        return key
    return None


def _unquoted(value: str) -> str:
    """Remove quotes: the IETF draft makes the header a quoted string, but most clients send it bare."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def heard(event: Heard) -> Response:
    if event.status == "conflict":
        raise Problem(
            "conflict",
            "The first content stays; this one is recorded beside it. Use a new key for a new message.",
            event=event.event,
            kept=event.digest,
            given=event.other,
        )
    return json(shapes.Accepted(event.event, event.status, event.waiting, event.place, event.why), 202)


async def stop(call: Call) -> Response:
    body: shapes.Stop = call.body
    return json(shapes.Stopped(await call.gateway.stop_turn(call.session, body.by or OWNER)))


async def answer(call: Call) -> Response:
    body: shapes.Answer = call.body
    given = AnswerContext(seen=body.seen)
    outcome = await call.gateway.answer(call.session, body.item, body.option, body.by or OWNER, given=given)
    return json({"outcome": outcome})


async def set_mode(call: Call) -> Response:
    await call.gateway.set_mode(call.session, call.body.mode)
    return Response(status_code=204)


async def set_model(call: Call) -> Response:
    await call.gateway.set_model(call.session, call.body.model)
    return Response(status_code=204)


async def set_busy(call: Call) -> Response:
    await call.gateway.set_busy(call.session, call.body.mode)
    return Response(status_code=204)


_DONE = {204: Answers("Done; watchers see the change.", None)}
_SESSION = "/v1/sessions/{key}"

OPERATIONS = [
    Operation(
        "POST",
        f"{_SESSION}/messages",
        "say",
        "Say something in a session; it is made if it is new. With an `id`, repeats are accepted once.",
        say,
        HEARD,
        "talk",
        body=shapes.Say,
        headers=IDEMPOTENCY,
        errors=("two-keys", "conflict", "bad-request", "unavailable"),
    ),
    Operation(
        "POST",
        f"{_SESSION}/events",
        "report",
        "Report that something happened. With a `key`, repeats are accepted once.",
        report,
        HEARD,
        "talk",
        body=shapes.Report,
        headers=IDEMPOTENCY,
        errors=("two-keys", "conflict", "bad-request", "unavailable"),
        access=Access.EVENTS,
    ),
    Operation(
        "POST",
        f"{_SESSION}/stop",
        "stopTurn",
        "Cancel the running turn. What waits is taken by the next one.",
        stop,
        {200: Answers("Whether there was a turn to stop.", shapes.Stopped)},
        "talk",
        body=shapes.Stop,
        body_optional=True,
        errors=("no-such-session",),
    ),
    Operation(
        "POST",
        f"{_SESSION}/answers",
        "answer",
        "Answer a permission request or a question. The first answer counts.",
        answer,
        {200: Answers("What became of it.", shapes.Answered)},
        "talk",
        body=shapes.Answer,
        errors=("no-such-session", "bad-request"),
    ),
    Operation(
        "PUT",
        f"{_SESSION}/busy",
        "setBusy",
        "What becomes of messages that come while the session is busy; null: as configured.",
        set_busy,
        _DONE,
        "talk",
        body=shapes.Busy,
        errors=("no-such-session", "bad-request"),
    ),
    Operation(
        "PUT",
        f"{_SESSION}/mode",
        "setMode",
        "Switch the agent's mode (one of those the session's `mode` item names).",
        set_mode,
        _DONE,
        "talk",
        body=shapes.Mode,
        errors=("no-such-session", "bad-request", "agent-refused", "unavailable"),
    ),
    Operation(
        "PUT",
        f"{_SESSION}/model",
        "setModel",
        "Switch the agent's model.",
        set_model,
        _DONE,
        "talk",
        body=shapes.Model,
        errors=("no-such-session", "bad-request", "agent-refused", "unavailable"),
    ),
]
