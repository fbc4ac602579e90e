"""What Teams posts, as events: who is believed, and what becomes of each activity."""

from __future__ import annotations

import json
from typing import Any

import jwt
from teams_house import ANN, BOB, CHAT, TeamsHouse

from semel.channels.teams.settings import DEFAULT_SERVICE
from semel.gateway.ports import Incoming
from semel.testing.teams.model import APP_ID, SigningKey


def story(event: Incoming) -> tuple[Any, ...]:
    return event.kind, event.key, event.address, event.text, event.of


async def test_a_message_of_a_personal_chat_is_heard_with_its_person(there: TeamsHouse) -> None:
    id = there.double.write(ANN, "hello")
    [event] = await there.hear()
    assert story(event) == ("message", f"{CHAT}/{id}", CHAT, "hello", None)
    assert event.sender is not None and (event.sender.id, event.sender.name, event.sender.bot) == (ANN, "Ann", False)
    assert (event.group, event.mentioned) == (False, False) and abs(event.at - there.now) < 1


async def test_in_groups_the_mention_is_removed_and_a_thread_is_a_conversation(there: TeamsHouse) -> None:
    there.double.write(ANN, "plan it", address=there.group)
    root = there.double.write(ANN, "water them", address=there.garden)
    thread = f"{there.garden};messageid={root}"
    reply = there.double.write(BOB, "and now?", address=thread, reply_to=root)
    in_group, first, second = await there.hear()
    assert (in_group.address, in_group.text, in_group.group, in_group.mentioned) == (there.group, "plan it", True, True)
    assert in_group.title == "plans" and first.title == "garden"
    assert story(first) == ("message", f"{thread}/{root}", thread, "water them", None)
    assert story(second) == ("message", f"{thread}/{reply}", thread, "and now?", None)


async def test_others_are_mentioned_by_name_and_written_marks_mention_nobody(there: TeamsHouse) -> None:
    there.double.tell(ANN, there.group, {"type": "message", "id": "7", "text": "<at>Semel</at> ask <at>Bob</at>\n"})
    [event] = await there.hear()
    assert (event.text, event.mentioned) == ("@Semel ask @Bob", False)
    mention = {"type": "mention", "text": "<at>Semel</at>", "mentioned": {"id": f"28:{APP_ID.upper()}"}}
    message = {"type": "message", "id": "8", "text": "<at>Semel</at> go", "entities": [mention]}
    there.double.tell(ANN, there.group, message)
    [event] = await there.hear()
    assert (event.text, event.mentioned) == ("go", True)  # ids are compared without case


async def test_edits_deletions_and_reactions_are_heard_once_each(there: TeamsHouse) -> None:
    id = there.double.write(ANN, "one")
    there.double.edit(ANN, id, "two")
    there.double.delete(ANN, id)
    there.double.edit(ANN, id, "two", event="undeleteMessage")
    receipt = await there.channel.send(there.op("hello"))
    ours = receipt.id.rpartition("/")[2]
    there.double.react(ANN, ours, "like")
    there.double.react(ANN, ours, "1f440_eyes")
    there.double.react(ANN, ours, "like", removed=True)
    first, edited, deleted, undeleted, liked, seen, unliked = await there.hear()
    key = f"{CHAT}/{id}"
    assert first.key == key and [edited.of, deleted.of, undeleted.of] == [key] * 3
    assert [event.kind for event in (edited, deleted, undeleted)] == ["edit", "delete", "edit"]
    assert (edited.text, undeleted.text) == ("two", "two")
    assert [(e.kind, e.text, e.of, e.removed) for e in (liked, seen, unliked)] == [
        ("reaction", "👍", receipt.id, False), ("reaction", "👀", receipt.id, False),
        ("reaction", "👍", receipt.id, True),
    ]  # fmt: skip
    keys = [event.key for event in (first, edited, deleted, undeleted, liked, seen, unliked)]
    assert len(set(keys)) == len(keys)
    there.double.post_again()
    assert await there.hear() == []


async def test_a_reaction_in_a_thread_is_heard_there_though_teams_names_the_channel_only(there: TeamsHouse) -> None:
    thread = f"{there.garden};messageid={there.double.write(ANN, 'hello', address=there.garden)}"
    receipt = await there.channel.send(there.op("hello", to=thread))
    there.double.react(BOB, receipt.id.rpartition("/")[2], "heart", address=thread)
    _, reaction = await there.hear()
    assert (reaction.kind, reaction.address, reaction.of, reaction.text) == ("reaction", thread, receipt.id, "❤️")
    there.channel = there.fresh()  # which remembers no messages
    there.double.react(BOB, receipt.id.rpartition("/")[2], "sad", address=thread)
    [reaction] = await there.hear()
    assert reaction.address == there.garden


async def test_a_new_person_is_greeted(there: TeamsHouse) -> None:
    there.double.install(ANN)
    [hello] = await there.hear()
    assert (hello.text, hello.opens) == ("/start", True)


async def test_a_message_that_is_html_only_is_heard(there: TeamsHouse) -> None:
    html = '<div><p>is x &lt; <b>5</b>?</p><img alt="plot" src="https://example.org/p.png"></div>'
    attachments = [{"contentType": "text/html", "content": html}]
    there.double.tell(ANN, CHAT, {"type": "message", "id": "8", "text": "", "attachments": attachments})
    [event] = await there.hear()
    assert event.text == "is x < 5?\n\n[image: plot]" and event.files == ()


