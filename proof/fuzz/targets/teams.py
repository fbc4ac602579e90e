"""Teams: what Microsoft posts -> what is told -> rows, and the cursor behind them; and the answers to calls.

Whatever a request that is Microsoft's holds, it is answered with 200: each activity is rows or known to be nothing, and
what cannot be read is kept as it came. An answer to a call means something, or is refused in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source, given
from semel.channels.http import HttpAnswer
from semel.channels.teams.address import parse_address, parse_message_id
from semel.channels.teams.authentication import TeamsAuthenticator
from semel.channels.teams.channel import TeamsChannel
from semel.channels.teams.places import TeamsPlaces
from semel.channels.teams.receipts import receipt_of
from semel.channels.teams.settings import TeamsSettings
from semel.channels.teams.transport import parse_reply
from semel.gateway.ports import NotSent, Op, Person, Rejected, Unknown
from semel.text.json_types import Json

ANN = "7faf8ab2-3d56-4244-b585-20c8a42ed2b8"
APP = "28b3e9f1-0c5e-4c5e-9a51-3f0d7b1f6a20"
GARDEN = "19:aebd0ad4d6ab42c8b9ed19c251c2fc37@thread.tacv2"
PLACE = parse_address(f"@{ANN}")


def _activity(kind: str, **fields: Any) -> Json:
    """An activity of Ann's."""
    return {
        "type": kind, "id": "1485983408511", "timestamp": "2026-11-28T21:10:07.4371234Z", "channelId": "msteams",
        "serviceUrl": "https://smba.trafficmanager.net/amer/",
        "from": {"id": "29:1XJK", "name": "Ann", "aadObjectId": ANN},
        "conversation": {"conversationType": "personal", "id": "a:17I0kl9EkpE1O9PH5TWrzrLNwnWWcfrU7QZjKR0WSfOp"},
        "recipient": {"id": f"28:{APP}", "name": "Semel"}, "channelData": {"tenant": {"id": APP}}, **fields,
    }  # fmt: skip


THREAD = {"conversationType": "channel", "isGroup": True, "id": f"{GARDEN};messageid=1481567603816"}
TEMPLATES: list[Any] = [
    _activity("message", text="hello", attachments=[{"contentType": "text/html", "content": "<p>hello</p>"}]),
    _activity("message", text="<at>Semel</at>&nbsp;hi <at>Bob</at>", conversation=THREAD, replyToId="1481567603816",
        entities=[{"type": "mention", "text": "<at>Semel</at>", "mentioned": {"id": f"28:{APP}"}}],
        channelData={"channel": {"id": GARDEN, "name": "garden"}, "team": {"name": "plants"}}),
    _activity("message", replyToId="7", value={"semel": {"key": "k1", "answer": "/approve 1"}}),
    _activity("message", text="", attachments=[{"contentType": "image/png", "name": "../a.png", "contentUrl": "x"}]),
    _activity("messageUpdate", text="b", channelData={"eventType": "editMessage"}),
    _activity("messageDelete", conversation={"conversationType": "groupChat", "id": "19:1@thread.v2", "name": "x"}),
    _activity("messageReaction", replyToId="7", reactionsAdded=[{"type": "like"}, {"type": "1f440_eyes"}],
        reactionsRemoved=[{"type": "d83d_x"}]),
    _activity("installationUpdate", action="add"),
    _activity("invoke", name="adaptiveCard/action"),
    {"error": {"code": "Throttled", "message": "Too many requests."}},
    {"id": "1790000000001", "activityId": "7"},
]  # fmt: skip
_house = House()


class _Believing(TeamsAuthenticator):
    """Believes every request: signatures are the library's matter."""

    async def check(self, headers: Mapping[str, str], activity: Json) -> str:
        return "https://smba.trafficmanager.net/amer"


def one(data: bytes) -> None:
    source = Source(data)
    status = source.pick([200, 201, 400, 401, 404, 412, 429, 500, 302])
    body = given(source, TEMPLATES)
    for kind in ("post", "edit", "delete"):
        _check_answer(status, body, Op("k1", kind, str(PLACE), "hello", target=f"{PLACE}/7"))
    settings = TeamsSettings(APP, APP, "s" * 16)
    channel = TeamsChannel("t", settings)
    channel._receiver._authenticator = _Believing(settings)
    inbox = _house.fresh()
    assert _house.run(channel.receive(inbox, {}, body)) == (200, {}), "what is Microsoft's is not taken, and is lost"
    for what in _house.check():
        assert what.kind != "unreadable" or (what.why and (what.raw or not body)), "what cannot be read is not kept"
        assert not what.address or str(parse_address(what.address)) == what.address, "an address is not read as written"
        assert what.of is None or parse_message_id(what.of), "a message cannot be referred to"
        assert what.sender is None or isinstance(what.sender, Person)
    if (cursor := _house.run(inbox.cursor())) is not None:
        assert TeamsPlaces.load(cursor).dump() == cursor, "the cursor is not read as it was written"


def _check_answer(status: int, body: bytes, op: Op) -> None:
    """An answer is a receipt, or an outcome in words; only a success is a receipt, and that a message is gone."""
    reply = parse_reply(HttpAnswer(status, {"content-length": str(len(body))}, body))
    try:
        receipt = receipt_of(op, PLACE, reply)
        assert parse_message_id(receipt.id)
        assert status in (200, 201) or (op.kind == "delete" and status == 404)
    except (NotSent, Rejected, Unknown) as outcome:
        assert str(outcome)


SEEDS = [
    *(bytes([k, 0, n, 0]) for n in range(len(TEMPLATES)) for k in range(3)),
    *(
        bytes([k % 9, 0, n, 3, k, 0, 1, k + 4, k + 9, 2, k + 17, 5, k])
        for n in range(len(TEMPLATES))
        for k in (3, 11, 24)
    ),
    b"\x00\x04" + json.dumps(_activity("message", text="x", timestamp="9999-99-99", id=[])).encode(),
    b"\x00\x04[1]",
]
