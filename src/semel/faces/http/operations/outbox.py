"""Operations: list outgoing parts, and decide about held and rejected ones (Law 7)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.operations.messages import OWNER
from semel.faces.http.routing import (
    ApiCall,
    Cursor,
    Page,
    Param,
    RequestBody,
    Returns,
    Router,
    json_response,
    page_response,
    read_cursor,
)
from semel.law.delivery import State as PartState

router = Router("outbox")


class Part(Struct):
    """A piece of an utterance on its way to a platform. The JSON has more fields than are listed here, for instance
    `text`, `attempts`, `error` and `receipt` (the platform's message id).
    """

    id: int
    dest: str
    state: PartState


class Decided(RequestBody):
    """`by`: the name of the person who decides, for `semel why`. Default: the owner."""

    by: str | None = None


class Parts(Page):
    parts: list[Part]


PartId = Annotated[int, Param("Id of the part.")]
THE_DECIDED_PART = Returns("The part after the decision.", Part)


@router.route("GET", "/v1/parts", Returns("The parts.", Parts))
async def list_parts(
    call: ApiCall,
    state: Annotated[PartState | None, Param("Only parts in this state.")] = None,
    limit: Annotated[int, Param("Maximum number of parts.", minimum=1, maximum=1000)] = 100,
    after: Cursor = None,
    before: Annotated[int | None, Param("Only parts with a smaller id.")] = None,
) -> Response:
    """List the parts for platforms, newest first."""
    rows = await call.gateway.parts(state, limit + 1, read_cursor(after, before))
    return page_response("parts", rows, limit, "id")


@router.route("GET", "/v1/parts/{id:int}", Returns("The part.", Part), errors=("not-found",))
async def read_part(call: ApiCall, id: PartId) -> Response:
    """Read one part."""
    return json_response(await call.gateway.part(id))


@router.route(
    "POST", "/v1/parts/{id:int}/resend", THE_DECIDED_PART, errors=("not-found", "wrong-state"), body_optional=True
)
async def resend_part(call: ApiCall, id: PartId, body: Decided) -> Response:
    """Send a held or rejected part again, at the end of its queue; a held one is marked as a repeat."""
    return json_response(await call.gateway.decide_part(id, "resend", body.by or OWNER))


@router.route(
    "POST", "/v1/parts/{id:int}/arrived", THE_DECIDED_PART, errors=("not-found", "wrong-state"), body_optional=True
)
async def arrived_part(call: ApiCall, id: PartId, body: Decided) -> Response:
    """Mark a held part as sent: it arrived, and is not sent again."""
    return json_response(await call.gateway.decide_part(id, "arrived", body.by or OWNER))


@router.route(
    "POST", "/v1/parts/{id:int}/drop", THE_DECIDED_PART, errors=("not-found", "wrong-state"), body_optional=True
)
async def drop_part(call: ApiCall, id: PartId, body: Decided) -> Response:
    """Give up a held or rejected part."""
    return json_response(await call.gateway.decide_part(id, "drop", body.by or OWNER))