async def test_what_nobody_said_is_no_event_and_what_is_odd_is_kept(there: TeamsHouse) -> None:
    for activity in ({"type": "conversationUpdate"}, {"type": "invoke", "name": "x"}, {"type": "typing"}):
        there.double.tell(ANN, CHAT, {"id": "f:1", **activity})
    there.double.tell(ANN, CHAT, {"type": "message", "id": "9", "from": {"id": f"28:{APP_ID}"}, "text": "me"})
    assert await there.hear() == []
    there.double.tell(ANN, CHAT, {"type": "message", "text": "no id"})
    there.double.tell(ANN, CHAT, {"type": "message", "id": "9", "conversation": {"id": "x y"}, "text": "nowhere"})
    assert [event.kind for event in await there.hear()] == ["unreadable", "unreadable"]


REFUSED: dict[str, dict[str, Any]] = {
    "another bot": {"aud": "11111111-0c5e-4c5e-9a51-3f0d7b1f6a20"}, "another issuer": {"iss": "https://sts.windows.net/x/"},
    "it ended": {"exp": 1_600_000_000}, "it never ends": {"exp": None}, "it begins later": {"nbf": 4_000_000_000},
    "another serviceUrl": {"serviceurl": "https://evil.example/"}, "no serviceUrl": {"serviceurl": None},
    "no audience": {"aud": None},
}  # fmt: skip


async def test_only_a_token_of_microsofts_for_this_bot_is_believed(there: TeamsHouse) -> None:
    there.double.write(ANN, "hello")
    activity = there.double.deliveries.pop().payload
    for why, claims in REFUSED.items():
        assert (await there.take(*there.double.make_request(activity, **claims)))[0] == 401, why
    headers, body = there.double.make_request(activity)
    token = headers["Authorization"].removeprefix("Bearer ")
    forged = SigningKey().sign(activity["serviceUrl"], there.now)
    unsigned = jwt.encode(
        jwt.decode(token, options={"verify_signature": False}), None, "none", headers={"kid": "key-1"}
    )
    symmetric = jwt.encode({"aud": APP_ID}, "k" * 32, "HS256", headers={"kid": "key-1"})
    for wrong in (
        "",
        "Bearer",
        f"Basic {token}",
        "Bearer x.y.z",
        *(f"Bearer {t}" for t in (forged, unsigned, symmetric)),
    ):
        assert (await there.take({"authorization": wrong}, body))[0] == 401, wrong
    assert (await there.take(headers, b"[]"))[0] == 401
    other = json.dumps({**activity, "channelId": "webchat"}).encode()
    assert (await there.take(headers, other))[0] == 401
    assert there.inbox.events == []
    assert (await there.take({"authorization": headers["Authorization"]}, body))[0] == 200


async def test_a_key_without_endorsement_is_refused_and_a_new_key_is_read(there: TeamsHouse) -> None:
    there.double.write(ANN, "hello")
    activity = there.double.deliveries.pop().payload
    assert (await there.take(*there.double.make_request(activity)))[0] == 200
    there.double.keys[0] = SigningKey("key-2", ["webchat"])
    assert (await there.take(*there.double.make_request(activity)))[0] == 401
    assert there.calls("keys") == ["keys"]  # not for each token with an unknown key
    there.now += 400.0
    assert (await there.take(*there.double.make_request(activity)))[0] == 401
    there.now += 400.0
    there.double.keys[0] = SigningKey("key-3")
    assert (await there.take(*there.double.make_request(activity)))[0] == 200
    assert there.calls("keys") == ["keys"] * 3


async def test_while_the_keys_cannot_be_read_nothing_is_taken(there: TeamsHouse) -> None:
    there.double.write(ANN, "hello")
    [request] = there.double.take_requests()
    there.double.fail("openid", "502")
    there.double.fail("keys", "html")
    assert [(await there.take(*request))[0] for _ in range(3)] == [503, 503, 200]


async def test_known_keys_are_used_for_days_while_they_cannot_be_read_again(there: TeamsHouse) -> None:
    async def post(text: str) -> int:
        there.double.write(ANN, text)
        [request] = there.double.take_requests()
        return (await there.take(*request))[0]

    assert await post("one") == 200
    there.double.fail("openid", "502", times=None)
    there.now += 2 * 86400.0
    assert [await post("two"), await post("three")] == [200, 200]
    assert there.calls("openid") == ["openid"] * 2  # not for each request
    there.now += 4 * 86400.0
    assert await post("four") == 503
    there.double.faults.clear()
    assert await post("four") == 200


async def test_tokens_with_unknown_keys_cannot_keep_the_others_waiting(there: TeamsHouse) -> None:
    there.double.write(ANN, "hello")
    activity = there.double.deliveries.pop().payload
    assert (await there.take(*there.double.make_request(activity)))[0] == 200
    there.now += 400.0
    there.double.fail("openid", "502", times=None)
    forged = {"authorization": f"Bearer {SigningKey('key-9').sign(activity['serviceUrl'], there.now)}"}
    body = there.double.make_request(activity)[1]
    assert [(await there.take(forged, body))[0] for _ in range(5)] == [503] * 5  # it may be a new key
    assert (await there.take(*there.double.make_request(activity)))[0] == 200
    assert there.calls("openid") == ["openid"] * 2  # not for each of them


async def test_no_access_token_goes_to_an_address_without_tls(there: TeamsHouse) -> None:
    there.double.write(ANN, "hello")
    activity = there.double.deliveries.pop().payload
    elsewhere = {**activity, "serviceUrl": "http://192.0.2.1/teams/"}
    assert (await there.take(*there.double.make_request(elsewhere)))[0] == 401
    there.channel = there.fresh(service_url=DEFAULT_SERVICE)
    assert (await there.take(*there.double.make_request(activity)))[0] == 401
    public = {**activity, "serviceUrl": "https://smba.trafficmanager.net/emea/"}
    assert (await there.take(*there.double.make_request(public)))[0] == 200
