"""The double of Teams is held to Microsoft's documents: requests, the documented answer, and the page that says so."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import jwt
import pytest
from teams_house import ANN, BOB, CHAT

from semel.channels.teams.address import TeamsPlace
from semel.channels.teams.cards import make_card_message
from semel.channels.teams.files import DOWNLOAD_TYPE, OFFER_TYPE, FileUpload, make_file_card, make_file_message
from semel.gateway.ports import Button, Op
from semel.testing.teams import APP_ID, CLIENT_SECRET, TENANT, TeamsDouble, serve
from semel.testing.teams.double import BOT
from semel.testing.teams.model import ISSUER, TeamsUpload

Json = dict[str, Any]
TEAMS = "https://learn.microsoft.com/microsoftteams/platform/bots/how-to"
REST = "https://learn.microsoft.com/azure/bot-service/rest-api"
LOGIN = f"{REST}/bot-framework-rest-connector-authentication"
REFERENCE = f"{REST}/bot-framework-rest-connector-api-reference"
MESSAGES = f"{TEAMS}/conversations/conversation-messages"
UPDATES = f"{TEAMS}/update-and-delete-bot-messages"
EVENTS = f"{TEAMS}/conversations/subscribe-to-conversation-events"
GROUPS = f"{TEAMS}/conversations/channel-and-group-conversations"
PROACTIVE = f"{TEAMS}/conversations/send-proactive-messages"
RATES = f"{TEAMS}/rate-limit"
FORMAT = f"{TEAMS}/format-your-bot-messages"
FILES = f"{TEAMS}/bots-filesv4"
UPLOADS = "https://learn.microsoft.com/graph/api/driveitem-createuploadsession"
CARDS = "https://learn.microsoft.com/microsoftteams/platform/task-modules-and-cards/cards/cards-actions"
GROUP, GARDEN = "19:0123@thread.v2", "19:4567@thread.tacv2"
TEXT = {"type": "message", "text": "hello"}
CARD = make_card_message("May I?", "k", (Button("Yes", "/yes"),))


def make_picture(size: int) -> Json:
    data = base64.b64encode(bytes(size)).decode()
    url = f"data:image/png;base64,{data}"
    return {"type": "message", "attachments": [{"contentType": "image/png", "name": "p.png", "contentUrl": url}]}


OFFER = make_file_message(Op("k", "file", CHAT, "", name="a.txt"), TeamsPlace(person=ANN), b"x")
FILE = make_file_card(FileUpload("https://upload.link", "https://contoso.sharepoint.com/a.txt", "a.txt", "7", "txt"))


def make_double(**options: Any) -> TeamsDouble:
    double = TeamsDouble(**options)
    double.person("Ann", id=ANN)
    double.person("Bob", id=BOB, has_chat=False)
    double._add(GROUP, "groupChat", "plans", [ANN, BOB])
    double._add(GARDEN, "channel", "garden", [ANN, BOB])
    return double


def id_of(double: TeamsDouble, address: str) -> str:
    return double._find(address).id


@dataclass
class Case:
    """A request, and the documented answer: its status and, of an error, its code.

    `address`: whose conversation it is for; "" if the request is for none. `target`: the number of our message.
    """

    status: int
    code: str = ""
    page: str = MESSAGES
    method: str = "POST"
    body: Json | None = field(default_factory=lambda: dict(TEXT))
    address: str = CHAT
    target: int | None = None
    prepare: Callable[[TeamsDouble], Any] = lambda double: None
    token: str = "token"


CASES = {
    "a text": Case(201, page=REFERENCE),
    "in a group": Case(201, page=REFERENCE, address=GROUP),
    "a card": Case(201, page=CARDS, body=CARD),
    "typing": Case(201, "{}", page=REFERENCE, body={"type": "typing"}),
    "an empty message": Case(400, "BadSyntax", REFERENCE, body={"type": "message"}),
    "an unknown conversation": Case(404, "ConversationNotFound", address="19:none@thread.v2"),
    "the bot was removed": Case(
        403, "BotNotInConversationRoster", address=GROUP, prepare=lambda d: d.remove_bot(GROUP)
    ),
    "the person blocked it": Case(
        403, "ConversationBlockedByUser", prepare=lambda d: setattr(d.people[ANN], "has_blocked", True)
    ),
    "the person removed the app": Case(
        403, "MessageWritesBlocked", PROACTIVE, prepare=lambda d: setattr(d.people[ANN], "has_app", False)
    ),
    "the person deleted the chat": Case(404, "ConversationNotFound", prepare=lambda d: d.delete_chat(ANN)),
    "the administrator blocked it": Case(403, "BotDisabledByAdmin", prepare=lambda d: setattr(d, "is_disabled", True)),
    "no such registration": Case(401, "BotNotRegistered", token="wrong"),
    "too large": Case(413, "MessageSizeTooBig", FORMAT, body={**TEXT, "text": "x" * 52_000}),
    "large enough": Case(201, page=FORMAT, body={**TEXT, "text": "x" * 50_000}),
    "a picture, which does not count": Case(201, page=FORMAT, body=make_picture(500_000)),
    "a picture in a group": Case(201, body=make_picture(9), address=GROUP),
    "a picture that is too large": Case(400, "BadSyntax", body=make_picture(1_000_100)),
    "the offer of a file": Case(201, page=FILES, body=OFFER),
    "the offer of a file in a group": Case(400, "BadSyntax", FILES, body=OFFER, address=GROUP),
    "an edit of an offer into the file": Case(200, page=FILES, method="PUT", target=0, body=FILE),
    "an edit": Case(200, page=UPDATES, method="PUT", target=0),
    "an edit of a text into a card": Case(200, page=UPDATES, method="PUT", target=0, body=CARD),
    "an edit of nothing": Case(404, "ActivityNotFoundInConversation", UPDATES, "PUT", target=7),
    "a deletion": Case(200, page=UPDATES, method="DELETE", target=0, body=None),
    "a deletion of nothing": Case(404, "ActivityNotFoundInConversation", UPDATES, "DELETE", target=7, body=None),
    "a chat with a person": Case(
        201, page=PROACTIVE, address="",
        body={"bot": BOT, "members": [{"id": BOB}], "tenantId": TENANT, "isGroup": False},
    ),
    "a chat with who has no app": Case(
        403, "ForbiddenOperationException", PROACTIVE, address="",
        body={"bot": BOT, "members": [{"id": BOB}], "tenantId": TENANT},
        prepare=lambda d: setattr(d.people[BOB], "has_app", False),
    ),
    "a chat of another bot": Case(
        400, "BadSyntax", REFERENCE, address="", body={"bot": {"id": "28:x"}, "members": [{"id": BOB}]}
    ),
    "a thread in a channel": Case(
        201, page=PROACTIVE, address="",
        body={"bot": BOT, "isGroup": True, "channelData": {"channel": {"id": GARDEN}}, "activity": TEXT},
    ),
    "history": Case(405, "does not support", REFERENCE, "GET", body=None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_call_is_answered_as_documented(case: Case) -> None:
    double = make_double()
    double.tokens["token"] = double.now() + 60
    chat = id_of(double, CHAT)
    ours = double.take_activity(chat, dict(TEXT))["id"]
    case.prepare(double)
    known = {each.address: each.id for each in double.conversations.values()}
    path = f"/{quote(known.get(case.address, case.address), safe='')}/activities" if case.address else ""
    if case.target is not None:
        path += f"/{int(ours) + case.target}"
    async with serve(double) as settings, httpx2.AsyncClient(trust_env=False) as client:
        url = f"{settings['service_url']}/v3/conversations{path}"
        answer = await client.request(
            case.method, url, json=case.body, headers={"Authorization": f"Bearer {case.token}"}
        )
    assert answer.status_code == case.status, case.page
    if case.code:
        assert case.code in answer.text, case.page
    elif case.method == "DELETE":
        assert answer.content == b"" and double.texts(CHAT) == []
    else:
        assert answer.json()["id"], case.page


def test_a_text_with_a_card_becomes_two_messages_without_an_id() -> None:
    double = make_double()
    assert double.take_activity(id_of(double, CHAT), {**CARD, "text": "and"}) == {}, MESSAGES
    assert double.texts(CHAT) == ["and", "May I?"]


def test_the_same_request_twice_is_two_messages() -> None:
    double = make_double()
    assert double.take_activity(id_of(double, CHAT), dict(TEXT)) != double.take_activity(
        id_of(double, CHAT), dict(TEXT)
    ), RATES
    assert double.texts(CHAT) == ["hello", "hello"]


async def test_more_messages_than_the_rate_are_put_off() -> None:
    now = [1_790_000_000.0]
    double = make_double(limits=True, now=lambda: now[0])
    double.tokens["token"] = now[0] + 3600
    async with serve(double) as settings, httpx2.AsyncClient(trust_env=False) as client:
        url = f"{settings['service_url']}/v3/conversations/{quote(id_of(double, CHAT))}/activities"
        statuses = [await client.post(url, json=TEXT, headers={"Authorization": "Bearer token"}) for _ in range(8)]
    assert [each.status_code for each in statuses] == [*[201] * 7, 429], RATES
    assert statuses[-1].json()["error"]["code"] == "Throttled" and statuses[-1].headers["retry-after"] == "1"
    now[0] += 2.0
    for _ in range(60 - 7):
        now[0] += 0.4
        double._count(id_of(double, CHAT))
    with pytest.raises(Exception, match="Too many requests"):
        double._count(id_of(double, CHAT))
    now[0] += 31.0
    for _ in range(1800 - 60):
        now[0] += 0.6
        double._count(id_of(double, CHAT))
    with pytest.raises(Exception, match="Too many requests"):
        double._count(id_of(double, CHAT))


async def test_a_file_and_the_answer_to_an_offer_come_as_documented() -> None:
    double = make_double()
    async with serve(double) as settings, httpx2.AsyncClient(trust_env=False) as client:
        double.send_file(ANN, "a.txt", "hello")
        double.send_picture(ANN, b"png")
        id = double.take_activity(id_of(double, CHAT), OFFER)["id"]
        double.answer_offer(ANN, id)
        double.answer_offer(ANN, id, accepts=False)
        message, picture, accepted, declined = (json.loads(body) for _, body in double.take_requests())
        file = message["attachments"][0]
        assert (file["contentType"], file["content"]["fileType"]) == (DOWNLOAD_TYPE, "txt"), FILES
        assert (await client.get(file["content"]["downloadUrl"])).content == b"hello", FILES
        [image] = picture["attachments"]
        assert image["contentType"] == "image/*", FILES
        assert (await client.get(image["contentUrl"])).status_code == 401, FILES
        double.tokens["token"] = double.now() + 60
        answer = await client.get(image["contentUrl"], headers={"Authorization": "Bearer token"})
        assert answer.content == b"png", FILES
    assert OFFER["attachments"][0]["contentType"] == OFFER_TYPE and settings
    assert (accepted["type"], accepted["name"], accepted["replyToId"]) == ("invoke", "fileConsent/invoke", id), FILES
    context = {"semel": "k", "name": "a.txt"}
    assert accepted["value"]["action"] == "accept" and accepted["value"]["context"] == context, FILES
    assert set(accepted["value"]["uploadInfo"]) == {"contentUrl", "name", "uploadUrl", "uniqueId", "fileType"}, FILES
    assert declined["value"] == {"type": "fileUpload", "action": "decline", "context": context}, FILES


UNIT = 320 * 1024
PIECES: list[tuple[list[tuple[str, int]], list[int]]] = [
    ([(f"bytes 0-{UNIT}/{UNIT + 1}", UNIT + 1)], [416]),
    ([(f"bytes 0-{UNIT - 1}/{UNIT + 2}", UNIT), (f"bytes {UNIT}-{UNIT + 1}/{UNIT + 2}", 2)], [202, 201]),
    ([(f"bytes 0-99/{UNIT + 2}", 100)], [400]),
    ([(f"bytes {UNIT}-{UNIT + 1}/{UNIT + 2}", 2)], [416]),
    ([(f"bytes 0-{UNIT + 1}/{UNIT + 2}", UNIT + 2), (f"bytes 0-{UNIT + 1}/{UNIT + 2}", UNIT + 2)], [201, 404]),
]


@pytest.mark.parametrize(("pieces", "statuses"), PIECES)
async def test_a_file_is_taken_in_pieces_in_their_order(pieces: list[tuple[str, int]], statuses: list[int]) -> None:
    double = make_double()
    double.drive["u"] = TeamsUpload("a", UNIT + 2)
    async with serve(double) as settings, httpx2.AsyncClient(trust_env=False) as client:
        url = f"{settings['service_url'].removesuffix('/teams')}/uploads/u"
        with_token = await client.put(url, content=b"x", headers={"Authorization": "Bearer token"})
        answers = [
            await client.put(url, content=bytes(size), headers={"Content-Range": place}) for place, size in pieces
        ]
    assert with_token.status_code == 401 and [each.status_code for each in answers] == statuses, UPLOADS


LOGINS: list[tuple[Json, int, str]] = [
    ({}, 200, ""), ({"client_secret": "x"}, 401, "invalid_client"), ({"client_id": "x"}, 400, "unauthorized_client"),
    ({"scope": "x"}, 400, "invalid_request"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "status", "error"), LOGINS)
async def test_the_login_service_gives_tokens_for_credentials(changed: Json, status: int, error: str) -> None:
    form = {
        "grant_type": "client_credentials", "client_id": APP_ID, "client_secret": CLIENT_SECRET,
        "scope": "https://api.botframework.com/.default", **changed,
    }  # fmt: skip
    double = make_double()
    async with serve(double) as settings, httpx2.AsyncClient(trust_env=False) as client:
        url = f"{settings['login']}/{TENANT}/oauth2/v2.0/token"
        answer = await client.post(
            url, content=urlencode(form), headers={"Content-Type": "application/x-www-form-urlencoded"}
        )
    assert answer.status_code == status, LOGIN
    if error:
        assert answer.json()["error"] == error
    else:
        assert answer.json()["token_type"] == "Bearer" and answer.json()["access_token"] in double.tokens


async def test_a_request_is_signed_with_a_published_key() -> None:
    double = make_double()
    async with serve(double) as settings, httpx2.AsyncClient(trust_env=False) as client:
        metadata = (await client.get(settings["openid"])).json()
        [key] = (await client.get(metadata["jwks_uri"])).json()["keys"]
        double.write(ANN, "hello")
        [(headers, body)] = double.take_requests()
    token = headers["Authorization"].removeprefix("Bearer ")
    claims = jwt.decode(token, jwt.PyJWK(key, "RS256").key, algorithms=["RS256"], audience=APP_ID, issuer=ISSUER)
    assert claims["serviceurl"] == json.loads(body)["serviceUrl"], LOGIN
    assert "msteams" in key["endorsements"] and metadata["issuer"] == ISSUER


def test_activities_have_the_documented_fields() -> None:
    double = make_double()
    id = double.write(ANN, "hello")
    double.write(ANN, "unheard", address=GROUP, mention=False)
    double.write(ANN, "heard", address=GROUP)
    root = double.write(BOB, "grow", address=GARDEN)
    double.edit(ANN, id, "hello you")
    double.delete(ANN, id)
    double.react(ANN, "7", "like")
    message, heard, grow, edit, deletion, reaction = (json.loads(body) for _, body in double.take_requests())
    assert message["from"]["aadObjectId"] == ANN and message["conversation"]["conversationType"] == "personal", MESSAGES
    assert len(message["conversation"]["id"]) > 120, MESSAGES
    assert heard["text"].startswith("<at>Semel</at>") and heard["entities"][0]["mentioned"] == BOT, GROUPS
    assert grow["conversation"]["id"] == f"{GARDEN};messageid={root}", GROUPS
    assert (edit["type"], edit["id"], edit["channelData"]["eventType"]) == ("messageUpdate", id, "editMessage"), (
        MESSAGES
    )
    assert (deletion["type"], deletion["id"]) == ("messageDelete", id), MESSAGES
    assert reaction["reactionsAdded"] == [{"type": "like"}] and reaction["replyToId"] == "7", EVENTS


def test_a_request_that_is_not_taken_comes_again_and_is_lost_then() -> None:
    """No page promises a repeat, so the channel must not need one."""
    double = make_double()
    double.write(ANN, "hello")
    for at in (0.0, 1.0, 2.0, 3.0):
        delivery = double.next_delivery(at)
        assert delivery is not None
        double.note_delivery(delivery, 503, at)
        assert double.next_delivery(at) is None
    assert double.next_delivery(9.0) is None and double.delivered == []


def test_the_program_serves_the_double() -> None:
    arguments = [sys.executable, "-m", "semel.testing.teams", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(7)]
            url = next(line.split('"')[1] for line in lines if line.startswith("openid")).removesuffix("/openid")
            person = lines[-1].split()[2].rstrip(",")
            body = json.dumps({"address": f"@{person}"}).encode()
            with urllib.request.urlopen(f"{url}/control/texts", body, timeout=20) as answer:
                assert json.load(answer) == {"result": []}
        finally:
            process.terminate()
