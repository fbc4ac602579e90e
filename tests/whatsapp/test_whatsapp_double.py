"""The double of WhatsApp is held to Meta's documents: requests, the documented answer, and the page that says so."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from whatsapp_house import ANN, GROUP, Clock

from semel.testing.whatsapp import APP_SECRET, TOKEN, WhatsAppDouble
from semel.testing.whatsapp.model import GraphError

Json = dict[str, Any]
DOCS = "https://developers.facebook.com/documentation/business-messaging/whatsapp"
ERRORS = f"{DOCS}/support/error-codes"
MEDIA = f"{DOCS}/business-phone-numbers/media"
BUTTONS = f"{DOCS}/messages/interactive-reply-buttons-messages"
LISTS = f"{DOCS}/messages/interactive-list-messages"
TEMPLATES = f"{DOCS}/templates/overview"
THROUGHPUT = f"{DOCS}/throughput"
REACTIONS = f"{DOCS}/messages/reaction-messages"
STATUS = f"{DOCS}/webhooks/reference/messages/status"
OLD = "wamid.b2xk"


def buttons(*titles: str, text: str = "?", id: str = "") -> Json:
    made = [{"type": "reply", "reply": {"id": id or f"b{n}", "title": title}} for n, title in enumerate(titles)]
    action = {"buttons": made}
    return {"type": "interactive", "interactive": {"type": "button", "body": {"text": text}, "action": action}}


def rows(*titles: str, text: str = "?", **more: Any) -> Json:
    made = [{"id": f"r{n}", "title": title, **more} for n, title in enumerate(titles)]
    action = {"button": "Answer", "sections": [{"rows": made}]}
    return {"type": "interactive", "interactive": {"type": "list", "body": {"text": text}, "action": action}}


def template(*texts: str, name: str = "semel_update") -> Json:
    parameters = [{"type": "text", "text": text} for text in texts]
    components = [{"type": "body", "parameters": parameters}]
    return {"type": "template", "template": {"name": name, "language": {"code": "en"}, "components": components}}


def text(body: str = "x", **more: Any) -> Json:
    return {"type": "text", "text": {"body": body}, **more}


@dataclass
class Case:
    """A message, and the documented answer: `code` 0 if it is taken. `later`: the error comes as a status.

    `details`: words of the error's details.
    """

    message: Json
    code: int = 0
    page: str = ERRORS
    details: str = ""
    status: int = 400
    later: bool = False
    to: Json = field(default_factory=lambda: {"to": ANN})
    prepare: Callable[[WhatsAppDouble], None] = lambda double: None


def no_one_wrote(double: WhatsAppDouble) -> None:
    double.people[ANN].heard_at = double.now() - 24 * 3600.0


def window_reported(double: WhatsAppDouble) -> None:
    double.window_answer = "status"
    no_one_wrote(double)


def a_reaction_came(double: WhatsAppDouble) -> None:
    double.tell(ANN, reaction(OLD), id="wamid.cmVhY3Rpb24=")
    double.take_requests()


def thirty_days_passed(double: WhatsAppDouble) -> None:
    double.now.now += 30 * 24 * 3600.0 + 1  # type: ignore[attr-defined]
    double.people[ANN].heard_at = double.now()


def reaction(message: str) -> Json:
    return {"type": "reaction", "reaction": {"message_id": message, "emoji": "👍"}}


GROUP_TO = {"recipient_type": "group", "to": GROUP}
CASES = {
    "a text": Case(text(), page=f"{DOCS}/messages/text-messages"),
    "a text to a number with +": Case(text(), to={"to": f"+{ANN}"}, page=f"{DOCS}/messages/send-messages"),
    "a text to a user id": Case(text(), to={"recipient": "US.4920"}, page=f"{DOCS}/business-scoped-user-ids"),
    "a text to a group": Case(text(), to=GROUP_TO, page=f"{DOCS}/groups/groups-messaging"),
    "no recipient": Case(text(), 100, to={}),
    "an unknown group": Case(text(), 131009, to={"recipient_type": "group", "to": "x"}),
    "the number itself": Case(text(), 131021, to={"to": "15550783881"}),
    "no WhatsApp there": Case(text(), 131026, to={"to": "4930111"}, later=True),
    "no such type": Case({"type": "postcard"}, 100),
    "no text": Case({"type": "text", "text": {}}, 131008),
    "4096 characters": Case(text("x" * 4096), page=f"{DOCS}/messages/text-messages"),
    "4097 characters": Case(text("x" * 4097), 131009, f"{DOCS}/messages/text-messages"),
    "512 of callback data": Case(text(biz_opaque_callback_data="x" * 512), page=f"{DOCS}/changelog"),
    "513 of callback data": Case(text(biz_opaque_callback_data="x" * 513), 131009, f"{DOCS}/changelog"),
    "a reply": Case(text(context={"message_id": OLD}), page=f"{DOCS}/messages/contextual-replies"),
    "a reply to nothing": Case(text(context={}), 100, f"{DOCS}/messages/contextual-replies"),
    "three buttons": Case(buttons("a", "b", "c"), page=BUTTONS),
    "four buttons": Case(buttons("a", "b", "c", "d"), 131009, BUTTONS, "Max allowed buttons: 3"),
    "a title of 21": Case(buttons("x" * 21), 131009, BUTTONS, "Max length: 20"),
    "two equal titles": Case(buttons("a", "a"), 131009, BUTTONS, "unique"),
    "an id of 257": Case(buttons("a", id="x" * 257), 131009, BUTTONS, "Max length: 256"),
    "an id with a blank": Case(buttons("a", id=" x"), 131009, BUTTONS),
    "buttons under 1025": Case(buttons("a", text="x" * 1025), 131009, BUTTONS),
    "buttons in a group": Case(buttons("a"), 131051, f"{DOCS}/groups/groups-messaging", to=GROUP_TO),
    "ten rows": Case(rows(*map(str, range(10)), text="x" * 4096), page=LISTS),
    "eleven rows": Case(rows(*map(str, range(11))), 131009, LISTS, "row count"),
    "a row of 25": Case(rows("x" * 25), 131009, LISTS, "Max length: 24"),
    "a description of 73": Case(rows("x", description="x" * 73), 131009, LISTS, "Max length: 72"),
    "a reaction": Case(reaction(OLD), page=REACTIONS),
    "a reaction to nothing": Case(reaction("wamid.x"), 131009, REACTIONS, later=True),
    "a reaction to a reaction": Case(reaction("wamid.cmVhY3Rpb24="), 131009, REACTIONS, later=True,
                                     prepare=a_reaction_came),
    "a reaction after 30 days": Case(reaction(OLD), 131009, REACTIONS, later=True, prepare=thirty_days_passed),
    "a reaction in a group": Case(reaction(OLD), 131051, f"{DOCS}/groups", to=GROUP_TO),
    "an unknown file": Case({"type": "image", "image": {"id": "1"}}, 131009, MEDIA),
    "after 24 hours": Case(text(), 131047, prepare=no_one_wrote),
    "after 24 hours, told later": Case(text(), 131047, later=True, prepare=window_reported),
    "a template after 24 hours": Case(template("x"), page=TEMPLATES, prepare=no_one_wrote),
    "no such template": Case(template("x", name="y"), 132001, status=404),
    "a variable too many": Case(template("x", "y"), 132000),
    "a variable with a line break": Case(template("x\ny"), 132018),
    "a variable that is too long": Case(template("x" * 1020), 132005),
}  # fmt: skip


@pytest.fixture
def double() -> WhatsAppDouble:
    made = WhatsAppDouble(now=Clock())
    made.person(ANN, "Ann")
    made.person("4920", "Carl", hides_number=True)
    made.group(GROUP, ANN)
    made.templates["semel_update", "en"] = "News: {{1}}"
    made.tell(ANN, text(), id=OLD)
    made.take_requests()
    return made


@pytest.mark.parametrize("name", CASES)
def test_a_message_gets_the_documented_answer(double: WhatsAppDouble, name: str) -> None:
    case = CASES[name]
    case.prepare(double)
    message = {"messaging_product": "whatsapp", **case.to, **case.message}
    if case.code and not case.later:
        with pytest.raises(GraphError) as caught:
            double.take(message)
        error = caught.value.body()["error"]
        assert (error["code"], caught.value.status) == (case.code, case.status), case.page
        assert case.details in json.dumps(error), case.page
        assert double.sent == {} and double.deliveries == []
        return
    answer = double.take(message)
    assert answer["messages"][0]["id"].startswith("wamid."), case.page
    reports = [json.loads(body)["entry"][0]["changes"][0]["value"] for _, body in double.take_requests()]
    statuses = [report["statuses"][0] for report in reports]
    assert [status["status"] for status in statuses][-1] == ("failed" if case.code else statuses[-1]["status"])
    assert [status["errors"][0]["code"] for status in statuses if "errors" in status] == [case.code] * bool(case.code)


@pytest.mark.parametrize(
    ("mime", "size", "kind", "code"),
    [
        ("image/jpeg", 5_000_000, "image", 0), ("image/jpeg", 5_000_001, "image", 131053),
        ("audio/ogg", 16_000_000, "audio", 0), ("video/mp4", 16_000_001, "video", 131053),
        ("text/plain", 9, "document", 0), ("image/jpeg", 9, "document", 0), ("text/plain", 9, "image", 131053),
        ("application/zip", 9, "document", 100), ("text/plain", 0, "document", 131053),
    ],
)  # fmt: skip
def test_a_file_gets_the_documented_answer(double: WhatsAppDouble, mime: str, size: int, kind: str, code: int) -> None:
    """https://developers.facebook.com/documentation/business-messaging/whatsapp/business-phone-numbers/media"""
    file = {"name": "a", "mime": mime, "content": bytes(size)}
    try:
        id = double.upload({"messaging_product": "whatsapp", "type": mime, "file": file})["id"]
        double.take({"messaging_product": "whatsapp", "to": ANN, "type": kind, kind: {"id": id}})
    except GraphError as error:
        assert error.code == code
    else:
        assert code == 0


