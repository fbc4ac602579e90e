"""Operations: state of the channels, and their quarantined input."""

from __future__ import annotations

from starlette.responses import Response

from semel.faces.http import shapes_channels as shapes
from semel.faces.http.table import Answers, Call, Operation, Param, json


async def channels(call: Call) -> Response:
    return json({"channels": await call.gateway.channel_list()})


async def quarantined(call: Call) -> Response:
    return json({"quarantined": await call.gateway.quarantined(call.query["limit"], call.query["before"])})


OPERATIONS = [
    Operation(
        "GET",
        "/v1/channels",
        "listChannels",
        "Every channel: whether it hears, since when, its last error, and what it heard since the start.",
        channels,
        {200: Answers("The channels, in the order of the configuration.", shapes.Channels)},
        "channels",
    ),
    Operation(
        "GET",
        "/v1/quarantined",
        "listQuarantined",
        "What channels told of and nobody could use, as it came, newest first.",
        quarantined,
        {200: Answers("Each with the reason.", shapes.Quarantine)},
        "channels",
        query=(
            Param("limit", int, "At most so many, newest first.", default=100, most=1000),
            Param("before", int, "Only events with a smaller id."),
        ),
    ),
]
