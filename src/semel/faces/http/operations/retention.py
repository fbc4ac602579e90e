"""Operations: what retention would remove now."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.routing import ApiCall, Returns, Router, json_response

router = Router("retention")


class PlannedRemoval(Struct, omit_defaults=True):
    """What the next run removes from a session: the content of its next `entries` entries, up to the seq `upto`, with
    `bytes` of text and `file_bytes` of files. `retain`: how long its content is kept, in seconds. `stopped_by`: why
    later entries stay though they are old enough.
    """

    session: str
    retain: float
    entries: int
    upto: int
    bytes: int
    file_bytes: int
    stopped_by: str | None = None


class RetentionPlan(Struct):
    sessions: list[PlannedRemoval]


@router.route("GET", "/v1/retention", Returns("The sessions from which content would go.", RetentionPlan))
async def plan_retention(call: ApiCall) -> Response:
    """List the old content that the gateway will remove within the hour, by session. Removes nothing."""
    return json_response({"sessions": await call.gateway.retention.plan()})