def test_an_audio_has_no_caption(double: WhatsAppDouble) -> None:
    """https://developers.facebook.com/documentation/business-messaging/whatsapp/messages/audio-messages"""
    id = double.keep_media("a", "audio/ogg", b"x").id
    with pytest.raises(GraphError, match="caption"):
        double.take({"messaging_product": "whatsapp", "to": ANN, "type": "audio", "audio": {"id": id, "caption": "x"}})


def test_too_many_messages_are_refused_by_their_number_and_by_their_recipient(double: WhatsAppDouble) -> None:
    """https://developers.facebook.com/documentation/business-messaging/whatsapp/throughput"""
    double.limits, clock = True, double.now
    people = [double.person(f"49{n:06}", "P") for n in range(81)]

    def send(to: str) -> int:
        try:
            double.take({"messaging_product": "whatsapp", "to": to, **text()})
        except GraphError as error:
            return error.code
        return 0

    assert [send(person) for person in people] == [0] * 80 + [130429]
    clock.now += 1.0  # type: ignore[attr-defined]
    assert [send(ANN) for _ in range(46)] == [0] * 45 + [131056]
    clock.now += 271.0  # type: ignore[attr-defined]
    assert send(ANN) == 0


def test_an_answer_names_the_message_and_each_status_brings_the_callback_data(double: WhatsAppDouble) -> None:
    """https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages/status"""
    answer = double.take({"messaging_product": "whatsapp", "to": ANN, **text(biz_opaque_callback_data="k")})
    assert answer["contacts"] == [{"input": ANN, "wa_id": ANN}]
    double.read(ANN)
    reports = [json.loads(body)["entry"][0]["changes"][0] for _, body in double.take_requests()]
    told = [report["value"]["statuses"][0] for report in reports]
    assert [(one["status"], one["biz_opaque_callback_data"], one["id"], one["recipient_id"]) for one in told] == [
        (status, "k", answer["messages"][0]["id"], ANN) for status in ("sent", "delivered", "read")
    ]


