"""Operations: known people, refused senders, and pairing codes."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.routing import (
    ApiCall,
    Page,
    Param,
    RequestBody,
    Returns,
    Router,
    complete_response,
    json_response,
)
from semel.law.access import Role

router = Router("people")


class AccountOf(Struct):
    """`account` is CHANNEL:ID. `origin`: from semel.toml, added by command, or paired with a code."""

    account: str
    origin: Literal["config", "added", "paired"]


class Someone(Struct):
    """A person who may talk. A person who is named in semel.toml may have no account yet."""

    name: str
    role: Role
    accounts: list[AccountOf]


class People(Page):
    people: list[Someone]


class NewAccount(RequestBody):
    """`account`: CHANNEL:ID. `name`: by default, the name on the platform. `role`: by default, the person's
    role, or member for a new person.
    """

    account: str
    name: str | None = None
    role: Role | None = None


class NewCode(RequestBody):
    """`name`: by default, the platform's name for the person who uses the code. `role`: by default, the person's role,
    or member for a new person.
    """

    channel: str
    name: str | None = None
    role: Role | None = None


class Code(Struct):
    """A pairing code. `expires` is milliseconds since 1970."""

    code: str
    channel: str
    name: str | None
    role: Role
    expires: int


class CodeState(Struct):
    """The state of a pairing code. `account`: who used it. `at`, `expires`: milliseconds since 1970."""

    channel: str
    name: str | None
    role: Role
    state: Literal["open", "used", "expired", "void"]
    account: str | None
    at: int
    expires: int


class StrangerMet(Struct):
    """A sender who was refused: the first and last time (milliseconds since 1970), and how often. What they wrote is
    not kept.
    """

    account: str
    channel: str
    id: str
    name: str
    first: int
    last: int
    times: int


class RefusedOften(Struct):
    """How often a channel refused input for this reason (docs/people.md)."""

    channel: str
    reason: str
    times: int


class Refusals(Struct):
    """Refusals since the gateway started. `strangers`: the latest refused senders of each channel, newest first;
    `refused`: how often input was refused; `codes`: the newest pairing codes.
    """

    strangers: list[StrangerMet]
    refused: list[RefusedOften]
    codes: list[CodeState]


@router.route("GET", "/v1/people", Returns("The people.", People))
async def list_people(call: ApiCall) -> Response:
    """List everybody who may talk on a channel, by name, with their accounts."""
    return complete_response("people", call.gateway.people.list_people())


@router.route("POST", "/v1/people", Returns("The person, with all accounts.", Someone), errors=("wrong-state",))
async def add_account(call: ApiCall, body: NewAccount) -> Response:
    """Add an account, or change its name or role. All accounts of a person have the same role."""
    return json_response(await call.gateway.people.add(body.account, body.name, body.role))


@router.route(
    "GET",
    "/v1/people/strangers",
    Returns("Refusals and codes, without texts of strangers.", Refusals),
)
async def list_strangers(call: ApiCall) -> Response:
    """List refused senders, how often input was refused, and the newest pairing codes."""
    return json_response({**call.gateway.people.refused(), "codes": await call.gateway.people.pairings()})


@router.route(
    "POST",
    "/v1/people/codes",
    Returns("The code. It is returned only here, and not stored.", Code, status=201),
    errors=("wrong-state",),
)
async def pair(call: ApiCall, body: NewCode) -> Response:
    """Create a pairing code: whoever sends it to the channel in a private chat within ten minutes may talk from then
    on.
    """
    return json_response(await call.gateway.people.pair(body.channel, body.name, body.role), 201)


@router.route(
    "DELETE",
    "/v1/people/{account:path}",
    Returns("The account was removed.", status=204),
    errors=("not-found", "wrong-state"),
)
async def remove_account(
    call: ApiCall,
    account: Annotated[str, Param("CHANNEL:ID of the account, percent-encoded.")],
) -> Response:
    """Remove an account. An account that semel.toml lists must be removed there."""
    await call.gateway.people.remove(account)
    return Response(status_code=204)
