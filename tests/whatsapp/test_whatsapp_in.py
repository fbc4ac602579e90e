"""What people do on WhatsApp, as it reaches the inbox."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from whatsapp_house import ANN, BOB, GROUP, WhatsAppHouse, whatsapp

from semel.channels.whatsapp import receive
from semel.channels.whatsapp.message_content import UNSUPPORTED
from semel.gateway.ports import Button, Kept, Missing
from semel.testing.whatsapp import NUMBER_ID

LOCATION = {"latitude": 37.44, "longitude": -122.16, "name": "HQ", "address": "1 Hacker Way"}
CONTACT = {"name": {"formatted_name": "Barbara"}, "phones": [{"phone": "+1 650"}], "emails": [{"email": "b@x.org"}]}
ORDER = {"product_items": [{"product_retailer_id": "di9", "quantity": 2, "item_price": 30, "currency": "USD"}]}


async def test_a_message_comes_with_its_author_and_what_it_replies_to(there: WhatsAppHouse) -> None:
    first = there.double.write(ANN, "hello")
    second = there.double.write(ANN, "again", reply_to=first, forwarded=True)
    assert await there.deliver() == [200, 200]
    hello, again = there.inbox.events
    assert (hello.kind, hello.key, hello.address, hello.text, hello.group) == ("message", first, ANN, "hello", False)
    assert (hello.sender.id, hello.sender.name, hello.at) == (ANN, "Ann", int(there.clock.now))
    assert (again.key, again.of, again.data) == (second, first, {"forwarded": "somebody else"})


async def test_several_messages_and_statuses_of_one_request_all_count_and_their_repeats_do_not(
    there: WhatsAppHouse,
) -> None:
    await there.channel.send(there.op("ours"))
    for person in (ANN, BOB):
        there.double.write(person, f"hello of {person}")
    assert await there.deliver(together=True) == [200]
    kinds = [(event.kind, event.text) for event in there.inbox.events]
    assert kinds == [("echo", ""), ("message", f"hello of {ANN}"), ("message", f"hello of {BOB}")]
    there.double.post_again()
    assert set(await there.deliver()) == {200}
    assert len(there.inbox.events) == 3


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"type": "button", "button": {"text": "No", "payload": "no-payload"}}, "No"),
        ({"type": "location", "location": LOCATION}, "[location: HQ, 1 Hacker Way, 37.44, -122.16]"),
        ({"type": "contacts", "contacts": [CONTACT]}, "[contact: Barbara, +1 650, b@x.org]"),
        ({"type": "order", "order": ORDER}, "[order]\n- 2 × di9, 30 USD"),
        ({"type": "interactive", "interactive": {"type": "nfm_reply", "nfm_reply": {"response_json": "{}"}}}, "{}"),
        ({"type": "unsupported", "errors": [{"code": 131051, "title": "Message type unknown"}]},
         f"{UNSUPPORTED[:-1]}: Message type unknown]"),
        ({"type": "something_new", "something_new": {}}, "[something new]"),
        ({"type": "text", "text": {"body": "half \ud83d"}}, "half \ufffd"),
        ({"type": "text", "text": {"body": ""}}, "[a message without text]"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["type"],
)  # fmt: skip
async def test_what_is_no_text_is_described(there: WhatsAppHouse, message: dict[str, Any], text: str) -> None:
    [event] = await there.tell(message)
    assert (event.kind, event.text) == ("message", text)


async def test_a_chat_that_is_opened_is_greeted_and_a_changed_number_is_no_message(there: WhatsAppHouse) -> None:
    [opened] = await there.tell({"type": "request_welcome"})
    assert (opened.opens, opened.text) == (True, "/start")
    assert await there.tell({"type": "system", "system": {"type": "user_changed_number", "body": "x"}}) == []


async def test_reactions_edits_and_deletions_name_their_message(there: WhatsAppHouse) -> None:
    id = there.double.write(ANN, "hello")
    there.double.react(ANN, id, "👍")
    there.double.react(ANN, id, "")
    there.double.edit(ANN, id, "hello there")
    there.double.revoke(ANN, id)
    await there.deliver()
    told = [(event.kind, event.of, event.text, event.removed) for event in there.inbox.events[1:]]
    assert told == [
        ("reaction", id, "👍", False), ("reaction", id, "", True), ("edit", id, "hello there", False),
        ("delete", id, "", False),
    ]  # fmt: skip


async def test_a_press_is_an_answer_and_proves_that_our_message_arrived(there: WhatsAppHouse) -> None:
    there.double.statuses = False
    buttons = (Button("Allow", "/approve 1", "allow"), Button("Deny", "/deny 1", "deny"))
    receipt = await there.channel.send(there.op("May I?", buttons=buttons, key="part-1"))
    press = there.double.press(ANN, receipt.id, "Allow")
    await there.deliver()
    echo, answer = there.inbox.events
    assert (echo.kind, echo.key, echo.of) == ("echo", "part-1", receipt.id)
    assert (answer.text, answer.of, answer.mentioned, answer.key) == ("/approve 1", receipt.id, True, f"press:{press}")


async def test_a_group_is_an_address_of_its_own_and_a_reply_to_us_is_for_us(there: WhatsAppHouse) -> None:
    there.double.group(GROUP, ANN, BOB)
    ours = await there.channel.send(there.op("Hello all", to=f"group-{GROUP}"))
    there.double.write(ANN, "hello", group=GROUP)
    there.double.write(BOB, "you!", group=GROUP, reply_to=ours.id)
    await there.deliver()
    hello, reply = [event for event in there.inbox.events if event.kind == "message"]
    assert (hello.address, hello.group, hello.mentioned, hello.sender.id) == (f"group-{GROUP}", True, False, ANN)
    assert (reply.mentioned, reply.of) == (True, ours.id)


async def test_who_hides_their_number_is_known_by_their_user_id(there: WhatsAppHouse) -> None:
    carl = there.double.person("4920", "Carl", hides_number=True)
    there.double.write(carl, "hello")
    await there.deliver()
    assert [(event.address, event.sender.id, event.sender.name) for event in there.inbox.events] == [
        ("US.4920", "US.4920", "Carl")
    ]
    await there.channel.send(there.op("hello", to=carl))
    assert there.asked()[-1]["recipient"] == "US.4920" and "to" not in there.asked()[-1]


async def test_messages_of_other_numbers_and_other_fields_are_left_out(
    there: WhatsAppHouse, caplog: pytest.LogCaptureFixture
) -> None:
    there.double.write(ANN, "for another number")
    payload = there.double.deliveries.pop().payload
    payload["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = "1"
    other = {"field": "account_update", "value": {"event": "x"}}
    payload["entry"][0]["changes"].append(other)
    headers, body = there.double.make_request(payload)
    for _ in range(3):
        assert await there.channel.receive(there.inbox, headers, body) == (200, {})
    assert there.inbox.events == []
    there.clock.now += receive.OTHER_NUMBER_LOG_INTERVAL_S
    await there.channel.receive(there.inbox, headers, body)
    logged = [record.getMessage() for record in caplog.records if "another number" in record.getMessage()]
    assert len(logged) == 2, "once an hour"
    assert "phone_number_id 1, which" in logged[0] and f"has {NUMBER_ID}" in logged[0]


async def test_what_cannot_be_read_is_kept_as_it_came_and_stops_nothing(there: WhatsAppHouse) -> None:
    there.double.tell(ANN, {"type": "text", "text": {"body": "odd"}, "timestamp": "soon"}, id="wamid.odd")
    there.double.write(ANN, "fine")
    assert await there.deliver(together=True) == [200]
    odd, fine = there.inbox.events
    assert (odd.kind, odd.key, fine.text) == ("unreadable", "message/wamid.odd", "fine")
    assert b'"soon"' in odd.raw and "ValueError" in odd.why


@pytest.mark.parametrize(
    ("path", "value", "kept", "why"),
    [
        ("entry", None, 1, "its entry is no list"),
        ("entry", {"changes": []}, 1, "its entry is no list"),
        ("entry", ["odd"], 1, "an item of its entry is no object"),
        ("entry.0.changes", "odd", 1, "its changes is no list"),
        ("entry.0.changes", [7], 1, "an item of its changes is no object"),
        ("entry.0.changes.0.field", ["messages"], 1, "its field or its value is not as documented"),
        ("entry.0.changes.0.value", ["odd"], 1, "its field or its value is not as documented"),
        ("entry.0.changes.0.value.metadata", [], 1, "its metadata names no phone_number_id"),
        ("entry.0.changes.0.value.messages", {"0": "odd"}, 1, "its messages is no list"),
        ("entry.0.changes.0.value.messages", ["odd", 3], 2, "an item of its messages is no object"),
        ("entry.0.changes.0.value.statuses", "odd", 2, "its statuses is no list"),
    ],
    ids=str,
)
async def test_a_request_that_is_not_as_documented_is_kept_and_not_lost(
    there: WhatsAppHouse, path: str, value: Any, kept: int, why: str
) -> None:
    there.double.write(ANN, "hello")
    payload = there.double.deliveries.pop().payload
    place: Any = payload
    *parents, last = [int(name) if name.isdigit() else name for name in path.split(".")]
    for name in parents:
        place = place[name]
    place[last] = value
    headers, body = there.double.make_request(payload)
    for _ in range(2):
        assert await there.channel.receive(there.inbox, headers, body) == (200, {})
    assert len(there.inbox.events) == kept, "once, however often it comes"
    assert next(event.why for event in there.inbox.events if event.kind == "unreadable") == why
    assert ("hello" in [event.text for event in there.inbox.events]) is ("statuses" in path)


@pytest.mark.parametrize("body", [b"{ not JSON", b"[]", b""])
async def test_a_signed_request_that_is_no_json_object_is_kept_and_does_not_come_again(
    there: WhatsAppHouse, body: bytes
) -> None:
    signature = hmac.new(there.double.app_secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-hub-signature-256": f"sha256={signature}"}
    for _ in range(2):
        assert await there.channel.receive(there.inbox, headers, body) == (200, {})
    [event] = there.inbox.events
    assert (event.kind, event.raw) == ("unreadable", body) and event.why.startswith("the body is no")


@pytest.mark.parametrize(
    "header", [None, "", "sha256=00", "sha256=" + "0" * 64, "sha256=\u00e9"], ids=lambda header: repr(header)
)
async def test_a_request_that_meta_did_not_sign_is_refused(there: WhatsAppHouse, header: str | None) -> None:
    there.double.write(ANN, "hello")
    [(headers, body)] = there.double.take_requests()
    del headers["X-Hub-Signature-256"]
    forged = headers | ({} if header is None else {"x-hub-signature-256": header})
    status, problem = await there.channel.receive(there.inbox, forged, body)
    assert (status, problem["type"]) == (401, "urn:semel:problem:bad-signature") and there.inbox.events == []


async def test_a_request_is_answered_after_the_commit_and_comes_again_if_there_was_none(there: WhatsAppHouse) -> None:
    there.double.write(ANN, "hello")
    [(headers, body)] = there.double.take_requests()
    there.inbox.fail = OSError("no space left on device")
    with pytest.raises(OSError, match="no space"):
        await there.channel.receive(there.inbox, headers, body)
    for _ in range(2):
        assert await there.channel.receive(there.inbox, headers, body) == (200, {})
    assert [event.text for event in there.inbox.events] == ["hello"]


async def test_a_file_is_fetched_by_its_id_with_the_token_and_checked(there: WhatsAppHouse) -> None:
    there.double.send_file(ANN, "list.txt", b"milk", caption="to buy")
    there.double.send_file(ANN, "x", b"\xff\xd8\xff", "image/jpeg")
    await there.deliver()
    listed, photo = there.inbox.events
    [kept], [picture] = listed.files, photo.files
    assert isinstance(kept, Kept) and (kept.name, kept.size, listed.text) == ("list.txt", 4, "to buy")
    assert (there.tmp_path / "files" / kept.id).read_bytes() == b"milk"
    assert isinstance(picture, Kept) and (picture.name, picture.mime, photo.text) == ("image.jpg", "image/jpeg", "")


async def test_a_file_that_cannot_be_fetched_lets_meta_come_again_and_is_missing_in_the_end(
    there: WhatsAppHouse,
) -> None:
    there.double.send_file(ANN, "list.txt", b"milk")
    [media] = there.double.media.values()
    digest = hashlib.sha256(b"milk").hexdigest()
    there.double.describe_media = lambda id: {  # type: ignore[method-assign]
        "url": f"{there.double.url}/files/{id}", "sha256": digest, "file_size": "4",
    }  # fmt: skip
    media.url_until, media.content = there.clock.now + 9, b"silk"
    [(headers, body)] = there.double.take_requests()
    outcomes = [(await there.channel.receive(there.inbox, headers, body))[0] for _ in range(3)]
    assert outcomes == [503, 503, 200]
    [event] = there.inbox.events
    assert isinstance(event.files[0], Missing) and "came damaged" in event.files[0].why


async def test_what_is_not_to_be_fetched_is_missing_and_says_why(tmp_path: Path) -> None:
    async with whatsapp(tmp_path, file_limit=3) as there:
        there.double.send_file(ANN, "long.txt", b"milk")
        there.double.send_file(BOB, "a.txt", b"a")
        there.inbox.strangers.add(BOB)
        there.double.send_file(ANN, "elsewhere.txt", b"a")
        *_, media = there.double.media.values()
        describe = there.double.describe_media
        there.double.describe_media = lambda id: (  # type: ignore[method-assign]
            describe(id) | ({"url": "http://127.0.0.2:1/x"} if id == media.id else {})
        )
        assert await there.deliver() == [200, 200, 200]
        reasons = [event.files[0].why for event in there.inbox.events]
        assert reasons == [
            "it is larger than 3 bytes", "it was not fetched: its sender is not known here",
            "its address is not one of Meta's",
        ]  # fmt: skip


async def test_messages_are_taken_while_meta_cannot_be_reached(there: WhatsAppHouse) -> None:
    there.double.fail("*", "500", times=None)
    there.double.write(ANN, "hello")
    assert await there.deliver() == [200]


async def test_who_wrote_when_is_kept_with_the_message(there: WhatsAppHouse) -> None:
    there.double.write(ANN, "hello")
    await there.deliver()
    assert json.loads(str(there.inbox.at))["heard"] == {ANN: float(int(there.clock.now))}