def test_a_request_is_signed_over_its_bytes_and_comes_again_until_it_is_taken(double: WhatsAppDouble) -> None:
    """https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/create-webhook-endpoint"""
    double.write(ANN, "hello")
    delivery = double.next_delivery(0.0)
    assert delivery is not None
    headers, body = double.make_request(delivery.payload)
    right = hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["X-Hub-Signature-256"] == f"sha256={right}"
    double.note_delivery(delivery, 503, 0.0)
    assert double.next_delivery(0.1) is None and double.next_delivery(0.2) is delivery
    double.note_delivery(delivery, 200, 0.2)
    assert double.next_delivery(9.0) is None


def test_a_token_and_the_proof_of_its_app_are_checked(double: WhatsAppDouble) -> None:
    """https://developers.facebook.com/docs/graph-api/guides/secure-requests"""
    proof = hmac.new(APP_SECRET.encode(), TOKEN.encode(), hashlib.sha256).hexdigest()
    double.check_access(TOKEN, proof)
    for token, given, code, status in (("x", None, 190, 401), (TOKEN, "00", 100, 400)):
        with pytest.raises(GraphError) as caught:
            double.check_access(token, given)
        assert (caught.value.code, caught.value.status) == (code, status)


def test_a_file_can_be_fetched_for_five_minutes(double: WhatsAppDouble) -> None:
    """https://developers.facebook.com/documentation/business-messaging/whatsapp/business-phone-numbers/media"""
    media = double.keep_media("a.txt", "text/plain", b"milk")
    about = double.describe_media(media.id)
    assert about["file_size"] == 4 and about["sha256"] == hashlib.sha256(b"milk").hexdigest()
    assert media.url_until == double.now() + 300.0
    with pytest.raises(GraphError) as caught:
        double.describe_media("1")
    assert (caught.value.code, caught.value.subcode) == (100, 33)


def test_the_double_runs_in_a_process_of_its_own_and_does_what_a_tester_says() -> None:
    def control(name: str, **arguments: Any) -> Json:
        request = urllib.request.Request(f"{base}/control/{name}", json.dumps(arguments).encode())
        with direct.open(request, timeout=20) as answer:
            return dict(json.load(answer))

    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    arguments = [sys.executable, "-m", "semel.testing.whatsapp", "--port", "0", "--callback", "http://127.0.0.1:9/"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(5)]
            settings = dict(line.strip().split(" = ") for line in lines)
            base = json.loads(settings["api"]).removesuffix("/graph")
            assert json.loads(settings["token"]) == TOKEN
            assert control("write", person=ANN, text="hello")["result"].startswith("wamid.")
            assert control("texts", address=ANN) == {"result": []}
        finally:
            process.kill()
