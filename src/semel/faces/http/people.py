"""Operations: known people, refused senders, and pairing codes."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from semel.faces.http import shapes_people as shapes
from semel.faces.http.table import Answers, Call, Operation, json


async def people(call: Call) -> Response:
    return json({"people": call.gateway.people.everybody()})


async def strangers(call: Call) -> Response:
    return json({**call.gateway.people.refused(), "codes": await call.gateway.people.pairings()})


async def add(call: Call) -> Response:
    told: shapes.NewAccount = call.body
    return json(await call.gateway.people.add(told.account, told.name, told.role))


async def remove(call: Call) -> Response:
    await call.gateway.people.remove(call.path("account"))
    return Response(status_code=204)


async def pair(call: Call) -> Response:
    told: shapes.NewCode = call.body
    return json(await call.gateway.people.pair(told.channel, told.name, told.role), 201)


_PERSON: dict[int, Any] = {200: Answers("The person, with all accounts.", shapes.Someone)}

OPERATIONS = [
    Operation(
        "GET",
        "/v1/people",
        "listPeople",
        "Everybody who may talk on a channel, by name, with their accounts.",
        people,
        {200: Answers("The people.", shapes.People)},
        "people",
    ),
    Operation(
        "POST",
        "/v1/people",
        "addAccount",
        "An account is known from now on. All accounts of a person have the same role.",
        add,
        _PERSON,
        "people",
        body=shapes.NewAccount,
        errors=("wrong-state",),
    ),
    Operation(
        "GET",
        "/v1/people/strangers",
        "listStrangers",
        "Who was refused lately, how often what was refused since the gateway started, and the newest codes.",
        strangers,
        {200: Answers("Never what a stranger wrote, nor a code.", shapes.Refusals)},
        "people",
    ),
    Operation(
        "POST",
        "/v1/people/codes",
        "pair",
        "Make a code: whoever sends it to that channel's account within ten minutes, alone with it, is known.",
        pair,
        {201: Answers("The code. It is told here once, and kept nowhere.", shapes.Code)},
        "people",
        body=shapes.NewCode,
        errors=("wrong-state",),
    ),
    Operation(
        "DELETE",
        "/v1/people/{account:path}",
        "removeAccount",
        "An account is known no more. One that semel.toml lists is removed there.",
        remove,
        {204: Answers("It is a stranger's now.")},
        "people",
        errors=("not-found", "wrong-state"),
    ),
]
